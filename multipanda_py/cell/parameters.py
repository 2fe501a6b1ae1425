# SPDX-License-Identifier: Apache-2.0
"""The settings of a cell's robots: read, and changed while their arms hold."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from multipanda_py.cell.arm_request import ArmRequest, ArmRequests, RequestKind
from multipanda_py.cell.connection import Connection, Counts, seconds
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.backend_section import changed
from multipanda_py.exceptions import MultipandaError, ParameterRejected, SettingsRejected
from multipanda_py.parameters import Settings
from multipanda_py.realtime.events import Event


class ParameterWriter:
    """Check parameters, hand them to the loop, and know which are in force.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        reader: Of its states.
        counts: Where refusals go.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts
        self._values = [spec.initial_values() for spec in names.specs]

    def values(self, name: str) -> dict[str, Any]:
        """Return all parameters of an instance by name."""
        return dict(self._values[self._names.spec(name).index])

    def change(self, name: str, values: Mapping[str, object]) -> None:
        """Change parameters of an instance, all together between two cycles.

        Raises:
            ParameterRejected: With every fault; nothing has changed.
        """
        spec = self._names.spec(name)
        try:
            accepted = spec.checked(values)
            if reason := self._reader.silence_reason():
                raise ParameterRejected(f"{name}: {reason}")
        except MultipandaError:
            self._counts.rejected["parameter"] += 1
            raise
        with self._connection.lock:
            changed = self._values[spec.index] | accepted
            if spec.parameter_width:
                slot = self._connection.mailbox.parameters[spec.index]
                self._connection.post(slot, spec.encode(changed))
            self._values[spec.index] = changed


SETTINGS_TIMEOUT = 15.0
"""Longer than a robot and its driver may take together [s]."""
_KIND = RequestKind(
    "settings",
    SettingsRejected,
    (Event.SETTINGS_APPLIED, Event.SETTINGS_REFUSED),
    lambda box: (box.settings, box.settings_answers),
)


class RobotSettings:
    """Tell robots other settings, and know which they have.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        counts: Where refusals and withdrawals go.
    """

    def __init__(self, names: CellNames, connection: Connection, counts: Counts) -> None:
        self._names, self._connection, self._counts = names, connection, counts
        self._requests = ArmRequests(_KIND, names, connection, counts)
        self._turn = threading.Lock()

    def current(self, arm: str) -> Settings:
        """Return the settings that an arm's robot has now: those of the cell file, or newer.

        Raises:
            UnknownName: If there is no such arm.
        """
        settings = self._names.arm_config(arm).settings
        if not self._connection.is_open:
            return settings
        answer = self._requests.newest(arm)
        return settings if answer is None else settings.decode(answer)

    def change(self, arm: str, *, timeout: float = SETTINGS_TIMEOUT, **settings: object) -> None:
        """Change settings of an arm's robot, as a whole or not at all, and wait for its answer.

        An arm that holds is let go of for that: its torque goes to zero, its motion ends, and it
        holds again where it is then, which takes some tenths of a second. Other arms go on. A
        simulated arm takes settings at once.

        Args:
            arm: The arm; its hold must have it.
            timeout: How long to wait [s].
            settings: Thresholds, impedances, load and stiffness frame by name, as in the cell
                file (the ``Settings`` of the arm's backend); others stay.

        Raises:
            SettingsRejected: If one is not allowed, a controllet has the arm, or the robot
                refuses; all settings are as they were.
            LoopTimeout: If no answer came in time. The request is withdrawn then, or pending if
                it has begun, as the message says.
        """
        with self._turn:
            wait = seconds(timeout, SettingsRejected)
            self._requests.wait(self.ask(arm, **settings), wait)

    def ask(self, arm: str, **settings: object) -> ArmRequest:
        """Ask for other settings and return at once; see :meth:`answer`.

        Raises:
            SettingsRejected: If one is not allowed.
        """
        try:
            section = self._names.arm_config(arm).section
            asked = changed(self.current(arm), settings, arm, section)
        except SettingsRejected:
            self._counts.rejected[f"{arm} settings"] += 1
            raise
        return self._requests.ask(arm, asked.encode())

    def answer(self, request: ArmRequest) -> bool:
        """Return whether settings are applied now; False while there is no answer.

        Raises:
            SettingsRejected: If the loop or the robot refused them, with the reason.
        """
        return self._requests.answer(request) is not None

    def withdraw(self, request: ArmRequest) -> str:
        """Give settings up; return in words whether they still may come into force."""
        return self._requests.withdraw(request)
