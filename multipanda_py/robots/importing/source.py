# SPDX-License-Identifier: Apache-2.0
"""Reading of descriptions in URDF or MJCF format: links, joints, shapes and meshes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import coal
import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import MAX_DESCRIPTION_SIZE, check_regular, open_regular
from multipanda_py.registry import needed
from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.read_urdf import read_urdf, read_xml
from multipanda_py.robots.tree import Tree
from multipanda_py.state import Matrix, Vector

Triangles: TypeAlias = NDArray[np.int32]
MAX_MESH_SIZE = 1 << 28
"""Maximum size of a mesh [bytes]."""


def find_mesh(name: str, description: Path, packages: Sequence[Path] = ()) -> Path:
    """Return the path of a mesh from its name in a URDF.

    ``package://NAME/...`` is searched in ``packages`` and the folders above the URDF,
    ``file://...`` is an absolute path. Other names are relative to the folder of the URDF.

    Args:
        name: Name of the mesh in the URDF.
        description: Path of the URDF.
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
        check_regular(path, MAX_MESH_SIZE)
        mesh = coal.MeshLoader(coal.BV_AABB).load(str(path), np.array(scale, dtype=np.float64))
    except (OSError, ValueError, RuntimeError) as error:
        lines = [line for line in str(error).splitlines() if line]
        raise ConfigurationError(f"{path}: cannot be read as a mesh: {lines[-1]}") from None
    faces = [mesh.tri_indices(i) for i in range(mesh.num_tris)]
    triangles = np.array([(face[0], face[1], face[2]) for face in faces], dtype=np.int32)
    return np.array(mesh.vertices()), triangles


POLYGON_SIDES = 32
"""Number of sides of the polygons that enclose the rims of a cylinder."""


def _unit_directions(count: int) -> Matrix:
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (1.0 + 5.0**0.5) * np.arange(count)  # Golden angle.
    radius = np.sqrt(1.0 - z**2)
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle), z))


_DIRECTIONS = _unit_directions(200)


@dataclass(frozen=True, eq=False)
class Cloud:
    """Solid as the convex hull of balls, such as balls at the vertices of a mesh or along rims.

    Attributes:
        points: Centres of the balls, (n, 3) [m].
        radii: Radii of the balls, (n,) [m].
    """

    points: Matrix
    radii: Vector

    def placed(self, position: Vector, rotation: Matrix) -> Cloud:
        """Return the cloud in a parent frame, from the pose of its own frame in the parent."""
        return Cloud(self.points @ rotation.T + position, self.radii)

    def distance_outside(self, point: Vector) -> float:
        """Return the approximate distance of a point, (3,), from the hull [m]; 0 inside."""
        reach = (_DIRECTIONS @ self.points.T + self.radii).max(axis=1)
        return max(0.0, float((_DIRECTIONS @ point - reach).max()))

    def outermost(self) -> Cloud:
        """Return the cloud with only the balls that extend farthest in one of 200 directions."""
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
    """Return a sphere of this radius [m] around the origin."""
    return Cloud(np.zeros((1, 3)), np.array([radius]))


def capsule(radius: float, length: float) -> Cloud:
    """Return a capsule around the origin along z; its length excludes the round ends [m]."""
    ends = np.array([[0.0, 0.0, -length / 2.0], [0.0, 0.0, length / 2.0]])
    return Cloud(ends, np.full(2, radius))


def cylinder(radius: float, length: float) -> Cloud:
    """Return a cylinder around the origin along z, from radius and length [m]."""
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
        size: Size [m]. Box: three edges. Sphere: radius. Cylinder and capsule: radius and length,
            without the round ends of a capsule. Mesh: empty.
        position: Position of the centre, or of the origin of a mesh, (3,) [m].
        rotation: Orientation, (3, 3); cylinders and capsules are along z.
        mesh: Function that reads the vertices and triangles of a mesh; None for other kinds.
        rgba: Colour, or None if the URDF or MJCF has none.
    """

    kind: str
    size: tuple[float, ...]
    position: Vector
    rotation: Matrix
    mesh: Callable[[], Mesh] | None = None
    rgba: tuple[float, ...] | None = None

    def cloud(self) -> Cloud:
        """Return balls whose convex hull encloses the solid, in the frame of the link.

        Raises:
            ConfigurationError: A mesh cannot be read.
        """
        own = corners(self.mesh()[0]) if self.mesh else _CLOUDS[self.kind](*self.size)
        return own.placed(self.position, self.rotation)


KINDS = ("collision", "visual")
_SIZES = {"box": {"size": 3}, "sphere": {"radius": 1}, "cylinder": {"radius": 1, "length": 1}}


def link_shapes(
    urdf: Path, links: Sequence[str], packages: Sequence[Path] = ()
) -> dict[str, dict[str, list[Shape]]]:
    """Return the collision and visual geometry of some links of a URDF.

    Args:
        urdf: Path of the URDF.
        links: Names of the links.
        packages: Folders of packages, or folders that contain packages, for meshes.

    Returns:
        Shapes by link, and by ``collision`` and ``visual``.

    Raises:
        ConfigurationError: A shape is unknown, a number is missing, or a mesh does not exist.
    """
    root = read_xml(urdf)
    materials = {str(material.get("name")): material for material in root.findall("material")}
    link_shapes: dict[str, dict[str, list[Shape]]] = {}
    for link in root.findall("link"):
        name = str(link.get("name"))
        if name in links:
            link_shapes[name] = {
                kind: [
                    replace(
                        _shape(element, f"{urdf}: link {name}: {kind}", urdf, packages),
                        rgba=_element_color(element, materials),
                    )
                    for element in link.findall(kind)
                ]
                for kind in KINDS
            }
    return link_shapes


def _element_color(
    element: ElementTree.Element, materials: Mapping[str, ElementTree.Element]
) -> tuple[float, ...] | None:
    own = element.find("material")
    if own is None:
        return None
    color = own.find("color")
    if color is None:
        color = materials.get(str(own.get("name")), own).find("color")
    if color is None:
        return None
    rgba = _numbers(color, "rgba", "material", 4)
    return tuple(np.clip(rgba, 0.0, 1.0).tolist())


def _shape(
    element: ElementTree.Element, location: str, urdf: Path, packages: Sequence[Path]
) -> Shape:
    solid = next(iter(element.findall("geometry/*")), None)
    kind = "nothing" if solid is None else solid.tag
    if solid is None or kind not in (*_SIZES, "mesh"):
        raise ConfigurationError(f"{location}: got {kind}, allowed {', '.join(_SIZES)}, mesh")
    position, rpy = np.zeros(3), np.zeros(3)
    if (origin := element.find("origin")) is not None:
        position = _numbers(origin, "xyz", location, 3, "0 0 0")
        rpy = _numbers(origin, "rpy", location, 3, "0 0 0")
    rotation = rotation_from_rpy(*rpy)
    if kind == "mesh":
        scale = _numbers(solid, "scale", location, 3, "1 1 1")
        path = find_mesh(str(solid.get("filename")), urdf, packages)
        return Shape(kind, (), position, rotation, partial(read_mesh, path, tuple(scale)))
    size = [_numbers(solid, key, location, count) for key, count in _SIZES[kind].items()]
    if min(size[0]) <= 0.0:
        raise ConfigurationError(
            f"{location}: {kind}: got size {min(size[0]):g} m, allowed above 0 m"
        )
    return Shape(kind, tuple(np.concatenate(size)), position, rotation)


def _numbers(
    element: ElementTree.Element, key: str, path: str, count: int, default: str = ""
) -> Vector:
    text = element.get(key, default)
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.zeros(0)
    if values.shape != (count,) or not np.isfinite(values).all():
        numbers = "a number" if count == 1 else f"{count} numbers"
        raise ConfigurationError(f"{path}: {element.tag} {key}: got {text!r}, allowed {numbers}")
    return values


_MUJOCO_KINDS = {
    "mjGEOM_BOX": "box",
    "mjGEOM_SPHERE": "sphere",
    "mjGEOM_CYLINDER": "cylinder",
    "mjGEOM_CAPSULE": "capsule",
    "mjGEOM_ELLIPSOID": "box",  # An ellipsoid is replaced by its bounding box.
    "mjGEOM_MESH": "mesh",
}


def body_shapes(mjcf: Path, links: Sequence[str]) -> dict[str, dict[str, list[Shape]]]:
    """Return the shapes of MJCF bodies by ``collision`` (geoms with contacts) and ``visual``.

    Their frame is at the joint of the body, along the axes of the body.
    """
    # Imported here, because loading MuJoCo takes half a second.
    mujoco = needed("mujoco")
    geom_kinds = {int(getattr(mujoco.mjtGeom, geom)): kind for geom, kind in _MUJOCO_KINDS.items()}
    check_regular(mjcf, MAX_DESCRIPTION_SIZE)
    model = mujoco.MjModel.from_xml_path(str(mjcf))
    body_shapes: dict[str, dict[str, list[Shape]]] = {}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        name = str(model.body(body).name)
        kind = geom_kinds.get(int(model.geom_type[geom]))
        if name not in links or kind is None:
            continue
        anchor = np.zeros(3)
        if model.body_jntnum[body]:
            anchor = model.jnt_pos[model.body_jntadr[body]]
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        half = model.geom_size[geom]
        sizes = {
            "box": tuple(2.0 * half),
            "sphere": (half[0],),
            "cylinder": (half[0], 2.0 * half[1]),
            "capsule": (half[0], 2.0 * half[1]),
            "mesh": (),
        }
        mesh = (
            partial(_mujoco_mesh, model, int(model.geom_dataid[geom])) if kind == "mesh" else None
        )
        shape = Shape(
            kind,
            sizes[kind],
            model.geom_pos[geom] - anchor,
            rotation.reshape(3, 3),
            mesh,
            _geom_color(model, geom),
        )
        touches = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
        kinds = body_shapes.setdefault(name, {"collision": [], "visual": []})
        kinds["collision" if touches else "visual"].append(shape)
    return body_shapes


def _geom_color(model: Any, geom: int) -> tuple[float, ...]:
    material = int(model.geom_matid[geom])
    rgba = model.geom_rgba[geom] if material < 0 else model.mat_rgba[material]
    return tuple(rgba.tolist())


def _mujoco_mesh(model: Any, number: int) -> Mesh:
    start, count = model.mesh_vertadr[number], model.mesh_vertnum[number]
    first, faces = model.mesh_faceadr[number], model.mesh_facenum[number]
    points = model.mesh_vert[start : start + count].astype(np.float64)
    return points, model.mesh_face[first : first + faces].copy()


Shapes: TypeAlias = Mapping[str, Mapping[str, Sequence[Shape]]]
"""Shapes by link, and by ``collision`` or ``visual``."""


def kind_of(source: Path) -> str:
    """Return the format of a robot description: ``mjcf``, or ``urdf`` for any other file."""
    try:
        with open_regular(source, MAX_DESCRIPTION_SIZE) as file:
            tag = next(ElementTree.iterparse(file, events=("start",)))[1].tag
    except (OSError, ElementTree.ParseError, StopIteration):
        return "urdf"
    return "mjcf" if tag == "mujoco" else "urdf"


def tree_of(source: Path) -> Tree:
    """Read the links and joints of a URDF or MJCF."""
    if kind_of(source) == "urdf":
        return read_urdf(source)
    # Imported here, because loading MuJoCo takes half a second.
    from multipanda_py.robots.read_mjcf import read_mjcf

    return read_mjcf(source)


def shapes_of(source: Path, links: Sequence[str], packages: Sequence[Path] = ()) -> Shapes:
    """Return the shapes of some links of a URDF or MJCF, by ``collision`` and ``visual``.

    ``packages`` are folders of packages for URDF meshes, or folders that contain packages.
    """
    if kind_of(source) == "urdf":
        return link_shapes(source, links, packages)
    return body_shapes(source, links)
