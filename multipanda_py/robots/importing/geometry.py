# SPDX-License-Identifier: Apache-2.0
"""Collision and visual geometry of links, and the smallest capsule around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import pi
from pathlib import Path
from typing import TypeAlias

import coal
import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import check_regular
from multipanda_py.robots.geometry import Capsule, rotation_of_axis
from multipanda_py.state import Matrix, Vector

Triangles: TypeAlias = NDArray[np.int32]
MAX_MESH = 1 << 28
"""Maximum size of a mesh [bytes]."""


def find_mesh(name: str, description: Path, packages: Sequence[Path] = ()) -> Path:
    """Return the path of a mesh that a description names.

    ``package://NAME/...`` is searched in folders called NAME, and in folders that contain one: the
    given folders first, then those above the description. ``file://...`` is an absolute path. Any
    other name is relative to the description's folder.

    Args:
        name: Name in the description.
        description: Path of the description.
        packages: Folders of packages, or folders that contain packages.

    Raises:
        ConfigurationError: The mesh does not exist; the message lists the searched paths.
    """
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        folders = [*packages, *description.resolve().parents]
        tried = [folder / rest for folder in folders if folder.name == package]
        tried += [folder / package / rest for folder in folders]
    else:
        tried = [description.parent / name.removeprefix("file://")]
    result = next((path for path in tried if path.is_file()), None)
    if result is None:
        paths = " or ".join(str(path) for path in tried[:3])
        hint = "; set the folder of packages with --package-path" if "://" in name else ""
        raise ConfigurationError(
            f"{description}: mesh: {name!r} does not exist; searched: {paths}{hint}"
        )
    return result


def read_mesh(path: Path, scale: Sequence[float]) -> tuple[Matrix, Triangles]:
    """Read vertices, (n, 3) [m], and triangles, (m, 3), of a mesh in any format of assimp.

    Args:
        path: Path of the mesh.
        scale: Factors along x, y and z from the units of the file to metres.

    Raises:
        ConfigurationError: The mesh cannot be read.
    """
    try:
        check_regular(path, MAX_MESH)
        mesh = coal.MeshLoader(coal.BV_AABB).load(str(path), np.array(scale, dtype=np.float64))
    except (OSError, ValueError, RuntimeError) as error:
        lines = [line for line in str(error).splitlines() if line]
        raise ConfigurationError(f"{path}: cannot be read as a mesh: {lines[-1]}") from None
    faces = [mesh.tri_indices(i) for i in range(mesh.num_tris)]
    triangles = np.array([(face[0], face[1], face[2]) for face in faces], dtype=np.int32)
    return np.array(mesh.vertices()), triangles


POLYGON_SIDES = 32
"""Number of sides of the polygons that enclose the rims of a cylinder."""


def _directions(count: int) -> Matrix:
    """Return unit vectors spread evenly over the sphere by the golden angle, (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (1.0 + 5.0**0.5) * np.arange(count)
    radius = np.sqrt(1.0 - z**2)
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle), z))


_DIRECTIONS = _directions(200)


@dataclass(frozen=True, eq=False)
class Cloud:
    """Convex hull of balls: mesh vertices, box corners, a sphere or the rims of a cylinder.

    Attributes:
        points: Centres of the balls, (n, 3) [m].
        radii: Radii of the balls, (n,) [m].
    """

    points: Matrix
    radii: Vector

    def placed(self, position: Vector, rotation: Matrix) -> Cloud:
        """Return the cloud in a parent frame.

        Args:
            position: Position of the cloud's frame in the parent, (3,) [m].
            rotation: Rotation of the cloud's frame in the parent, (3, 3).
        """
        return Cloud(self.points @ rotation.T + position, self.radii)

    def distance_outside(self, point: Vector) -> float:
        """Return the distance of a point (3,) outside the hull [m], checked in many directions."""
        reach = (_DIRECTIONS @ self.points.T + self.radii).max(axis=1)
        return max(0.0, float((_DIRECTIONS @ point - reach).max()))

    def outermost(self) -> Cloud:
        """Return the balls that are extreme in one of many directions, or all if they are few."""
        if len(self.points) <= len(_DIRECTIONS):
            return self
        reach = _DIRECTIONS @ self.points.T + self.radii
        chosen = np.unique(reach.argmax(axis=1))
        return Cloud(self.points[chosen], self.radii[chosen])


def joined(clouds: Sequence[Cloud]) -> Cloud:
    return Cloud(
        np.concatenate([cloud.points for cloud in clouds]),
        np.concatenate([cloud.radii for cloud in clouds]),
    )


def corners(points: Matrix) -> Cloud:
    """Return the cloud of points, (n, 3) [m], with radius zero."""
    return Cloud(points, np.zeros(len(points)))


def box(*size: float) -> Cloud:
    """Return a box around the origin with three edges [m]."""
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return corners(signs * np.array(size) / 2.0)


def sphere(radius: float) -> Cloud:
    """Return a sphere around the origin [m]."""
    return Cloud(np.zeros((1, 3)), np.array([radius]))


def capsule(radius: float, length: float) -> Cloud:
    """Return a capsule around the origin along z.

    Args:
        radius: Radius [m].
        length: Length without the round ends [m].
    """
    ends = np.array([[0.0, 0.0, -length / 2.0], [0.0, 0.0, length / 2.0]])
    return Cloud(ends, np.full(2, radius))


def cylinder(radius: float, length: float) -> Cloud:
    """Return a cylinder around the origin along z.

    Args:
        radius: Radius [m].
        length: Length [m].
    """
    angle = 2.0 * np.pi * np.arange(POLYGON_SIDES) / POLYGON_SIDES
    rim = radius / np.cos(np.pi / POLYGON_SIDES)
    x, y = rim * np.cos(angle), rim * np.sin(angle)
    return corners(
        np.concatenate(
            [
                np.column_stack((x, y, np.full(POLYGON_SIDES, z)))
                for z in (-length / 2.0, length / 2.0)
            ]
        )
    )


Mesh: TypeAlias = tuple[Matrix, Triangles]
"""Vertices, (n, 3) [m], and triangles, (m, 3)."""
_CLOUDS: dict[str, Callable[..., Cloud]] = {
    "box": box,
    "sphere": sphere,
    "cylinder": cylinder,
    "capsule": capsule,
}


@dataclass(frozen=True, eq=False)
class Shape:
    """Solid with a pose in the frame of its link.

    Attributes:
        kind: ``box``, ``sphere``, ``cylinder``, ``capsule`` or ``mesh``.
        size: Edges of a box; radius of a sphere; radius and length of a cylinder, or of a capsule
            without its round ends; empty for a mesh [m].
        position: Position of its centre or origin, (3,) [m].
        rotation: Orientation, (3, 3); cylinders and capsules are along z.
        mesh: Function that reads the vertices and triangles of a mesh.
        rgba: Colour, or None if the description has none.
    """

    kind: str
    size: tuple[float, ...]
    position: Vector
    rotation: Matrix
    mesh: Callable[[], Mesh] | None = None
    rgba: tuple[float, ...] | None = None

    def cloud(self) -> Cloud:
        """Return the points that a capsule must contain, in the frame of the link.

        Raises:
            ConfigurationError: A mesh cannot be read.
        """
        own = corners(self.mesh()[0]) if self.mesh else _CLOUDS[self.kind](*self.size)
        return own.placed(self.position, self.rotation)


RADIUS_FACTORS = np.array([1.0, 1.01, 1.02, 1.04, 1.06, 1.08, 1.1, 1.14, 1.2, 1.3, 1.5])
"""Radii to try for a capsule along a given line, as multiples of the smallest possible radius."""
FIRST_STEP, LAST_STEP = 0.3, 0.003
"""Initial and final step of the search for the line: angle [rad], and offset as fraction of the
cloud's size."""
MIN_SEGMENT_LENGTH = 1e-3
"""Minimum length of a capsule's segment, which must have a direction [m]."""


def volume(capsule: Capsule) -> float:
    """Return the volume of a capsule [m^3]."""
    length = float(np.linalg.norm(np.subtract(capsule.end, capsule.start)))
    return pi * capsule.radius**2 * (length + 4.0 / 3.0 * capsule.radius)


def min_capsule(cloud: Cloud) -> Capsule:
    r"""Return a small capsule that contains a cloud.

    For a line, let ball :math:`i` with radius :math:`s_i` have the height :math:`t_i` along the
    line and the distance :math:`\rho_i` from it. A capsule with radius
    :math:`r \ge \max_i (\rho_i + s_i)` then needs the segment

    .. math::
        \left[ \min_i \left( t_i + c_i \right),\ \max_i \left( t_i - c_i \right) \right],
        \qquad c_i = \sqrt{(r - s_i)^2 - \rho_i^2}.

    The search for the line starts at the three principal axes of the points. It changes direction
    and position by steps, which are halved when no step reduces the volume. The result is a local
    minimum. The same cloud always gives the same capsule.
    """
    low = (cloud.points - cloud.radii[:, None]).min(axis=0)
    high = (cloud.points + cloud.radii[:, None]).max(axis=0)
    middle, size = (low + high) / 2.0, float(np.linalg.norm(high - low))
    local = Cloud((cloud.points - middle) / size, cloud.radii / size)
    outer = local.outermost()
    centred = outer.points - outer.points.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1].T
    lines = [_search(outer, axis) for axis in axes]
    positions, axes = (np.array(values) for values in zip(*lines))
    volumes, starts, ends, radii = _about(local, positions, axes)
    i = int(np.argmin(volumes))
    lack = max(0.0, MIN_SEGMENT_LENGTH / size - float(ends[i] - starts[i])) / 2.0
    heights = (starts[i] - lack, ends[i] + lack)
    first, second = ((positions[i] + height * axes[i]) * size + middle for height in heights)
    (x, y, z), (u, v, w) = first.tolist(), second.tolist()
    return Capsule((x, y, z), (u, v, w), float(radii[i] * size))


def _search(cloud: Cloud, axis: Vector) -> tuple[Vector, Vector]:
    """Improve the line along an axis until small steps do not help; return position, direction."""
    frame = rotation_of_axis(axis)
    across = cloud.points @ frame
    center = frame @ ((across.min(axis=0) + across.max(axis=0)) / 2.0)
    min_value, step = np.inf, FIRST_STEP
    while step > LAST_STEP:
        sides = np.concatenate((frame[:, :2].T, -frame[:, :2].T)) * step
        tilted = frame[:, 2] + sides
        tilted /= np.linalg.norm(tilted, axis=1)[:, None]
        axes = np.concatenate((frame[None, :, 2], np.tile(frame[:, 2], (4, 1)), tilted))
        positions = np.concatenate((center[None], center + sides, np.tile(center, (4, 1))))
        volumes = _about(cloud, positions, axes)[0]
        i = int(np.argmin(volumes))
        if i and volumes[i] < min_value:
            center, frame = positions[i], rotation_of_axis(axes[i])
        else:
            step /= 2.0
        min_value = volumes[i]
    return center, frame[:, 2]


def _about(cloud: Cloud, positions: Matrix, axes: Matrix) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the smallest capsule along each of k lines.

    Args:
        cloud: Balls that a capsule must contain.
        positions: Points on the lines, (k, 3) [m].
        axes: Unit directions of the lines, (k, 3).

    Returns:
        Volumes [m^3], heights of both ends of the segments along the lines [m], and radii [m],
        (k,) each.
    """
    offsets = cloud.points - positions[:, None]
    heights = np.einsum("knj,kj->kn", offsets, axes)
    away = np.sqrt(np.maximum((offsets**2).sum(axis=2) - heights**2, 0.0))
    radii = (away + cloud.radii).max(axis=1)[:, None] * RADIUS_FACTORS
    remaining = (radii[:, :, None] - cloud.radii) ** 2 - away[:, None] ** 2
    reach = np.sqrt(np.maximum(remaining, 0.0))
    starts = (heights[:, None] + reach).min(axis=2)
    ends = (heights[:, None] - reach).max(axis=2)
    # If a sphere contains all balls, the start is beyond the end. Both are then set to the middle.
    middles = (starts + ends) / 2.0
    starts, ends = np.minimum(starts, middles), np.maximum(ends, middles)
    volumes = pi * radii**2 * (ends - starts + 4.0 / 3.0 * radii)
    best = (np.arange(len(positions)), volumes.argmin(axis=1))
    return volumes[best], starts[best], ends[best], radii[best]
