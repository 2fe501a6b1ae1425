# SPDX-License-Identifier: Apache-2.0
"""What an action means to an arm: targets of a law, absolute or as steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pinocchio as pin

from multipanda_py.cell.cell import Cell
from multipanda_py.exceptions import UnknownName
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix, Vector

SPEED, TURN = 0.4, 1.5
"""What a full step of a pose is worth, over its time [m/s, rad/s]."""
JOINT_SPEED = 1.0
"""The same of a joint [rad/s, m/s]."""
FORCE = 30.0
"""Largest force that an action asks for along an axis [N]."""
REACH = 1.5
"""Positions that an absolute action may name, from the base along each axis [m]."""
FIRM: Mapping[str, Any] = {"stiffness": [800.0, 800.0, 800.0, 40.0, 40.0, 40.0]}
"""Of the law for poses: 8 N for a centimetre [N/m, Nm/rad]."""
NEAR = 0.9
"""Share of the gate within which targets stay: an arm that is held back is not left behind."""


class Control(ABC):
    """Send an arm the target that an action means, at once for its law.

    Args:
        arm: The arm.
        period: Time of a step [s].

    Attributes:
        law: Type of the controllet.
        is_absolute: Whether an action names the target itself, not a way from the last one.
        followed: What of the observation follows the target, ``pose`` or ``q``.
        low: Least numbers of an action, (k,).
        high: Largest ones.
    """

    law: ClassVar[str]
    is_absolute: ClassVar[bool] = False
    followed: ClassVar[str] = "pose"
    params: ClassVar[Mapping[str, Any]] = {}
    low: Vector
    high: Vector

    def __init__(self, arm: ArmDescription, period: float) -> None:
        self.arm, self.period = arm, period

    @abstractmethod
    def begin(self, cell: Cell) -> None:
        """Take what the arm does now for its target."""

    @abstractmethod
    def send(self, cell: Cell, action: Vector) -> None:
        """Give the law its target."""

    @property
    @abstractmethod
    def target(self) -> Vector:
        """The target of now, as it is observed, (m,)."""

    @property
    def rest(self) -> Vector:
        """The action that leaves the target where it is, and asks for no force, (k,)."""
        return self.target if self.is_absolute else np.zeros(len(self.high))

    @abstractmethod
    def toward(self, pose_ee_in_base: Pose) -> Vector:
        """Return the action that goes to a pose, as far as one step can.

        Raises:
            NotImplementedError: If this control does not go to poses.
        """


class StepOfPose(Control):
    r"""Move the target of a tool by a step and a turn, both along the axes of the base.

    .. math:: p^* \leftarrow p^* + v T a_{1:3}, \qquad R^* \leftarrow \exp(w T a_{4:6}) R^*

    with a between -1 and 1. The target moves, not the tool, so that a load does not drag it along;
    it stays within the gate around where the tool is.
    """

    law = "cartesian_impedance"
    params = FIRM

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.ones(6)
        self.low = -self.high
        self.pose = Pose.identity()

    def begin(self, cell: Cell) -> None:
        """Take the measured pose."""
        self.pose = cell.pose(self.arm.name)

    def send(self, cell: Cell, action: Vector) -> None:
        """Move the target and send it."""
        turn = pin.exp3(TURN * self.period * action[3:6])
        moved = self.pose.position + SPEED * self.period * action[:3]
        self.pose = _within_gate(
            cell, self.arm.name, Pose(moved, _exact(turn @ self.pose.rotation))
        )
        cell.set_target(self.arm.name, self.pose)

    @property
    def target(self) -> Vector:
        """Position and the first two columns of the rotation, (9,)."""
        return pose_numbers(self.pose)

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        """Return the step to a pose, no longer than one may be."""
        way = (pose_ee_in_base.position - self.pose.position) / (SPEED * self.period)
        turn = pin.log3(pose_ee_in_base.rotation @ self.pose.rotation.T) / (TURN * self.period)
        return np.concatenate(
            [part / max(1.0, float(np.linalg.norm(part))) for part in (way, turn)]
        )


class AbsolutePose(Control):
    """Name the pose of the tool in its base: position and two columns of the rotation.

    Six numbers of a rotation are continuous, unlike Euler angles and rotation vectors, which turn
    over just where tools point down. Columns are made orthonormal, the first one first.
    Source: Zhou et al., On the continuity of rotation representations, 2019.
    """

    law = "cartesian_impedance"
    params = FIRM
    is_absolute = True

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.array([REACH] * 3 + [1.0] * 6)
        self.low = -self.high
        self.pose = Pose.identity()

    def begin(self, cell: Cell) -> None:
        """Take the measured pose."""
        self.pose = cell.pose(self.arm.name)

    def send(self, cell: Cell, action: Vector) -> None:
        """Send the pose, as far as the gate lets it be from here."""
        self.pose = _within_gate(cell, self.arm.name, pose_of(action, self.pose))
        cell.set_target(self.arm.name, self.pose)

    @property
    def target(self) -> Vector:
        """As an action, (9,)."""
        return pose_numbers(self.pose)

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        """Return the pose, but no further than a step from the target of now."""
        return pose_numbers(
            pose_ee_in_base.clipped(
                self.pose.position, self.pose.rotation, SPEED * self.period, TURN * self.period
            )
        )


class StepOfPoseAndForce(StepOfPose):
    """As :class:`StepOfPose`, and three numbers for the force that the tool exerts on top."""

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.ones(9)
        self.low = -self.high
        self.force = np.zeros(3)

    def begin(self, cell: Cell) -> None:
        """Take the measured pose, and no force."""
        super().begin(cell)
        self.force = np.zeros(3)

    def send(self, cell: Cell, action: Vector) -> None:
        """Move the target, and send the force along the axes of the base."""
        super().send(cell, action)
        self.force = FORCE * action[6:9]
        cell.set_target(self.arm.name, wrench=[*self.force, 0.0, 0.0, 0.0])

    @property
    def target(self) -> Vector:
        """Pose and force, (12,)."""
        return np.concatenate([super().target, self.force])

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        """Return the step to a pose, without a force."""
        return np.concatenate([super().toward(pose_ee_in_base), np.zeros(3)])


class StepOfJoints(Control):
    """Move the targets of all joints by steps, between -1 and 1 of what a step allows."""

    law = "joint_impedance"
    followed = "q"

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.ones(arm.n_joints)
        self.low = -self.high
        self._lower, self._upper = arm.limits.span
        self.q = np.zeros(arm.n_joints)

    def begin(self, cell: Cell) -> None:
        """Take the measured posture."""
        self.q = cell.state(self.arm.name).q.copy()

    def send(self, cell: Cell, action: Vector) -> None:
        """Move the targets, within limits and gate."""
        self._aim(cell, self.q + JOINT_SPEED * self.period * action)

    def _aim(self, cell: Cell, q: Vector) -> None:
        near, here = NEAR * cell.config.gate.joint, cell.state(self.arm.name).q
        self.q = np.clip(np.clip(q, here - near, here + near), self._lower, self._upper)
        cell.set_target(self.arm.name, q=self.q)

    @property
    def target(self) -> Vector:
        """Of all joints, (n,)."""
        return self.q

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        """Raise: joints do not go to poses by themselves."""
        raise NotImplementedError("actions of joints do not go to poses; control: pose_step does")


class AbsoluteJoints(StepOfJoints):
    """Name the positions of all joints [rad, m]."""

    is_absolute = True

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.low, self.high = self._lower.copy(), self._upper.copy()

    def send(self, cell: Cell, action: Vector) -> None:
        """Send them, as far as the gate lets them be from here."""
        self._aim(cell, action)


CONTROLS: dict[str, type[Control]] = {
    "pose_step": StepOfPose,
    "pose": AbsolutePose,
    "pose_step_force": StepOfPoseAndForce,
    "joint_step": StepOfJoints,
    "joint": AbsoluteJoints,
}
"""By the name that environments are made with."""


def control_named(name: str) -> type[Control]:
    """Return a control.

    Raises:
        UnknownName: If there is none of that name.
    """
    if name not in CONTROLS:
        raise UnknownName("control", str(name), tuple(CONTROLS))
    return CONTROLS[name]


def pose_numbers(pose: Pose) -> Vector:
    """Return position and the first two columns of the rotation, (9,)."""
    return np.concatenate([pose.position, pose.rotation[:, 0], pose.rotation[:, 1]])


def pose_of(numbers: Vector, otherwise: Pose) -> Pose:
    """Return the pose that nine numbers mean; columns that are none leave the rotation as it was.

    Args:
        numbers: Position and two columns, (9,).
        otherwise: Whose rotation is kept if the columns are zero or along one line.
    """
    first, second = numbers[3:6], numbers[6:9]
    third = np.cross(first, second)
    if float(np.linalg.norm(third)) < 1e-3:
        return otherwise.at(numbers[:3])
    x = first / np.linalg.norm(first)
    z = third / np.linalg.norm(third)
    return Pose(numbers[:3], np.column_stack([x, np.cross(z, x), z]))


def _within_gate(cell: Cell, arm: str, pose: Pose) -> Pose:
    gate, here = cell.config.gate, cell.pose(arm)
    return pose.clipped(here.position, here.rotation, NEAR * gate.position, NEAR * gate.rotation)


def _exact(rotation: Matrix) -> Matrix:
    """Return the rotation without what a thousand products have added to it."""
    x = rotation[:, 0] / np.linalg.norm(rotation[:, 0])
    z = np.cross(x, rotation[:, 1])
    z /= np.linalg.norm(z)
    return np.column_stack([x, np.cross(z, x), z])
