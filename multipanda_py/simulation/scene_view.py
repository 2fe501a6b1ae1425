# SPDX-License-Identifier: Apache-2.0
"""Scene of a cell for display: posed by recorded cycles, without simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.registry import extras_named
from multipanda_py.simulation.mjcf import add_cameras, build_scene
from multipanda_py.state import Vector

with extras_named():
    import mujoco


class SceneView:
    """Separate model of all arms and objects of a cell, for any backend.

    The loop is not affected: :meth:`show` takes a recorded cycle.

    Args:
        config: Configuration of the cell.

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
        # This sets the objects to the poses of the cell file.
        mujoco.mj_resetData(self.model, self.data)
        self._q: list[Vector] = []
        self._fingers: list[Vector] = []
        for arm in arms:
            self._q.append(self._position(arm.joint_names[0], arm.n_joints))
            fingers = arm.finger_joint_names
            self._fingers.append(self._position(fingers[0], 2) if fingers else np.zeros(2))
        self._objects = [
            self._position(f"{name}_joint", 7)
            for name, obj in config.objects.items()
            if obj.mass > 0
        ]
        for index, (arm, declared) in enumerate(zip(arms, config.arms.values())):
            self._q[index][:] = declared.q_start
            self._fingers[index][:] = arm.finger_opening
        self._update()

    def _position(self, joint: str, width: int) -> Vector:
        """Return a view of ``data.qpos`` that begins with a joint, (width,)."""
        first = int(self.model.joint(joint).qposadr[0])
        view: Vector = self.data.qpos[first : first + width]
        return view

    def _update(self) -> None:
        """Update the poses of bodies, lights and cameras, without collisions and forces."""
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def show(self, row: NDArray[np.void]) -> None:
        """Pose joints, fingers and movable objects as in a recorded cycle.

        Args:
            row: Record of a cycle, an element of :meth:`multipanda_py.cell.Cell.rows`.
        """
        arms = row["arms"]
        for index, (q, fingers) in enumerate(zip(self._q, self._fingers)):
            q[:] = arms["q"][index][: q.size]  # Records have the size of the largest arm.
            fingers[:] = arms["finger_positions"][index]
        for view, pose in zip(self._objects, row["object_poses"]):
            if pose[3:].any():  # Without a simulation, records contain no object poses.
                view[:] = pose
        self.data.time = float(row["time"])
        self._update()
