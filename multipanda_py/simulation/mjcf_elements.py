# SPDX-License-Identifier: Apache-2.0
"""Elements of MuJoCo specifications: attributes, inertia, materials and geometry."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.registry import extras_named
from multipanda_py.robots.geometry import (
    COLORS,
    Block,
    Capsule,
    SolidOfRevolution,
    rotation_from_rpy,
    rotation_of_axis,
)
from multipanda_py.robots.inertial import Inertial

with extras_named():
    import mujoco

E = TypeVar("E")

VISUAL_GROUP = 2  # MuJoCo shows this group by default.
COLLISION_GROUP = 3  # MuJoCo hides this group by default.
SEGMENTS = 40  # Number of segments around a solid of revolution.
_SHININESS = {"shell": 0.55, "metal": 0.7, "cap": 0.5, "dark": 0.3, "tool": 0.7}


def put(element: E, **values: object) -> E:
    """Set attributes of an element of a MuJoCo specification, such as a geom, and return it."""
    # MuJoCo 3.2.0 rejects keyword arguments of its methods ``add_...``.
    for name, value in values.items():
        setattr(element, name, value)
    return element


def quaternion(rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the unit quaternion w x y z of a rotation matrix (3, 3)."""
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).ravel())
    return quat


def set_inertia(
    body: mujoco.MjsBody, mass: float, com: NDArray[np.float64], inertia: NDArray[np.float64]
) -> None:
    """Set the inertial properties of a body.

    Args:
        body: Body in MuJoCo.
        mass: Mass [kg].
        com: Centre of mass in the body, (3,) [m].
        inertia: Inertia about the centre of mass, (3, 3) [kg m^2].
    """
    i = inertia
    full = np.array([i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2]])
    put(body, mass=mass, ipos=np.array(com), fullinertia=full, explicitinertial=True)


def set_inertial(body: mujoco.MjsBody, inertial: Inertial) -> None:
    """Set the inertial properties of a link; skip a link without mass, such as a base."""
    if inertial.mass > 0.0:
        set_inertia(body, inertial.mass, np.array(inertial.com), inertial.inertia)


class Materials:
    """Materials of a scene, and meshes of its solids of revolution; equal solids share a mesh."""

    def __init__(self, spec: mujoco.MjSpec) -> None:
        """Add the materials to the MuJoCo model ``spec``."""
        self._spec = spec
        self._meshes: dict[tuple[float, ...], str] = {}
        for name, rgba in COLORS.items():
            shine = _SHININESS.get(name, 0.1)
            material = put(spec.add_material(), name=name, rgba=np.array(rgba))
            put(material, specular=shine, shininess=shine, reflectance=0.0)

    def add_visual(self, body: mujoco.MjsBody, shape: SolidOfRevolution | Block) -> None:
        """Add a visual shape to a body."""
        geom = put(body.add_geom(), contype=0, conaffinity=0, group=VISUAL_GROUP, mass=0.0)
        put(geom, material=shape.color)
        if isinstance(shape, Block):
            _set_block_pose(geom, shape)
            return
        solid = _revolved_mesh(shape)
        put(geom, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=self._mesh_name(solid))
        put(geom, pos=np.array(shape.start), quat=solid.quat)

    def _mesh_name(self, solid: _RevolvedMesh) -> str:
        if solid.key not in self._meshes:
            self._meshes[solid.key] = name = f"turned_{len(self._meshes)}"
            mesh = put(self._spec.add_mesh(), name=name)
            put(mesh, uservert=solid.vertices, userface=solid.faces)
        return self._meshes[solid.key]


class _RevolvedMesh(NamedTuple):
    """Mesh of a solid of revolution.

    Attributes:
        key: Rounded outline, equal for solids with the same mesh.
        vertices: Coordinates of the vertices, flattened [m].
        faces: Vertex indices of the triangles, flattened.
        quat: Orientation of the axis of revolution, w x y z.
    """

    key: tuple[float, ...]
    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    quat: NDArray[np.float64]


@lru_cache(maxsize=1024)
def _revolved_mesh(shape: SolidOfRevolution) -> _RevolvedMesh:
    outline = shape.outline()
    vertices, faces = revolve(outline)
    quat = quaternion(rotation_of_axis(np.subtract(shape.end, shape.start)))
    key = tuple(np.round(outline, 9).ravel().tolist())
    return _RevolvedMesh(key, vertices.ravel(), faces.ravel(), quat)


def revolve(outline: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the mesh of a solid of revolution about the z axis.

    Args:
        outline: Points of the outline: z coordinate and radius, (n, 2) [m]. The first and last
            radius are 0.

    Returns:
        Vertices, (2 + (n - 2) * SEGMENTS, 3) [m], and vertex indices of triangles with outward
        normals, (m, 3).
    """
    angle = 2.0 * np.pi * np.arange(SEGMENTS) / SEGMENTS
    circle = np.column_stack((np.cos(angle), np.sin(angle)))
    rings = outline[1:-1]
    sides = np.concatenate(
        [np.column_stack((r * circle, np.full(SEGMENTS, z))) for z, r in rings], axis=0
    )
    poles = np.array([[0.0, 0.0, outline[0, 0]], [0.0, 0.0, outline[-1, 0]]])
    here = np.arange(SEGMENTS)
    after = (here + 1) % SEGMENTS
    faces = [np.column_stack((np.zeros_like(here), 2 + after, 2 + here))]
    for ring in range(len(rings) - 1):
        low, high = 2 + ring * SEGMENTS, 2 + (ring + 1) * SEGMENTS
        faces.append(np.column_stack((low + here, low + after, high + after)))
        faces.append(np.column_stack((low + here, high + after, high + here)))
    top = 2 + (len(rings) - 1) * SEGMENTS
    faces.append(np.column_stack((np.ones_like(here), top + here, top + after)))
    return np.vstack((poles, sides)), np.concatenate(faces).astype(np.int32)


def _set_block_pose(geom: mujoco.MjsGeom, block: Block) -> None:
    put(geom, type=mujoco.mjtGeom.mjGEOM_BOX, size=np.array(block.half_size))
    rotation = rotation_from_rpy(block.roll, 0.0, 0.0)
    put(geom, pos=np.array(block.center), quat=quaternion(rotation))


def add_contact_capsule(body: mujoco.MjsBody, capsule: Capsule, name: str) -> mujoco.MjsGeom:
    """Add a colliding capsule to a body, and return its geom."""
    geom = put(body.add_geom(), name=name, group=COLLISION_GROUP, mass=0.0)
    start, end = np.array(capsule.start), np.array(capsule.end)
    half = float(np.linalg.norm(end - start)) / 2.0
    put(geom, type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=np.array([capsule.radius, half, 0.0]))
    put(geom, pos=(start + end) / 2.0, quat=quaternion(rotation_of_axis(end - start)))
    put(geom, rgba=np.array([0.9, 0.5, 0.1, 0.4]))
    return geom


def add_contact_block(body: mujoco.MjsBody, block: Block, name: str) -> None:
    """Add a colliding box with the friction of rubber to a body."""
    geom = put(body.add_geom(), name=name, group=COLLISION_GROUP, mass=0.0)
    _set_block_pose(geom, block)
    put(geom, friction=np.array([1.0, 0.05, 0.0001]), condim=4)
    put(geom, rgba=np.array([0.9, 0.5, 0.1, 0.4]))
