# SPDX-License-Identifier: Apache-2.0
"""Features of one nullspace, projected into it once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multipanda_py.control.nullspace_projector import NullspaceProjector
from multipanda_py.feature import Feature
from multipanda_py.state import ArmState, Vector

_add = np.add


class ProjectedTogether:
    r"""Stand in for several features whose torques the task must not feel.

    .. math:: \sum_k N_{dyn}\, \tau_k = N_{dyn} \sum_k \tau_k

    One projection takes three products, whatever it projects.

    Args:
        features: All :attr:`~multipanda_py.feature.Feature.is_projected`, of one controllet.

    Attributes:
        steps: What does the same one feature at a time.

    Thread: control.
    """

    def __init__(self, features: Sequence[Feature[Any]]) -> None:
        self._features = list(features)
        arms = features[0].context.arms
        self._projectors = [NullspaceProjector(arm.n_joints) for arm in arms]
        self._parts: list[list[Vector | None]] = []
        self._before: list[Vector] = []
        self.steps = [ProjectedStep(self, 1 + place) for place in range(len(features))]

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add what all of them add."""
        self._project(self._ask(states, target), states, tau)

    def add_first(
        self, count: int, states: Sequence[ArmState], target: Any, tau: Sequence[Vector]
    ) -> None:
        """Add what the first ``count`` of them add; counts of a cycle go from 1 up to all."""
        if count == 1:
            self._parts = self._ask(states, target)
            self._before = [torque.copy() for torque in tau]
        for torque, before in zip(tau, self._before):
            torque[:] = before
        parts = [[None if own is None else own.copy() for own in part] for part in self._parts]
        self._project(parts[:count], states, tau)

    def _ask(self, states: Sequence[ArmState], target: Any) -> list[list[Vector | None]]:
        return [feature.before_projection(states, target) for feature in self._features]

    def _project(
        self,
        parts: Sequence[Sequence[Vector | None]],
        states: Sequence[ArmState],
        tau: Sequence[Vector],
    ) -> None:
        """Add the projection of a sum; overwrites its parts."""
        first, *others = parts
        for arm, total in enumerate(first):
            for other in others:
                part = other[arm]
                if part is not None:
                    total = part if total is None else _add(total, part, total)
            if total is not None:
                torque = tau[arm]
                _add(torque, self._projectors[arm].dynamic(states[arm], total), torque)


class ProjectedStep:
    """Add one of several features that are projected together, for whoever notes each of them.

    After the last one the torques are those of :meth:`ProjectedTogether.add`, to the last bit: a
    controllet does the same whether somebody looks at its terms or not.

    Args:
        together: All of them.
        count: How many have added with this one.

    Thread: control.
    """

    def __init__(self, together: ProjectedTogether, count: int) -> None:
        self._together, self._count = together, count

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add what this one adds."""
        self._together.add_first(self._count, states, target, tau)
