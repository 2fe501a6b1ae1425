# SPDX-License-Identifier: Apache-2.0
"""What the law and each of its features add to the torques of a controllet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.control.impedance.modal_damping import BANDWIDTH, KEPT
from multipanda_py.controllet import Controllet
from multipanda_py.realtime.feature_set import FeatureSet
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import report_titles

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


_subtract = np.subtract


class TorqueTerms:
    r"""Write torque terms to the records of the arms, while somebody has asked for them.

    The torques are noted after the law and after each feature, in the order in which they add;
    what a part has added is the difference of two notes,

    .. math:: \tau_k = n_k - n_{k-1}, \qquad n_0 = 0

    A note is one copy between two views. Parts that stand in the record in the order in which
    they add are subtracted together.

    Args:
        tau: The torques of the controllet, per arm; the same arrays for ever.
        records: The arms' records in the row, each of shape ().
        n_terms: The law and all its features.

    Attributes:
        is_on: Whether terms are wanted.

    Thread: control.
    """

    def __init__(
        self, tau: Sequence[Vector], records: Sequence[NDArray[np.void]], n_terms: int
    ) -> None:
        self.is_on = False
        self._n_terms = n_terms
        self._traced = [record["terms_traced"].reshape(1).data for record in records]
        spaces = [record["terms"].reshape(-1) for record in records]
        self._blank = [(flat.data, np.zeros(flat.size).data) for flat in spaces]
        self._torques = [torque.data for torque in tau]
        self._notes = [np.zeros((n_terms + 1, torque.size)) for torque in tau]
        self._terms = [
            record["terms"][:n_terms, : torque.size] for record, torque in zip(records, tau)
        ]
        self._of_law = self._note(1)
        self._planned: object = None
        self._steps: list[tuple[Any, list[tuple[memoryview, memoryview]]]] = []
        self._runs: list[tuple[Vector, Vector, Vector]] = []

    def _note(self, place: int) -> list[tuple[memoryview, memoryview]]:
        return [(notes[place].data, own) for notes, own in zip(self._notes, self._torques)]

    def begin(self) -> None:
        """Take the records over from whoever had the arms."""
        for place, zeros in self._blank:
            place[:] = zeros
        for count in self._traced:
            count[0] = self._n_terms if self.is_on else 0

    def add(
        self, features: FeatureSet, states: Sequence[ArmState], target: Any, period: float,
        tau: Sequence[Vector],
    ) -> None:  # fmt: skip
        """Have the features add to the torques of the law, and write who has added what."""
        if features.steps is not self._planned:
            self._plan(features)
        for note, torque in self._of_law:
            note[:] = torque
        for part, notes in self._steps:
            part.add(states, target, tau, period)
            for note, torque in notes:
                note[:] = torque
        for after, before, terms in self._runs:
            _subtract(after, before, terms)

    def _plan(self, features: FeatureSet) -> None:
        """Find which notes go where, for the features that add now."""
        self._planned = features.steps
        self._steps = [(part, self._note(2 + k)) for k, part in enumerate(features.steps)]
        places = [0, *(1 + place for place in features.places)]
        starts = [k for k, place in enumerate(places) if k == 0 or place != places[k - 1] + 1]
        self._runs = []
        for notes, terms in zip(self._notes, self._terms):
            terms[...] = 0.0  # of features that take no part
            for start, end in zip(starts, [*starts[1:], len(places)]):
                place = places[start]
                self._runs.append(
                    (
                        notes[start + 1 : end + 1],
                        notes[start:end],
                        terms[place : place + end - start],
                    )
                )
