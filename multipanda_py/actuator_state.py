# SPDX-License-Identifier: Apache-2.0
"""What is asked of the compliant actuators of an arm, and what they do, at one instant."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

LAWS = -1
"""In place of an operation mode: springs exert the torque that a law commands."""


class ActuatorState:
    """Live state of the compliant actuators of an arm with n joints.

    Every array is a view of the row. In a cell without such actuators there is no room for them,
    and n is 0 here; joints without springs have zeros.

    Attributes:
        command: What a controllet asks for, (4, n): the number of an operation mode, or
            :data:`LAWS`; the first and the second command of that mode, NaN for what it is
            already; a torque that pushes the joint from outside [Nm].
        mode: Number of the operation mode that a joint is in, (n,).
        reference: Where both motors are asked to be, (2, n) [rad, or m where that is their unit].
        position: Where they are, (2, n).
        velocity: How fast, (2, n).
        torque: What they exert, (2, n) [Nm].
        load: What springs exert on them, (2, n) [Nm].
        carried: What the robot adds to the torque of a law, its weight first of all, (n,) [Nm].

    Thread: control.
    """

    __slots__ = (
        "carried", "command", "load", "mode", "position", "reference", "torque", "velocity",
    )  # fmt: skip

    def __init__(self, record: NDArray[np.void], joints: int) -> None:
        """Bind the views.

        Args:
            record: One element of ``row["arms"]``, shape ().
            joints: Of the arm, n.
        """
        self.command: NDArray[np.float64] = record["actuator_command"][:, :joints]
        self.mode: NDArray[np.int64] = record["actuator_mode"][:joints]
        self.reference: NDArray[np.float64] = record["motor_reference"][:, :joints]
        self.position: NDArray[np.float64] = record["motor_position"][:, :joints]
        self.velocity: NDArray[np.float64] = record["motor_velocity"][:, :joints]
        self.torque: NDArray[np.float64] = record["motor_torque"][:, :joints]
        self.load: NDArray[np.float64] = record["motor_load"][:, :joints]
        self.carried: NDArray[np.float64] = record["tau_carried"][:joints]

    def leave_to_laws(self) -> None:
        """Ask for what laws of torques command, and for no push from outside."""
        self.command[:] = np.nan
        self.command[0], self.command[3] = LAWS, 0.0

    def for_readers(self) -> ActuatorState:
        """Return this state for those who must not write to it; but ``command`` is a law's."""
        reader = copy(self)
        for name in self.__slots__:
            view = getattr(self, name).view()
            view.flags.writeable = name == "command"
            setattr(reader, name, view)
        return reader
