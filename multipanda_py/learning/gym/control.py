# SPDX-License-Identifier: Apache-2.0
"""Conversion of actions to targets of controllets, for poses or joints."""

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

TOOL_SPEED, TOOL_ROTATION_SPEED = 0.4, 1.5
"""Translational and rotational tool speed for action components of 1 [m/s, rad/s]."""
JOINT_SPEED = 1.0
"""Joint speed for an action component of 1 [rad/s, m/s]."""
FORCE_SCALE = 30.0
"""Force along an axis for an action component of 1 [N]."""
MAX_POSITION = 1.5
"""Maximum absolute coordinate of a tool position in an action, in the base frame [m]."""
CARTESIAN_PARAMS: Mapping[str, Any] = {"stiffness": [800.0, 800.0, 800.0, 40.0, 40.0, 40.0]}
"""Stiffness of the Cartesian controllet, 8 N per centimetre [N/m, Nm/rad]."""
GATE_FRACTION = 0.9
"""Maximum distance of a target from the measured state, as fraction of the gate. Even if the arm
is blocked, its targets stay within the gate and are accepted."""


class Control(ABC):
    """Conversion of the action of one arm to a target of its controllet.

    Args:
        arm: Description of the arm.
        period: Duration of a step of the environment [s].

    Attributes:
        controllet: Type of the controllet.
        is_absolute: True if an action is a target, False if it is an increment of the last target.
        followed: Name of the observation to compare with the target, ``pose`` or ``q``.
        low: Lower bounds of an action, (k,).
        high: Upper bounds of an action, (k,).
    """

    controllet: ClassVar[str]
    is_absolute: ClassVar[bool] = False
    followed: ClassVar[str] = "pose"
    params: ClassVar[Mapping[str, Any]] = {}
    low: Vector
    high: Vector

    def __init__(self, arm: ArmDescription, period: float) -> None:
        self.arm, self.period = arm, period

    @abstractmethod
    def reset(self, cell: Cell) -> None:
        """Set the target to the measured state at the start of an episode."""

    @abstractmethod
    def send(self, cell: Cell, action: Vector) -> None:
        """Convert an action to a target, and send the target to the controllet.

        Args:
            cell: Running cell.
            action: Action of this arm, within its bounds, (k,).
        """

    @property
    @abstractmethod
    def target(self) -> Vector:
        """Last sent target, in the format of the observation ``target``, (m,)."""

    @property
    def rest(self) -> Vector:
        """Action that keeps the last target, without a force, (k,)."""
        return self.target if self.is_absolute else np.zeros(len(self.high))

    @abstractmethod
    def toward(self, pose_ee_in_base: Pose) -> Vector:
        """Return the action that moves the target towards a tool pose in the next step.

        Raises:
            NotImplementedError: If the actions of this control are joint positions.
        """


class DeltaPose(Control):
    r"""Incremental pose control along the axes of the base frame.

    .. math:: p^* \leftarrow p^* + v T a_{1:3}, \qquad R^* \leftarrow \exp(w T a_{4:6}) R^*.

    Symbols: action a between -1 and 1, target position :math:`p^*` and rotation :math:`R^*`,
    speeds v and w, and duration T of a step.

    The target is limited to :data:`GATE_FRACTION` of the gate around the measured pose.
    """

    controllet = "cartesian_impedance"
    params = CARTESIAN_PARAMS

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.ones(6)
        self.low = -self.high
        self.pose = Pose.identity()

    def reset(self, cell: Cell) -> None:
        self.pose = cell.pose(self.arm.name)

    def send(self, cell: Cell, action: Vector) -> None:
        rotation = pin.exp3(TOOL_ROTATION_SPEED * self.period * action[3:6])
        # With an increment of the measured pose, the arm would drift under a payload.
        moved = self.pose.position + TOOL_SPEED * self.period * action[:3]
        self.pose = _within_gate(
            cell, self.arm.name, Pose(moved, _orthonormal(rotation @ self.pose.rotation))
        )
        cell.set_target(self.arm.name, self.pose)

    @property
    def target(self) -> Vector:
        """Target pose in the base frame, (9,): position, first two columns of the rotation."""
        return pose_numbers(self.pose)

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        displacement = (pose_ee_in_base.position - self.pose.position) / (TOOL_SPEED * self.period)
        rotation_vector = pin.log3(pose_ee_in_base.rotation @ self.pose.rotation.T) / (
            TOOL_ROTATION_SPEED * self.period
        )
        return np.concatenate(
            [
                part / max(1.0, float(np.linalg.norm(part)))
                for part in (displacement, rotation_vector)
            ]
        )


class AbsolutePose(Control):
    """Absolute pose control in the base frame.

    An action consists of the position and the first two columns of the rotation matrix, which are
    orthonormalised. The target is limited to :data:`GATE_FRACTION` of the gate around the measured
    pose.

    Source: Zhou et al., On the continuity of rotation representations, 2019.
    """

    controllet = "cartesian_impedance"
    params = CARTESIAN_PARAMS
    is_absolute = True

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.array([MAX_POSITION] * 3 + [1.0] * 6)
        self.low = -self.high
        self.pose = Pose.identity()

    def reset(self, cell: Cell) -> None:
        self.pose = cell.pose(self.arm.name)

    def send(self, cell: Cell, action: Vector) -> None:
        """Send the pose in an action as target, limited to the gate."""
        self.pose = _within_gate(cell, self.arm.name, pose_of(action, self.pose))
        cell.set_target(self.arm.name, self.pose)

    @property
    def target(self) -> Vector:
        """Target pose in the base frame, (9,): position, first two columns of the rotation."""
        return pose_numbers(self.pose)

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        return pose_numbers(
            pose_ee_in_base.clipped(
                self.pose.position,
                self.pose.rotation,
                TOOL_SPEED * self.period,
                TOOL_ROTATION_SPEED * self.period,
            )
        )


class DeltaPoseAndForce(DeltaPose):
    """Incremental pose control with three more components for the force that the tool exerts."""

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.ones(9)
        self.low = -self.high
        self.force = np.zeros(3)

    def reset(self, cell: Cell) -> None:
        super().reset(cell)
        self.force = np.zeros(3)

    def send(self, cell: Cell, action: Vector) -> None:
        """Send target pose and force, along the base axes, of an action."""
        super().send(cell, action)
        self.force = FORCE_SCALE * action[6:9]
        cell.set_target(self.arm.name, wrench=[*self.force, 0.0, 0.0, 0.0])

    @property
    def target(self) -> Vector:
        """Target in the base frame, (12,): nine numbers as for ``DeltaPose``, then force [N]."""
        return np.concatenate([super().target, self.force])

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        """Return the action that moves the target towards a pose and requests no force."""
        return np.concatenate([super().toward(pose_ee_in_base), np.zeros(3)])


class DeltaJoints(Control):
    """Incremental joint control.

    Action components from -1 to 1 are the speeds of the target positions, relative to
    :data:`JOINT_SPEED`.
    """

    controllet = "joint_impedance"
    followed = "q"

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.high = np.ones(arm.n_joints)
        self.low = -self.high
        self._lower, self._upper = arm.limits.span
        self.q = np.zeros(arm.n_joints)

    def reset(self, cell: Cell) -> None:
        self.q = cell.state(self.arm.name).q.copy()

    def send(self, cell: Cell, action: Vector) -> None:
        """Send the last target, incremented by the action.

        The target is limited to the joint limits, and to the gate around the measured positions.
        """
        self._aim(cell, self.q + JOINT_SPEED * self.period * action)

    def _aim(self, cell: Cell, q: Vector) -> None:
        near, here = GATE_FRACTION * cell.config.gate.joint, cell.state(self.arm.name).q
        self.q = np.clip(np.clip(q, here - near, here + near), self._lower, self._upper)
        cell.set_target(self.arm.name, q=self.q)

    @property
    def target(self) -> Vector:
        """Target positions of all joints, (n,) [rad, m]."""
        return self.q

    def toward(self, pose_ee_in_base: Pose) -> Vector:
        raise NotImplementedError("joint actions have no pose. Use the control delta_pose.")


class AbsoluteJoints(DeltaJoints):
    """Absolute control of joint positions [rad, m]."""

    is_absolute = True

    def __init__(self, arm: ArmDescription, period: float) -> None:
        super().__init__(arm, period)
        self.low, self.high = self._lower.copy(), self._upper.copy()

    def send(self, cell: Cell, action: Vector) -> None:
        """Send the positions in an action as target.

        The target is limited to the joint limits, and to the gate around the measured positions.
        """
        self._aim(cell, action)


CONTROLS: dict[str, type[Control]] = {
    "delta_pose": DeltaPose,
    "pose": AbsolutePose,
    "delta_pose_force": DeltaPoseAndForce,
    "delta_joints": DeltaJoints,
    "joint": AbsoluteJoints,
}
"""Controls by the name used in the arguments of environments."""


def control_named(name: str) -> type[Control]:
    """Return the class of the control with a name, such as ``pose``.

    Raises:
        UnknownName: If no control has this name.
    """
    if name not in CONTROLS:
        raise UnknownName("control", str(name), tuple(CONTROLS))
    return CONTROLS[name]


def pose_numbers(pose: Pose) -> Vector:
    """Convert a pose to its position and the first two columns of its rotation matrix, (9,)."""
    return np.concatenate([pose.position, pose.rotation[:, 0], pose.rotation[:, 1]])


def pose_of(numbers: Vector, otherwise: Pose) -> Pose:
    """Convert nine components to a pose with an orthonormal rotation matrix.

    Args:
        numbers: Position and first two columns of the rotation matrix, (9,).
        otherwise: Pose whose rotation is used if the columns are zero or parallel.
    """
    first, second = numbers[3:6], numbers[6:9]
    third = np.cross(first, second)
    if float(np.linalg.norm(third)) < 1e-3:
        return otherwise.with_position(numbers[:3])
    x = first / np.linalg.norm(first)
    z = third / np.linalg.norm(third)
    return Pose(numbers[:3], np.column_stack([x, np.cross(z, x), z]))


def _within_gate(cell: Cell, arm: str, pose: Pose) -> Pose:
    gate, here = cell.config.gate, cell.pose(arm)
    return pose.clipped(
        here.position, here.rotation, GATE_FRACTION * gate.position, GATE_FRACTION * gate.rotation
    )


def _orthonormal(rotation: Matrix) -> Matrix:
    x = rotation[:, 0] / np.linalg.norm(rotation[:, 0])
    z = np.cross(x, rotation[:, 1])
    z /= np.linalg.norm(z)
    return np.column_stack([x, np.cross(z, x), z])
