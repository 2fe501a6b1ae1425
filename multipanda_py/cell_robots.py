# SPDX-License-Identifier: Apache-2.0
"""The settings of a cell's robots: read, and changed while their arms hold."""

from __future__ import annotations

import threading

from multipanda_py.cell_requests import CellRequests
from multipanda_py.config import CellConfig
from multipanda_py.exceptions import SettingsRejected
from multipanda_py.franka.live import changed, decode, encode
from multipanda_py.franka.options import FrankaConfig
from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import Mailbox, Word

SETTINGS_TIMEOUT = 15.0
"""Longer than a robot and its driver may take together [s]."""
_ANSWERS = (Event.SETTINGS_APPLIED, Event.SETTINGS_REFUSED)


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
            LoopTimeout: If no answer came in time.
        """
        try:
            with self._settings_lock:
                options = changed(self.robot_settings(arm), settings, arm)
                box = self._box()
                events = box.words[Word.EVENTS]
                with self._lock:
                    number = box.settings[self._arm_index[arm]].write(encode(options))
                    box.ring_bell()
                self._await_settings(arm, box, number, events, timeout)
        except SettingsRejected:
            self.rejected[f"{arm} settings"] += 1
            raise

    def _await_settings(
        self, arm: str, box: Mailbox, number: int, events: int, timeout: float
    ) -> None:
        slot = box.settings_answers[self._arm_index[arm]]
        applied = False

        def answered() -> bool:
            nonlocal applied
            answer = slot.newest()
            if answer is None or answer[0] < number:
                return False
            applied = bool(answer[1])
            return True

        self.wait(answered, timeout, f"an answer of arm {arm} to its settings")
        if not applied:
            found = box.events_since(events)[1]
            reasons = [e.text for e in found if e.arm == arm and e.event in _ANSWERS]
            raise SettingsRejected(reasons[-1] if reasons else f"{arm}: see the loop's events")
