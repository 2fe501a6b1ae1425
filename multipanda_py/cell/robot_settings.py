# SPDX-License-Identifier: Apache-2.0
"""The settings of a cell's robots: read, and changed while their arms hold."""

from __future__ import annotations

import threading

from multipanda_py.cell.arm_request import ArmRequest, ArmRequests, RequestKind
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.counts import Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.patience import seconds
from multipanda_py.config.backend_section import changed
from multipanda_py.exceptions import SettingsRejected
from multipanda_py.loop.events import Event
from multipanda_py.settings import Settings

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
