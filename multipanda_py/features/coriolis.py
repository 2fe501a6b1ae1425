# SPDX-License-Identifier: Apache-2.0
"""Compensation of Coriolis and centrifugal torques."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipanda_py.feature import Feature
from multipanda_py.parameters import NoParams
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

_add = np.add


class Coriolis(Feature[NoParams]):
    r"""Add :math:`C(q, \dot q)\,\dot q`, so that motion in one axis does not push another."""

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the Coriolis torques of every arm."""
        for torque, state in zip(tau, states):
            _add(torque, state.coriolis, torque)
