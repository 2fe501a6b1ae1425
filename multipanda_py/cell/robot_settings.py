# SPDX-License-Identifier: Apache-2.0
"""The settings of a cell's robots: read, and changed while their arms hold."""

from __future__ import annotations

import threading

from multipanda_py.cell.arm_request import ArmRequest, given_up
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.counts import Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.config.backend_section import changed
from multipanda_py.exceptions import LoopTimeout, SettingsRejected
from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import ANSWER_HEAD, Word
from multipanda_py.settings import Settings

SETTINGS_TIMEOUT = 15.0
"""Longer than a robot and its driver may take together [s]."""
_ANSWERS = (Event.SETTINGS_APPLIED, Event.SETTINGS_REFUSED)


class RobotSettings:
    """Tell robots other settings, and know which they have.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        counts: Where refusals and withdrawals go.
    """

    def __init__(self, names: CellNames, connection: Connection, counts: Counts) -> None:
        self._names, self._connection, self._counts = names, connection, counts
        self._turn = threading.Lock()

    def current(self, arm: str) -> Settings:
        """Return the settings that an arm's robot has now: those of the cell file, or newer.

        Raises:
            UnknownName: If there is no such arm.
        """
        settings = self._names.arm_config(arm).settings
        if not self._connection.is_open:
            return settings
        answer = self._connection.mailbox.settings_answers[self._names.arm_index(arm)].newest()
        return settings if answer is None else settings.decode(answer[ANSWER_HEAD:])

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
            request = self.ask(arm, **settings)
            try:
                self._connection.wait(
                    lambda: self.answer(request),
                    timeout,
                    f"an answer of arm {arm} to its settings",
                )
            except LoopTimeout as error:
                raise LoopTimeout(f"{error}; {self.withdraw(request)}") from None

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
        with self._connection.lock:
            box = self._connection.mailbox
            events = box.words[Word.EVENTS]
            number = box.settings[self._names.arm_index(arm)].write(asked.encode())
            box.ring_bell()
        return ArmRequest(arm, number, events)

    def answer(self, request: ArmRequest) -> bool:
        """Return whether settings are applied now; False while there is no answer.

        Raises:
            SettingsRejected: If the loop or the robot refused them, with the reason.
        """
        arm, box = request.arm, self._connection.mailbox
        answer = box.settings_answers[self._names.arm_index(arm)].newest()
        if answer is None or answer[0] < request.number:
            return False
        if answer[0] == request.number and answer[1]:
            return True
        self._counts.rejected[f"{arm} settings"] += 1
        if answer[0] > request.number:
            raise SettingsRejected(f"{arm}: somebody else has asked for settings meanwhile")
        found = box.events_since(request.events)[1]
        reasons = [e.text for e in found if e.arm == arm and e.event in _ANSWERS]
        raise SettingsRejected(reasons[-1] if reasons else f"{arm}: see the loop's events")

    def withdraw(self, request: ArmRequest) -> str:
        """Give settings up; return in words whether they still may come into force."""
        slot = self._connection.mailbox.settings[self._names.arm_index(request.arm)]
        done = self._connection.withdraw(slot, request.number)
        self._counts.withdrawn["settings"] += done
        return given_up(done)
