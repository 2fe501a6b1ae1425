# SPDX-License-Identifier: Apache-2.0
"""Joints of an arm with compliant actuators, their operation modes and commands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ActuatorRejected

COMMAND_ALIASES = {"torque_m1_command": "motor_1_command", "torque_m2_command": "motor_2_command"}
"""Alternative names of commands: those in the code of the ROS-Gazebo toolbox, mapped to those in
its paper."""

MAX_COMMAND = 1e6
"""Maximum absolute value of a command in its unit, so that products with it stay finite."""


class OperationMode(IntEnum):
    """Operation mode of a compliant actuator: its commands and its motor model.

    Modes 0 and 1 act on the link without springs. Motors reach their commanded positions without
    delay in modes 2 and 3, and have inertia, damping, friction and limits in modes 4 to 6.

    Source: Mengacci et al., Frontiers in Robotics and AI 8, 2021.
    """

    LINK_TORQUE = 0
    """Torque on the link."""
    LINK_PID = 1
    """Position of the link, which a PID controller tracks with a torque on the link."""
    SPRING_REFERENCES = 2
    """Positions of both motors."""
    EQUILIBRIUM = 3
    """Equilibrium position of the springs, and stiffness preset."""
    MOTOR_TORQUE = 4
    """Torques of both motors."""
    MOTOR_PID = 5
    """Positions of both motors, which PID controllers track."""
    EQUILIBRIUM_PID = 6
    """Equilibrium position and stiffness preset, which PID controllers of the motors track."""

    @classmethod
    def from_value(cls, value: object) -> OperationMode:
        """Return the mode with a number, such as 6, or a name, such as ``equilibrium_pid``.

        Raises:
            ActuatorRejected: No mode has this number or name.
        """
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        for mode in cls:
            if not isinstance(value, (bool, str)) and value == mode:
                return mode
        names = ", ".join(f"{mode.value} {mode.name.lower()}" for mode in cls)
        raise ActuatorRejected(f"mode: got {value!r:.40}, allowed {names}")

    @property
    def is_rigid(self) -> bool:
        """True if commands act on the link directly, without springs."""
        return self <= OperationMode.LINK_PID

    @property
    def has_motors(self) -> bool:
        """True if motors have inertia and need parameters."""
        return self >= OperationMode.MOTOR_TORQUE

    @property
    def has_motor_pid(self) -> bool:
        """True if PID controllers move the motors."""
        return self >= OperationMode.MOTOR_PID

    @property
    def takes_equilibrium(self) -> bool:
        """True if the commands are the springs' equilibrium position and a stiffness preset."""
        return self in (OperationMode.EQUILIBRIUM, OperationMode.EQUILIBRIUM_PID)

    @property
    def has_motor_references(self) -> bool:
        """True if the commands determine the positions of the motors."""
        return self.takes_equilibrium or self in (
            OperationMode.SPRING_REFERENCES, OperationMode.MOTOR_PID
        )  # fmt: skip

    @property
    def commands(self) -> tuple[str, ...]:
        """Names of the command values of this mode."""
        return _COMMANDS[self]


_COMMANDS = {
    OperationMode.LINK_TORQUE: ("torque_command",),
    OperationMode.LINK_PID: ("link_command",),
    OperationMode.SPRING_REFERENCES: ("reference_1", "reference_2"),
    OperationMode.EQUILIBRIUM: ("equilibrium_position", "stiffness_preset"),
    OperationMode.MOTOR_TORQUE: ("motor_1_command", "motor_2_command"),
    OperationMode.MOTOR_PID: ("reference_1", "reference_2"),
    OperationMode.EQUILIBRIUM_PID: ("equilibrium_position", "stiffness_preset"),
}
COMMANDS = tuple(dict.fromkeys(name for names in _COMMANDS.values() for name in names))
"""Names of the commands of all modes."""


@dataclass(frozen=True, eq=False)
class ActuatedJoints:
    """The m joints of an arm that have compliant actuators, from base to flange.

    Attributes:
        names: Joint names without the arm's prefix.
        joint_indices: Indices of the joints in the arm, from 0, (m,).
        modes: Name of the operation mode of each joint, as in cell files.
        have_motors: True for joints with motor parameters, (m,).
        have_second: True for joints with two motors, (m,).
        are_antagonistic: True for joints with two motors that pull against each other, (m,).
        preset_low: Minimum of each stiffness preset, (m,), in ``preset_units``.
        preset_high: Maximum of each stiffness preset, (m,), in ``preset_units``.
        preset_units: Unit of each stiffness preset, such as rad; empty for joints without one.
    """

    names: tuple[str, ...]
    joint_indices: NDArray[np.intp]
    modes: tuple[str, ...]
    have_motors: NDArray[np.bool_]
    have_second: NDArray[np.bool_]
    are_antagonistic: NDArray[np.bool_]
    preset_low: NDArray[np.float64]
    preset_high: NDArray[np.float64]
    preset_units: tuple[str, ...]
