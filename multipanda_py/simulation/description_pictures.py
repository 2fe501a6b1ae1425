# SPDX-License-Identifier: Apache-2.0
"""Pictures of arms that are those of their own URDF or MJCF."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import extras_named
from multipanda_py.importing.shape import Shape
from multipanda_py.importing.source import shapes_of, tree_of
from multipanda_py.robots.chain import chain_of
from multipanda_py.robots.robot import Robot
from multipanda_py.simulation.mjcf_elements import VISUAL_GROUP, put, quaternion
from multipanda_py.state import Matrix

with extras_named():
    import mujoco

COLOR = (0.78, 0.80, 0.83, 1.0)
"""Of what has none."""
Placed = tuple[Shape, Matrix]
_TYPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
}


def own_pictures(robot: Robot) -> tuple[tuple[Placed, ...], ...]:
    """Return the visual geometry of every link's description, with its pose in it, (4, 4).

    None for an arm that was drawn otherwise, and for one whose meshes are not all there.
    """
    if robot.source is None:
        return ((),) * len(robot.links)
    return _read(robot.source, robot.links[0].name, robot.flange.name, robot.links[-1].name)


@lru_cache(maxsize=16)
def _read(source: Path, base: str, flange: str, last: str) -> tuple[tuple[Placed, ...], ...]:
    tree = tree_of(source)
    chain = chain_of(tree, base, flange if flange in tree.bodies else last)
    found: list[list[Placed]] = [[] for _ in chain.links]
    try:
        shapes = shapes_of(source, list(chain.places))
    except ConfigurationError:
        return ((),) * len(chain.links)
    for link, (number, pose) in chain.places.items():
        found[number] += [(shape, pose) for shape in shapes.get(link, {}).get("visual", ())]
    return tuple(map(tuple, found))


def add_shape(spec: mujoco.MjSpec, body: mujoco.MjsBody, shape: Shape, pose: Matrix) -> None:
    """Add a shape in the frame of its link to a body in which that has a pose, (4, 4)."""
    geom = put(body.add_geom(), contype=0, conaffinity=0, group=VISUAL_GROUP, mass=0.0)
    put(geom, pos=pose[:3, :3] @ shape.position + pose[:3, 3], rgba=np.array(shape.rgba or COLOR))
    put(geom, quat=quaternion(pose[:3, :3] @ shape.rotation))
    if shape.mesh is None:
        size = np.array([*shape.size, 0.0, 0.0][:3])
        half = np.array([0.5, 0.5, 0.5] if shape.kind == "box" else [1.0, 0.5, 0.0])
        put(geom, type=_TYPES[shape.kind], size=half * size)
        return
    name = f"mesh_of_{body.name}_{len(spec.meshes)}"
    points, triangles = shape.mesh()
    mesh = put(spec.add_mesh(), name=name, uservert=points.ravel(), userface=triangles.ravel())
    put(mesh, inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
    put(geom, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name)
