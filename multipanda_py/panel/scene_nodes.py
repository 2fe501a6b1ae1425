# SPDX-License-Identifier: Apache-2.0
"""A cell's scene in the browser: a node per body, moved where rows say."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

from multipanda_py.state import Matrix, Vector
from multipanda_py.view.scene_view import SceneView

SHOWN_GROUPS = (0, 1, 2)
"""Groups of geoms that MuJoCo's own viewer shows; collision shapes are in another."""
MOVED = 1e-5
"""Smallest change of a position [m] or of a quaternion that is sent."""


class SceneNodes:
    """Draw the bodies of a scene in a page, and move those that have moved.

    A body is a node below its parent's, so that a turning joint costs one message.

    Args:
        server: A ``viser.ViserServer``.
        view: The scene, which rows pose.

    Attributes:
        frames: Elements of the page by number of the body.

    Thread: one.
    """

    def __init__(self, server: Any, view: SceneView) -> None:
        self._view = view
        model = view.model
        self._parents = model.body_parentid
        self.frames: dict[int, Any] = {}
        self._sent: dict[int, tuple[Vector, Vector]] = {}
        paths = {0: "/cell"}
        for body in range(model.nbody):
            if body:
                name = model.body(body).name or f"body_{body}"
                paths[body] = f"{paths[int(self._parents[body])]}/{name}"
                place = self._place(body)
                self.frames[body] = server.scene.add_frame(
                    paths[body], show_axes=False, position=place[0], wxyz=place[1]
                )
                self._sent[body] = place
            for number, (color, mesh) in enumerate(_meshes(model, body).items()):
                server.scene.add_mesh_simple(
                    f"{paths[body]}/shape_{number}",
                    vertices=mesh.vertices.astype(np.float32),
                    faces=mesh.faces.astype(np.uint32),
                    color=tuple(round(255 * part) for part in color[:3]),
                    opacity=None if color[3] >= 1.0 else color[3],
                    flat_shading=False,
                    cast_shadow=False,
                    receive_shadow=False,
                )
        server.scene.add_grid("/floor", width=4.0, height=4.0, cell_size=0.1, section_size=1.0)

    def show(self, row: NDArray[np.void]) -> int:
        """Pose the scene as in a row of the cell; return how many bodies have moved."""
        self._view.show(row)
        moved = 0
        for body, frame in self.frames.items():
            position, turn = self._place(body)
            before, turn_before = self._sent[body]
            far = np.abs(position - before).max() > MOVED
            turned = np.abs(turn - turn_before).max() > MOVED
            if far:
                frame.position = position
            if turned:
                frame.wxyz = turn
            if far or turned:
                self._sent[body] = position, turn
                moved += 1
        return moved

    def _place(self, body: int) -> tuple[Vector, Vector]:
        """Return position and quaternion w x y z of a body in its parent, as of now."""
        data, parent = self._view.data, int(self._parents[body])
        base = data.xmat[parent].reshape(3, 3)
        turn = np.empty(4)
        mujoco.mju_mat2Quat(turn, (base.T @ data.xmat[body].reshape(3, 3)).ravel())
        return base.T @ (data.xpos[body] - data.xpos[parent]), turn


def _meshes(model: mujoco.MjModel, body: int) -> dict[tuple[float, ...], trimesh.Trimesh]:
    """Return what a body looks like, one mesh per color, in the body's frame."""
    by_color: dict[tuple[float, ...], list[trimesh.Trimesh]] = {}
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        if int(model.geom_group[geom]) not in SHOWN_GROUPS:
            continue
        mesh = _mesh(model, geom)
        material = int(model.geom_matid[geom])
        color = tuple(
            (model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]).tolist()
        )
        if mesh is None or color[3] == 0.0:
            continue
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        placed: Matrix = np.eye(4)
        placed[:3, :3], placed[:3, 3] = rotation.reshape(3, 3), model.geom_pos[geom]
        mesh.apply_transform(placed)
        by_color.setdefault(color, []).append(mesh)
    return {color: trimesh.util.concatenate(parts) for color, parts in by_color.items()}


def _mesh(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh | None:
    """Return the surface of a geom, or None for a plane, which the grid stands for."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH.value:
        number = int(model.geom_dataid[geom])
        vertex, face = int(model.mesh_vertadr[number]), int(model.mesh_faceadr[number])
        return trimesh.Trimesh(
            model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[number])].copy(),
            model.mesh_face[face : face + int(model.mesh_facenum[number])].copy(),
            process=False,
        )
    if kind == mujoco.mjtGeom.mjGEOM_BOX.value:
        return trimesh.creation.box(extents=2.0 * size)
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE.value:
        return trimesh.creation.icosphere(subdivisions=2, radius=size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER.value:
        return trimesh.creation.cylinder(radius=size[0], height=2.0 * size[1], sections=24)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE.value:
        return trimesh.creation.capsule(radius=size[0], height=2.0 * size[1], count=(16, 16))
    return None
