# SPDX-License-Identifier: Apache-2.0
"""Scene of a cell for display, with the poses of recorded cycles, and image of one arm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.importing.source import Shapes
from multipanda_py.robots.robot import Robot
from multipanda_py.robots.tree import Chain
from multipanda_py.simulation.arm_mjcf import add_shape
from multipanda_py.simulation.mjcf_elements import COLLISION_GROUP, VISUAL_GROUP
from multipanda_py.simulation.rendering import Renderer, write_png
from multipanda_py.simulation.scene_mjcf import (
    AZIMUTH,
    ELEVATION,
    OVERVIEW_FIELD_OF_VIEW,
    add_cameras,
    build_scene,
)
from multipanda_py.state import Vector

with extras_named():
    import mujoco


class SceneView:
    """MuJoCo model of the arms and objects of a cell, to display recorded cycles of any backend.

    Attributes:
        model: MuJoCo model of the scene.
        data: MuJoCo data; its kinematics are those of the last shown cycle.

    Thread: any, one at a time.
    """

    def __init__(self, config: CellConfig) -> None:
        arms = describe_arms(config)
        meshes = Path(config.cell.meshes) if config.cell.meshes else None
        scene = build_scene(arms, describe_objects(config), meshes=meshes)
        add_cameras(scene, config)
        self.model = scene.compile()
        self.data = mujoco.MjData(self.model)
        # A reset sets the objects to their poses in the cell file.
        mujoco.mj_resetData(self.model, self.data)
        self._q: list[Vector] = []
        self._fingers: list[Vector] = []
        for arm in arms:
            self._q.append(self._position_view(arm.joint_names[0], arm.n_joints))
            fingers = arm.finger_joint_names
            self._fingers.append(self._position_view(fingers[0], 2) if fingers else np.zeros(2))
        self._objects = [
            self._position_view(f"{name}_joint", 7)
            for name, obj in config.objects.items()
            if obj.mass > 0
        ]
        for index, (arm, declared) in enumerate(zip(arms, config.arms.values())):
            self._q[index][:] = declared.q_start
            self._fingers[index][:] = arm.finger_opening
        self._update_kinematics()

    def _position_view(self, first_joint: str, size: int) -> Vector:
        first = int(self.model.joint(first_joint).qposadr[0])
        view: Vector = self.data.qpos[first : first + size]
        return view

    def _update_kinematics(self) -> None:
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def show(self, record: NDArray[np.void]) -> None:
        """Pose joints, fingers and movable objects as in a recorded cycle.

        Args:
            record: Record of a cycle, an element of :meth:`multipanda_py.cell.Cell.records`.
        """
        arms = record["arms"]
        for index, (q, fingers) in enumerate(zip(self._q, self._fingers)):
            q[:] = arms["q"][index][: q.size]  # Records have the size of the largest arm.
            fingers[:] = arms["finger_positions"][index]
        for view, pose in zip(self._objects, record["object_poses"]):
            if pose[3:].any():  # Without a simulation, records contain no object poses.
                view[:] = pose
        self.data.time = float(record["time"])
        self._update_kinematics()


HIDDEN_GROUP = 5
"""Group of geoms that is not rendered."""
HALF_WIDTH, HALF_HEIGHT = 640, 640
"""Width and height of each half of the image [pixels]."""
CAPSULE_COLOR = (0.95, 0.5, 0.1, 0.45)
"""Red, green, blue and opacity of collision capsules."""


def render_robot(path: Path, robot: Robot, chain: Chain, shapes: Shapes) -> None:
    """Write a PNG with two pictures of an arm in ready configuration: without and with capsules.

    Args:
        path: Path of the PNG file.
        robot: Robot model of the arm.
        chain: Kinematic chain of the arm in its description.
        shapes: Shapes by link name in the description, and by ``visual`` or ``collision``.

    Raises:
        RenderingUnavailable: If rendering is impossible; the message names what to install.
    """
    arm = ArmDescription("arm", replace(robot, source=None), hand=False)
    spec = build_scene([arm])
    shown: set[int] = set()
    for link, (number, pose) in chain.link_indices.items():
        kinds = shapes.get(link, {})
        body = spec.body(arm.prefix + chain.links[number])
        for shape in kinds.get("visual") or kinds.get("collision") or ():
            # Gray, so that the capsules stand out.
            add_shape(spec, body, replace(shape, rgba=None), pose)
            shown.add(number)
    own = {arm.prefix + link.name: number in shown for number, link in enumerate(robot.links)}
    model = spec.compile()
    capsules = model.geom_group == COLLISION_GROUP
    for geom in np.flatnonzero(model.geom_group == VISUAL_GROUP):
        body = model.body(int(model.geom_bodyid[geom])).name
        # Generated visual geometry has a material and only repeats the capsules. It is hidden for
        # links that have shapes of the description.
        if own.get(body) and model.geom_matid[geom] >= 0:
            model.geom_group[geom] = HIDDEN_GROUP
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    with Renderer(model, HALF_WIDTH, HALF_HEIGHT) as renderer:
        camera = _camera_on_capsules(model, data)
        bare = renderer.frame(data, camera)
        model.geom_group[capsules] = VISUAL_GROUP
        model.geom_rgba[capsules] = CAPSULE_COLOR
        write_png(path, np.hstack((bare, renderer.frame(data, camera))))


def _camera_on_capsules(model: mujoco.MjModel, data: mujoco.MjData) -> mujoco.MjvCamera:
    capsules = np.flatnonzero(model.geom_group == COLLISION_GROUP)
    half = model.geom_size[capsules, 1:2] * data.geom_xmat[capsules].reshape(-1, 3, 3)[:, :, 2]
    middles, radii = data.geom_xpos[capsules], model.geom_size[capsules, :1]
    low = np.minimum(middles - half, middles + half) - radii
    high = np.maximum(middles - half, middles + half) + radii
    low, high = low.min(axis=0), high.max(axis=0)
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat[:] = (low + high) / 2.0
    camera.azimuth, camera.elevation = AZIMUTH, ELEVATION
    half_angle = np.radians(OVERVIEW_FIELD_OF_VIEW) / 2.0
    camera.distance = 0.9 * float(np.linalg.norm(high - low)) / 2.0 / np.sin(half_angle)
    return camera
