# SPDX-License-Identifier: Apache-2.0
"""Monitor the stiffness scale of a controllet, and record the torque terms of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import subtract
from numpy.typing import NDArray

from multipanda_py.control.impedance.modal_damping import BANDWIDTH, STIFFNESS_SCALE
from multipanda_py.controllet import Controllet
from multipanda_py.realtime.feature_set import FeatureSet
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import report_titles

REPORT_BELOW, RECOVERED_ABOVE = 0.95, 0.98
"""Limits of the stiffness scale, the fraction of the requested stiffness that a controllet
applies. Below the first, its reduction is reported; above the second, it has ended."""
WORSE_FACTOR = 0.75
"""Factor on the last reported stiffness scale below which the reduction is reported again."""
NOTICE_INTERVAL = 1.0
"""Minimum time between two notices of an instance [s]."""


class GainReductionNotice:
    """Monitor that sends a notice when a controllet reduces its stiffness.

    The controllet reports :data:`.STIFFNESS_SCALE`, the applied fraction of the requested
    stiffness. A notice is sent when a reduction begins, and when the scale falls below
    :data:`WORSE_FACTOR` times the scale in the last notice. Within :data:`NOTICE_INTERVAL` after a
    notice, the next one is delayed.

    Args:
        name: Name of the controllet.
        law: Controllet, whose :attr:`.Controllet.min_scale_arm` is the arm of the reported scale.

    Attributes:
        applies: True if the controllet reports its stiffness scale.
        times: Number of reductions since the activation of the controllet.

    Thread: control.
    """

    def __init__(self, name: str, law: Controllet[Any, Any]) -> None:
        titles = report_titles(law.report_names)
        self.applies = str(STIFFNESS_SCALE) in titles
        index = titles.index(str(STIFFNESS_SCALE)) if self.applies else 0
        self._scale = law.report[index : index + 1].data
        self._name, self._law, self._context = name, law, law.context
        self._pause = round(NOTICE_INTERVAL / law.context.period)
        self.start()

    def start(self) -> None:
        """Reset the monitor at the activation of the controllet."""
        self.times = self._wait = 0
        self._is_derated, self._reported = False, 1.0

    def check(self) -> None:
        """Check the stiffness scale of this cycle, and send a notice if it is due."""
        if self._wait:
            self._wait -= 1
        scale = self._scale[0]
        if scale >= (RECOVERED_ABOVE if self._is_derated else REPORT_BELOW):
            self._is_derated = False
            return
        if not self._is_derated:
            self._is_derated, self._reported = True, 1.0
            self.times += 1
        if not self._wait and (self._reported == 1.0 or scale < WORSE_FACTOR * self._reported):
            self._notify(scale)

    def _notify(self, stiffness_scale: float) -> None:
        self._wait, self._reported = self._pause, stiffness_scale
        arms, softest = self._context.arms, self._law.min_scale_arm
        path = arms[softest].name if softest >= 0 else "grasped object"
        self._context.notify(
            f"{path}: {self._name} keeps {stiffness_scale:.0%} of its stiffness in the softest "
            f"direction of this configuration. More stiffness needs damping faster than "
            f"{BANDWIDTH:g} 1/s and oscillates with latency (reduction {self.times} since its "
            "activation). Lower the stiffness, or choose another configuration"
        )


class TorqueTerms:
    r"""Recorder of torque terms of a controllet and its features, while a client requests them.

    The controllet computes term 1. Each feature adds one further term, in the order in which the
    features run. Term k is

    .. math:: \tau_k = n_k - n_{k-1}, \qquad n_0 = 0

    where :math:`n_k` is the sum of torques after the addition of term k.

    Args:
        tau: Torques of the controllet, (n,) per arm [Nm]; always the same arrays.
        records: Fields of each arm in the cycle record, structured arrays of shape ().
        n_terms: Number of terms: one for the controllet and one per feature.

    Attributes:
        is_on: True if terms are recorded.

    Thread: control.
    """

    def __init__(
        self, tau: Sequence[Vector], records: Sequence[NDArray[np.void]], n_terms: int
    ) -> None:
        self.is_on = False
        self._n_terms = n_terms
        self._traced = [record["torque_terms_recorded"].reshape(1).data for record in records]
        spaces = [record["torque_terms"].reshape(-1) for record in records]
        self._blank = [(flat.data, np.zeros(flat.size).data) for flat in spaces]
        self._torques = [torque.data for torque in tau]
        self._notes = [np.zeros((n_terms + 1, torque.size)) for torque in tau]
        self._terms = [
            record["torque_terms"][:n_terms, : torque.size] for record, torque in zip(records, tau)
        ]
        self._of_law = self._note(1)
        self._planned: object = None
        self._steps: list[tuple[Any, list[tuple[memoryview, memoryview]]]] = []
        self._runs: list[tuple[Vector, Vector, Vector]] = []

    def _note(self, arm_index: int) -> list[tuple[memoryview, memoryview]]:
        return [(notes[arm_index].data, own) for notes, own in zip(self._notes, self._torques)]

    def attach_records(self) -> None:
        """Clear the recorded terms. Call it when the controllet becomes the owner of the arms."""
        for destination, zeros in self._blank:
            destination[:] = zeros
        for count in self._traced:
            count[0] = self._n_terms if self.is_on else 0

    def add(
        self, features: FeatureSet, states: Sequence[ArmState], target: Any, period: float,
        tau: Sequence[Vector],
    ) -> None:  # fmt: skip
        """Add the torques of the features to those of the controllet, and record each term.

        Args:
            features: Features of the instance.
            states: States, one per arm.
            target: Target of the controllet.
            period: Time since the last update [s].
            tau: Torques of the controllet, modified in place, (n,) per arm [Nm].
        """
        if features.steps is not self._planned:
            self._prepare_steps(features)
        for note, torque in self._of_law:
            note[:] = torque
        for part, notes in self._steps:
            part.add(states, target, tau, period)
            for note, torque in notes:
                note[:] = torque
        for after, before, terms in self._runs:
            subtract(after, before, terms)

    def _prepare_steps(self, features: FeatureSet) -> None:
        self._planned = features.steps
        self._steps = [(part, self._note(2 + k)) for k, part in enumerate(features.steps)]
        indices = [0, *(1 + location for location in features.feature_indices)]
        starts = [
            k for k, location in enumerate(indices) if k == 0 or location != indices[k - 1] + 1
        ]
        self._runs = []
        for notes, terms in zip(self._notes, self._terms):
            terms[...] = 0.0  # Disabled features write no term, so their old terms are cleared.
            for start, end in zip(starts, [*starts[1:], len(indices)]):
                index = indices[start]
                self._runs.append(
                    (
                        notes[start + 1 : end + 1],
                        notes[start:end],
                        terms[index : index + end - start],
                    )
                )
