# SPDX-License-Identifier: Apache-2.0
"""What a law may command an arm that takes positions or velocities."""

from __future__ import annotations

from multipanda_py.loop.events import Event
from multipanda_py.loop.safety import VELOCITY_MARGIN, is_finite
from multipanda_py.state import INTERFACES, ArmState, Vector

JUMP_TIME = 0.05
"""A position that the arm could not reach in this time at full speed is a jump [s]."""


class RefusedCommand(ArithmeticError):
    """A law commanded what never gets to an arm.

    Attributes:
        event: The fault that it is.
    """

    def __init__(self, event: Event, text: str) -> None:
        super().__init__(text)
        self.event = event


class CommandCheck:
    """Refuse commands that are not finite, and jumps; what is merely too fast is bounded later.

    Args:
        name: Of the instance.
        interface: Of its law.
        state: Of the arm.
    """

    def __init__(self, name: str, interface: str, state: ArmState) -> None:
        self._name, self._state = name, state
        self._what = interface
        self._is_position = interface == INTERFACES[1]
        speed = state.limits.velocity
        self._most = speed * (JUMP_TIME if self._is_position else VELOCITY_MARGIN)

    def look(self, command: Vector) -> None:
        """Look at a command, (n,) [rad] or [rad/s].

        Raises:
            RefusedCommand: If it must not get to the arm.
        """
        if not is_finite(command):
            raise RefusedCommand(
                Event.NON_FINITE_COMMAND,
                f"{self._name} commanded {self._what} {command.tolist()}, allowed finite numbers",
            )
        step = command - self._state.joint_command[0] if self._is_position else command
        beyond = abs(step) > self._most
        if beyond.any():
            joint = int(beyond.argmax())
            got, most = float(step[joint]), float(self._most[joint])
            unit = self._state.limits.unit(joint)
            text = (
                f"a step of {got:.4f} {unit}, allowed +-{most:.4f} {unit}"
                if self._is_position
                else f"{got:.3f} {unit}/s, allowed +-{most:.3f} {unit}/s"
            )
            raise RefusedCommand(
                Event.COMMAND_JUMP,
                f"{self._name} commanded joint {joint + 1} of {self._state.name} {text}",
            )
