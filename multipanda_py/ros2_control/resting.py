# SPDX-License-Identifier: Apache-2.0
"""What an arm executes when there is no loop to ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pinocchio as pin

Numbers = list[float]


class RestingTorque:
    r"""Carry an arm that does not carry itself, and brake it.

    .. math::
        \tau_0 = g(q) - D \dot q

    Args:
        model: Pinocchio's, with tool and load; gravity acts as its base stands.
        damping: Diagonal of D, (n,) [Nm s/rad].
        carries: Whether the arm has to be carried.

    Thread: of the driver.
    """

    def __init__(self, model: Any, damping: Sequence[float], *, carries: bool) -> None:
        self._model, self._carries = model, carries
        self._data = model.createData()
        self._damping = np.array(damping)

    def of(self, q: Sequence[float], dq: Sequence[float]) -> Numbers:
        """Return it for a state, (n,) [Nm]."""
        tau = -self._damping * dq
        if self._carries:
            tau += pin.computeGeneralizedGravity(self._model, self._data, np.array(q))
        numbers: Numbers = tau.tolist()
        return numbers
