# SPDX-License-Identifier: Apache-2.0
"""Which joints of an arm are driven through springs, and what may be asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ActuatorRefused

ALIASES = {"torque_m1_command": "motor_1_command", "torque_m2_command": "motor_2_command"}
"""Other names of commands: those in the toolbox's code, beside those in its paper."""

LARGEST_COMMAND = 1e6
"""More is refused: there is no such angle or torque, and squares of it must be finite."""


class OperationMode(IntEnum):
    """What is commanded, by the numbers of the ROS-Gazebo toolbox (Mengacci et al., 2021).

    In the first two there are no springs; in the next two the motors stand where they are asked
    to at once; in the last three they have inertia, damping, friction and limits.
    """

    LINK_TORQUE = 0
    """The torque of the link."""
    LINK_PID = 1
    """Where a PID controller is to bring the link, with a torque on it."""
    SPRING_REFERENCES = 2
    """Where both motors stand."""
    EQUILIBRIUM = 3
    """Where springs are at rest, and the preset of their stiffness."""
    MOTOR_TORQUE = 4
    """The torques of both motors."""
    MOTOR_PID = 5
    """Where PID controllers are to bring both motors."""
    EQUILIBRIUM_PID = 6
    """Equilibrium and preset, to which PID controllers bring the motors."""

    @classmethod
    def of(cls, value: object) -> OperationMode:
        """Return a mode by its number or its name.

        Raises:
            ActuatorRefused: If there is no such mode.
        """
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        for mode in cls:
            if not isinstance(value, (bool, str)) and value == mode:
                return mode
        names = ", ".join(f"{mode.value} {mode.name.lower()}" for mode in cls)
        raise ActuatorRefused(f"mode: got {value!r:.40}, allowed {names}")

    @property
    def is_rigid(self) -> bool:
        """Whether there is no spring between torque and link."""
        return self <= OperationMode.LINK_PID

    @property
    def has_motors(self) -> bool:
        """Whether motors have inertia, and need parameters."""
        return self >= OperationMode.MOTOR_TORQUE

    @property
    def has_motor_pid(self) -> bool:
        """Whether PID controllers move the motors."""
        return self >= OperationMode.MOTOR_PID

    @property
    def takes_equilibrium(self) -> bool:
        """Whether the actuator's map makes motor positions out of what is commanded."""
        return self in (OperationMode.EQUILIBRIUM, OperationMode.EQUILIBRIUM_PID)

    @property
    def takes_references(self) -> bool:
        """Whether it is commanded where motors are to be, by the actuator's map or at once."""
        return self.takes_equilibrium or self in (
            OperationMode.SPRING_REFERENCES, OperationMode.MOTOR_PID
        )  # fmt: skip

    @property
    def commands(self) -> tuple[str, ...]:
        """Names of what may be commanded."""
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
"""Names of all that may be commanded in some mode."""


@dataclass(frozen=True, eq=False)
class ActuatedJoints:
    """The m joints of an arm that have compliant actuators, in the order of its joints.

    Attributes:
        names: Without the arm's prefix.
        places: Which of the arm's joints they are, counted from 0, (m,).
        modes: Operation modes of the cell file, by name.
        have_motors: Whether there are parameters of their motors, (m,).
        have_second: Whether there is a second motor, (m,).
        are_antagonistic: Whether both motors pull against each other, (m,).
        preset_low: Smallest stiffness presets, (m,) [rad, or m where that is their unit].
        preset_high: Largest ones, (m,).
        preset_units: Their units; an empty text where there are none.
    """

    names: tuple[str, ...]
    places: NDArray[np.intp]
    modes: tuple[str, ...]
    have_motors: NDArray[np.bool_]
    have_second: NDArray[np.bool_]
    are_antagonistic: NDArray[np.bool_]
    preset_low: NDArray[np.float64]
    preset_high: NDArray[np.float64]
    preset_units: tuple[str, ...]
