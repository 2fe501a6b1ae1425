# SPDX-License-Identifier: Apache-2.0
"""Geometry of the bodies of an MJCF file, from MuJoCo's compiler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from multipanda_py.files import MAX_DESCRIPTION, check_regular
from multipanda_py.registry import extras_named
from multipanda_py.robots.importing.geometry import Mesh, Shape

with extras_named():
    import mujoco

_KINDS = {
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "box",  # An ellipsoid is replaced by its bounding box.
    int(mujoco.mjtGeom.mjGEOM_MESH): "mesh",
}


def body_shapes(mjcf: Path, links: Sequence[str]) -> dict[str, dict[str, list[Shape]]]:
    """Return the geometry of some bodies: ``collision`` for geoms with contacts, else ``visual``.

    Args:
        mjcf: Path of an MJCF file.
        links: Names of the bodies.

    Returns:
        Shapes by body and kind, in the frame of the body's joint.
    """
    check_regular(mjcf, MAX_DESCRIPTION)
    model = mujoco.MjModel.from_xml_path(str(mjcf))
    body_shapes: dict[str, dict[str, list[Shape]]] = {}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        name = str(model.body(body).name)
        kind = _KINDS.get(int(model.geom_type[geom]))
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
        mesh = partial(_mesh, model, int(model.geom_dataid[geom])) if kind == "mesh" else None
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


def _geom_color(model: mujoco.MjModel, geom: int) -> tuple[float, ...]:
    material = int(model.geom_matid[geom])
    rgba = model.geom_rgba[geom] if material < 0 else model.mat_rgba[material]
    return tuple(rgba.tolist())


def _mesh(model: mujoco.MjModel, number: int) -> Mesh:
    start, count = model.mesh_vertadr[number], model.mesh_vertnum[number]
    first, faces = model.mesh_faceadr[number], model.mesh_facenum[number]
    points = model.mesh_vert[start : start + count].astype(np.float64)
    return points, model.mesh_face[first : first + faces].copy()
