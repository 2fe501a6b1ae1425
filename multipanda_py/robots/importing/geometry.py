# SPDX-License-Identifier: Apache-2.0
"""The least capsule around a cloud."""

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
    """Return the file that a description calls so.

    ``package://NAME/...`` is looked for in folders that are called NAME or have one of that
    name: those that are given, then those above the description. ``file://...`` is an absolute
    path, all else one from the description's folder.

    Args:
        name: As the description has it.
        description: The file that names it.
        packages: Folders of packages, or with packages in them.

    Raises:
        ConfigurationError: If it is not there; says where it was looked for.
    """
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        folders = [*packages, *description.resolve().parents]
        tried = [folder / rest for folder in folders if folder.name == package]
        tried += [folder / package / rest for folder in folders]
    else:
        tried = [description.parent / name.removeprefix("file://")]
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        places = " or ".join(str(path) for path in tried[:3])
        hint = "; --package-path says where packages are" if "://" in name else ""
        raise ConfigurationError(
            f"{description}: mesh: got {name!r}, which is not there, allowed a file: "
            f"{places}{hint}"
        )
    return found


def read_mesh(path: Path, scale: Sequence[float]) -> tuple[Matrix, Triangles]:
    """Return vertices, (n, 3) [m], and triangles, (m, 3), of a mesh that assimp reads.

    Raises:
        ConfigurationError: If it cannot be read.
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


SIDES = 32
"""Of the polygons around the rims of a cylinder, which they contain."""


def _directions(count: int) -> Matrix:
    """Return unit vectors spread evenly over the sphere by the golden angle, (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (1.0 + 5.0**0.5) * np.arange(count)
    radius = np.sqrt(1.0 - z**2)
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle), z))


_DIRECTIONS = _directions(200)


@dataclass(frozen=True, eq=False)
class Cloud:
    """The convex hull of some balls: corners of a mesh or box, a sphere, rims of a cylinder.

    Attributes:
        points: Centres, (n, 3) [m].
        radii: Of the balls, (n,) [m].
    """

    points: Matrix
    radii: Vector

    def placed(self, position: Vector, rotation: Matrix) -> Cloud:
        """Return it in the frame in which it has this pose: (3,) [m] and (3, 3)."""
        return Cloud(self.points @ rotation.T + position, self.radii)

    def distance_outside(self, point: Vector) -> float:
        """Return how far a point, (3,), is outside as seen in many directions, or 0 [m]."""
        reach = (_DIRECTIONS @ self.points.T + self.radii).max(axis=1)
        return max(0.0, float((_DIRECTIONS @ point - reach).max()))

    def outermost(self) -> Cloud:
        """Return what reaches farthest in one of many directions; all of it if that is little."""
        if len(self.points) <= len(_DIRECTIONS):
            return self
        reach = _DIRECTIONS @ self.points.T + self.radii
        chosen = np.unique(reach.argmax(axis=1))
        return Cloud(self.points[chosen], self.radii[chosen])


def joined(clouds: Sequence[Cloud]) -> Cloud:
    """Return several clouds as one."""
    return Cloud(
        np.concatenate([cloud.points for cloud in clouds]),
        np.concatenate([cloud.radii for cloud in clouds]),
    )


def corners(points: Matrix) -> Cloud:
    """Return the cloud of bare points, (n, 3) [m]."""
    return Cloud(points, np.zeros(len(points)))


def box(*size: float) -> Cloud:
    """Return a box about the origin with three edges [m]."""
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return corners(signs * np.array(size) / 2.0)


def sphere(radius: float) -> Cloud:
    """Return a sphere about the origin [m]."""
    return Cloud(np.zeros((1, 3)), np.array([radius]))


def capsule(radius: float, length: float) -> Cloud:
    """Return a capsule about the origin and the z axis; its length is without the ends [m]."""
    ends = np.array([[0.0, 0.0, -length / 2.0], [0.0, 0.0, length / 2.0]])
    return Cloud(ends, np.full(2, radius))


def cylinder(radius: float, length: float) -> Cloud:
    """Return a cylinder about the origin and the z axis [m]."""
    angle = 2.0 * np.pi * np.arange(SIDES) / SIDES
    rim = radius / np.cos(np.pi / SIDES)
    x, y = rim * np.cos(angle), rim * np.sin(angle)
    return corners(
        np.concatenate(
            [np.column_stack((x, y, np.full(SIDES, z))) for z in (-length / 2.0, length / 2.0)]
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
    """A solid at a place in the frame of its link.

    Attributes:
        kind: ``box``, ``sphere``, ``cylinder``, ``capsule`` or ``mesh``.
        size: Edges; radius; radius and length (of a capsule without its ends); of a mesh nothing.
        position: Of its centre or origin, (3,) [m].
        rotation: Of its axes, (3, 3); cylinders and capsules are about z.
        mesh: Reads the vertices and triangles of a mesh.
        rgba: Its colour, if the description says one.
    """

    kind: str
    size: tuple[float, ...]
    position: Vector
    rotation: Matrix
    mesh: Callable[[], Mesh] | None = None
    rgba: tuple[float, ...] | None = None

    def cloud(self) -> Cloud:
        """Return what a capsule around it has to contain, in the frame of the link.

        Raises:
            ConfigurationError: If a mesh cannot be read.
        """
        own = corners(self.mesh()[0]) if self.mesh else _CLOUDS[self.kind](*self.size)
        return own.placed(self.position, self.rotation)


RADII = np.array([1.0, 1.01, 1.02, 1.04, 1.06, 1.08, 1.1, 1.14, 1.2, 1.3, 1.5])
"""Tried of a capsule about a given line, as multiples of the least one."""
FIRST_STEP, LAST_STEP = 0.3, 0.003
"""Of the search for the line: angles [rad], and offsets as shares of the cloud's size."""
SHORTEST = 1e-3
"""Segment of a capsule, which has to have a direction [m]."""


def volume(capsule: Capsule) -> float:
    """Return the volume of a capsule [m^3]."""
    length = float(np.linalg.norm(np.subtract(capsule.end, capsule.start)))
    return pi * capsule.radius**2 * (length + 4.0 / 3.0 * capsule.radius)


def least_capsule(cloud: Cloud) -> Capsule:
    r"""Return a capsule of little volume that contains all of a cloud.

    About a line, with ball :math:`i` of radius :math:`s_i` at height :math:`t_i` and distance
    :math:`\rho_i`, a radius :math:`r \ge \max_i (\rho_i + s_i)` needs the segment

    .. math::
        \left[ \min_i \left( t_i + c_i \right),\ \max_i \left( t_i - c_i \right) \right],
        \qquad c_i = \sqrt{(r - s_i)^2 - \rho_i^2}

    The line is sought from the three principal axes of the points, by steps of its direction
    and place that are halved when none makes the volume less: a local least. The same cloud
    gives the same capsule.
    """
    low = (cloud.points - cloud.radii[:, None]).min(axis=0)
    high = (cloud.points + cloud.radii[:, None]).max(axis=0)
    middle, size = (low + high) / 2.0, float(np.linalg.norm(high - low))
    local = Cloud((cloud.points - middle) / size, cloud.radii / size)
    outer = local.outermost()
    centred = outer.points - outer.points.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1].T
    lines = [_search(outer, axis) for axis in axes]
    places, axes = (np.array(values) for values in zip(*lines))
    volumes, starts, ends, radii = _about(local, places, axes)
    i = int(np.argmin(volumes))
    lack = max(0.0, SHORTEST / size - float(ends[i] - starts[i])) / 2.0
    heights = (starts[i] - lack, ends[i] + lack)
    first, second = ((places[i] + height * axes[i]) * size + middle for height in heights)
    (x, y, z), (u, v, w) = first.tolist(), second.tolist()
    return Capsule((x, y, z), (u, v, w), float(radii[i] * size))


def _search(cloud: Cloud, axis: Vector) -> tuple[Vector, Vector]:
    """Improve the line along an axis until small steps do not help; return place and direction."""
    frame = rotation_of_axis(axis)
    across = cloud.points @ frame
    place = frame @ ((across.min(axis=0) + across.max(axis=0)) / 2.0)
    least, step = np.inf, FIRST_STEP
    while step > LAST_STEP:
        sides = np.concatenate((frame[:, :2].T, -frame[:, :2].T)) * step
        tilted = frame[:, 2] + sides
        tilted /= np.linalg.norm(tilted, axis=1)[:, None]
        axes = np.concatenate((frame[None, :, 2], np.tile(frame[:, 2], (4, 1)), tilted))
        places = np.concatenate((place[None], place + sides, np.tile(place, (4, 1))))
        volumes = _about(cloud, places, axes)[0]
        i = int(np.argmin(volumes))
        if i and volumes[i] < least:
            place, frame = places[i], rotation_of_axis(axes[i])
        else:
            step /= 2.0
        least = volumes[i]
    return place, frame[:, 2]


def _about(cloud: Cloud, places: Matrix, axes: Matrix) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the least capsules about some lines: volumes, heights of both ends, radii."""
    from_places = cloud.points - places[:, None]
    heights = np.einsum("knj,kj->kn", from_places, axes)
    away = np.sqrt(np.maximum((from_places**2).sum(axis=2) - heights**2, 0.0))
    radii = (away + cloud.radii).max(axis=1)[:, None] * RADII
    room = (radii[:, :, None] - cloud.radii) ** 2 - away[:, None] ** 2
    reach = np.sqrt(np.maximum(room, 0.0))
    starts = (heights[:, None] + reach).min(axis=2)
    ends = (heights[:, None] - reach).max(axis=2)
    middles = (starts + ends) / 2.0  # where a ball is enough both pass each other
    starts, ends = np.minimum(starts, middles), np.maximum(ends, middles)
    volumes = pi * radii**2 * (ends - starts + 4.0 / 3.0 * radii)
    best = (np.arange(len(places)), volumes.argmin(axis=1))
    return volumes[best], starts[best], ends[best], radii[best]
