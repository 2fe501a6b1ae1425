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

    Thread: control.
    """

    def __init__(self, features: Sequence[Feature[Any]]) -> None:
        self._features = list(features)
        arms = features[0].context.arms
        self._projectors = [NullspaceProjector(arm.n_joints) for arm in arms]

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add what all of them add."""
        first, *others = [feature.before_projection(states, target) for feature in self._features]
        for arm, total in enumerate(first):
            for other in others:
                part = other[arm]
                if part is not None:
                    total = part if total is None else _add(total, part, total)
            if total is not None:
                torque = tau[arm]
                _add(torque, self._projectors[arm].dynamic(states[arm], total), torque)
