# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics and Jacobians of frames at all time steps of a path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.planning.optimiser.scene import WORLD_FRAME, Scene, exp3, left_jacobian, skew
from multipanda_py.state import Matrix, Vector

_AXES = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED


@dataclass(frozen=True, eq=False)
class Placement:
    """Pose and Jacobian of one frame at s time steps, each with the d variables of a scene.

    Attributes:
        position: Position in the world, (s, 3) [m].
        rotation: Rotation matrix in the world, (s, 3, 3).
        jacobian: Jacobian of linear, then angular velocity in the world, (s, 6, d).
    """

    position: Vector
    rotation: Matrix
    jacobian: Matrix


@dataclass(frozen=True, eq=False)
class Slices:
    """Variables of a path, and the poses of frames, at each of s time steps (slices).

    Attributes:
        scene: Scene, which defines the d variables.
        x: Variables, (s, d).
        frames: Poses and Jacobians, by frame.
    """

    scene: Scene
    x: Matrix
    frames: dict[str, Placement]

    def part(self, at: slice) -> Slices:
        """Return views of the variables, poses and Jacobians at a range of the time steps."""
        frames = {
            name: Placement(f.position[at], f.rotation[at], f.jacobian[at])
            for name, f in self.frames.items()
        }
        return Slices(self.scene, self.x[at], frames)


class Kinematics:
    """Forward kinematics of selected frames.

    Args:
        scene: Arms and objects.
        frames: Names of the frames.

    Raises:
        UnknownName: If there is no such frame.

    Thread: one at a time, because it has internal buffers.
    """

    def __init__(self, scene: Scene, frames: Iterable[str]) -> None:
        self.scene = scene
        self._order: list[str] = []  # Names of the frames, parents before their children.
        for name in frames:
            self._need(scene.frame(name))
        self._models: dict[str, tuple[Any, Any]] = {}
        self._links: dict[str, list[tuple[str, int]]] = {}
        for name in self._order:
            arm, _, link = name.partition("/")
            if name in scene.frames or arm not in scene.arms:
                continue
            if arm not in self._models:
                model = scene.model(arm)
                self._models[arm], self._links[arm] = (model, model.createData()), []
            described = scene.arms[arm]
            full = described.ee_frame if link == "tool" else described.prefix + link
            self._links[arm].append((name, self._models[arm][0].getFrameId(full)))

    def _need(self, name: str) -> None:
        if name in self.scene.frames:
            self._need(self.scene.frames[name][0])
        if name not in self._order:
            self._order.append(name)

    def forward_kinematics(self, x: Matrix) -> Slices:
        """Return poses and Jacobians of the frames for the variables of s time steps, (s, d)."""
        result: dict[str, Placement] = {}
        for arm in self._models:
            self._arm_forward_kinematics(arm, x, result)
        for name in self._order:
            if name not in result:
                result[name] = self._placement_of(name, x, result)
        return Slices(self.scene, x, result)

    def _arm_forward_kinematics(self, arm: str, x: Matrix, matches: dict[str, Placement]) -> None:
        model, data = self._models[arm]
        columns = self.scene.columns[arm]
        links = self._links[arm]
        n_slices, width = x.shape
        positions = np.empty((len(links), n_slices, 3))
        rotations = np.empty((len(links), n_slices, 3, 3))
        jacobians = np.zeros((len(links), n_slices, 6, width))
        own = jacobians[..., columns]
        postures = np.ascontiguousarray(x[:, columns])
        compute, update, jacobian = (
            pin.computeJointJacobians,
            pin.updateFramePlacement,
            pin.getFrameJacobian,
        )
        for number, q in enumerate(postures):
            compute(model, data, q)
            for index, (_, frame) in enumerate(links):
                placed = update(model, data, frame)
                positions[index, number] = placed.translation
                rotations[index, number] = placed.rotation
                own[index, number] = jacobian(model, data, frame, _AXES).reshape(6, -1)
        for index, (name, _) in enumerate(links):
            matches[name] = Placement(positions[index], rotations[index], jacobians[index])

    def _placement_of(self, name: str, x: Matrix, matches: dict[str, Placement]) -> Placement:
        scene, (n_slices, width) = self.scene, x.shape
        if name in scene.frames:
            on, pose = scene.frames[name]
            base = matches[on]
            arm = base.rotation @ pose.position
            jacobian = base.jacobian.copy()
            jacobian[:, :3] -= skew(arm) @ base.jacobian[:, 3:]
            return Placement(base.position + arm, base.rotation @ pose.rotation, jacobian)
        jacobian = np.zeros((n_slices, 6, width))
        if name in scene.columns:
            at = scene.columns[name]
            rotation_vector, start = x[:, at][:, 3:], scene.objects[name].rotation
            own = jacobian[..., at]
            own[:, :3, :3] = np.eye(3)
            own[:, 3:, 3:] = start @ left_jacobian(rotation_vector)
            return Placement(x[:, at][:, :3], start @ exp3(rotation_vector), jacobian)
        position, rotation = np.zeros(3), np.eye(3)
        if name != WORLD_FRAME:
            position, rotation = scene.objects[name].position, scene.objects[name].rotation
        return Placement(
            np.broadcast_to(position, (n_slices, 3)),
            np.broadcast_to(rotation, (n_slices, 3, 3)),
            jacobian,
        )
