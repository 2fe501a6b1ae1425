# SPDX-License-Identifier: Apache-2.0
"""Tell users once when a posture takes some of a law's stiffness."""

from __future__ import annotations

from typing import Any

from multipanda_py.control.modal_damping import BANDWIDTH, KEPT
from multipanda_py.controllet import Controllet
from multipanda_py.report import report_titles

BEGINS, ENDS = 0.95, 0.98
"""Share of the stiffness below which a law counts as derated, and above which not any more."""
WORSE = 0.75
"""Of the share that was said, at which it is said again."""
PAUSE = 1.0
"""Least time between two notices of an instance [s]."""


class Derating:
    """Watch what a law reports as :data:`.KEPT`, and give notice when it begins to be less.

    The notice names arm, law, share and reason. It comes once per time that the law is derated,
    and again where it gets much worse; what begins sooner than a second after the last notice is
    counted, and said when the second is over if it still is so.

    Args:
        name: Of the law.
        law: Says of which arm its report is (:attr:`.Controllet.softest`).

    Attributes:
        applies: Whether the law reports what it keeps.
        times: How often it has begun since the activation.

    Thread: control.
    """

    def __init__(self, name: str, law: Controllet[Any, Any]) -> None:
        titles = report_titles(law.report_names)
        self.applies = str(KEPT) in titles
        place = titles.index(str(KEPT)) if self.applies else 0
        self._kept = law.report[place : place + 1].data
        self._name, self._law, self._context = name, law, law.context
        self._pause = round(PAUSE / law.context.period)
        self.start()

    def start(self) -> None:
        """Forget what was said: the law begins anew."""
        self.times = self._wait = 0
        self._is_derated, self._said = False, 1.0

    def look(self) -> None:
        """Judge the report of this cycle."""
        if self._wait:
            self._wait -= 1
        kept = self._kept[0]
        if kept >= (ENDS if self._is_derated else BEGINS):
            self._is_derated = False
            return
        if not self._is_derated:
            self._is_derated, self._said = True, 1.0
            self.times += 1
        if not self._wait and (self._said == 1.0 or kept < WORSE * self._said):
            self._say(kept)

    def _say(self, kept: float) -> None:
        self._wait, self._said = self._pause, kept
        arms, softest = self._context.arms, self._law.softest
        where = arms[softest].name if softest >= 0 else "what the hands hold"
        self._context.notify(
            f"{where}: {self._name} keeps {kept:.0%} of its stiffness in the softest "
            f"direction of this posture, as more would have to be braked faster than at "
            f"{BANDWIDTH:g} 1/s and swing with latency (time {self.times} since its activation); "
            "ask for less stiffness, or for another posture"
        )
