# SPDX-License-Identifier: Apache-2.0
"""The settings of a cell's robots: read, and changed while their arms hold."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from multipanda_py.cell.requests import CellRequests
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import LoopTimeout, SettingsRejected
from multipanda_py.franka.live import changed, decode, encode
from multipanda_py.franka.options import FrankaConfig
from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import Word

SETTINGS_TIMEOUT = 15.0
"""Longer than a robot and its driver may take together [s]."""
_ANSWERS = (Event.SETTINGS_APPLIED, Event.SETTINGS_REFUSED)


@dataclass(frozen=True)
class ArmRequest:
    """Something that the loop has been asked to do with one arm, and will answer by an event.

    Attributes:
        arm: The arm.
        number: Of the record.
        events: How many there were before.
    """

    arm: str
    number: int
    events: int


class CellRobots(CellRequests):
    """Tell robots other settings, and know which they have."""

    def __init__(self, config: CellConfig) -> None:
        super().__init__(config)
        self._settings_lock = threading.Lock()

    def robot_settings(self, arm: str) -> FrankaConfig:
        """Return the settings that an arm's robot has now: those of the cell file, or newer.

        Raises:
            UnknownName: If there is no such arm.
        """
        options = self.config.arms[self._arm(arm)].franka
        if self._mailbox is None:
            return options
        answer = self._mailbox.settings_answers[self._arm_index[arm]].newest()
        return options if answer is None else decode(answer[2:], options)

    def set_robot_settings(
        self, arm: str, *, timeout: float = SETTINGS_TIMEOUT, **settings: object
    ) -> None:
        """Change settings of an arm's robot, as a whole or not at all, and wait for its answer.

        An arm that holds is let go of for that: its torque goes to zero, its motion ends, and it
        holds again where it is then, which takes some tenths of a second. Other arms go on. A
        simulated arm takes settings at once.

        Args:
            arm: The arm; its hold must have it.
            timeout: How long to wait [s].
            settings: Thresholds, impedances, load and stiffness frame by name, as in the cell
                file (:class:`~multipanda_py.franka.options.FrankaConfig`); others stay.

        Raises:
            SettingsRejected: If one is not allowed, a controllet has the arm, or the robot
                refuses; all settings are as they were.
            LoopTimeout: If no answer came in time. The request is withdrawn then, or pending if
                it has begun, as the message says.
        """
        with self._settings_lock:
            request = self.ask_robot_settings(arm, **settings)
            try:
                self.wait(
                    lambda: self.settings_answer(request),
                    timeout,
                    f"an answer of arm {arm} to its settings",
                )
            except LoopTimeout as error:
                raise LoopTimeout(f"{error}; {self.withdraw_settings(request)}") from None

    def ask_robot_settings(self, arm: str, **settings: object) -> ArmRequest:
        """Ask for other settings and return at once; see :meth:`settings_answer`.

        Raises:
            SettingsRejected: If one is not allowed.
        """
        try:
            options = changed(self.robot_settings(arm), settings, arm)
        except SettingsRejected:
            self.rejected[f"{arm} settings"] += 1
            raise
        with self._lock:
            box = self._box()
            events = box.words[Word.EVENTS]
            number = box.settings[self._arm_index[arm]].write(encode(options))
            box.ring_bell()
        return ArmRequest(arm, number, events)

    def settings_answer(self, request: ArmRequest) -> bool:
        """Return whether settings are applied now; False while there is no answer.

        Raises:
            SettingsRejected: If the loop or the robot refused them, with the reason.
        """
        arm, box = request.arm, self._box()
        answer = box.settings_answers[self._arm_index[arm]].newest()
        if answer is None or answer[0] < request.number:
            return False
        if answer[0] == request.number and answer[1]:
            return True
        self.rejected[f"{arm} settings"] += 1
        if answer[0] > request.number:
            raise SettingsRejected(f"{arm}: somebody else has asked for settings meanwhile")
        found = box.events_since(request.events)[1]
        reasons = [e.text for e in found if e.arm == arm and e.event in _ANSWERS]
        raise SettingsRejected(reasons[-1] if reasons else f"{arm}: see the loop's events")

    def withdraw_settings(self, request: ArmRequest) -> str:
        """Give settings up; return in words whether they still may come into force."""
        slot = self._box().settings[self._arm_index[request.arm]]
        return given_up(self._withdraw("settings", slot, request.number))


def given_up(withdrawn: bool) -> str:
    """Say whether a request that is not waited for any more still may be carried out."""
    if withdrawn:
        return "it is withdrawn and will not happen"
    return "it has begun and is pending: see what the arm has then"
