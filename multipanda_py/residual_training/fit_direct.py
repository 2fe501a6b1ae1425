# SPDX-License-Identifier: Apache-2.0
"""What every joint's own inputs explain of its residual, by least squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipanda_py.residual.inputs import own_inputs
from multipanda_py.residual_training.seen_motions import SeenMotion
from multipanda_py.residual_training.torch_network import Direct

DIRECT_RIDGE = 1e-4
"""Beside columns whose mean square is one."""


def fit_direct(motions: Sequence[SeenMotion], weights: tuple[float, float, float]) -> Direct:
    r"""Fit residuals by what friction and hysteresis of each joint look like.

    .. math::
        \min_{V, b} \sum_{k, i} \left(r_{k,i} - b_i - \sum_{p \in P(i)} V_{i,p} x_{k,p}\right)^2

    where :math:`P(i)` are speeds and springs of the joint that residual i is of: what
    generalises from few motions. A network learns what is left. What velocities differ by
    is left alone if it weighs nothing, and so on.

    Args:
        motions: Of the training.
        weights: Of errors of positions, velocities and torques, see :class:`.TrainingSettings`.
    """
    inputs = np.vstack([one.inputs for one in motions])
    residuals = np.vstack([one.residual for one in motions])
    size, m = residuals.shape[1], inputs.shape[1]
    n = size // 3
    weight, bias = np.zeros((size, m)), np.zeros(size)
    for i in range(size):
        if not weights[i // n]:
            continue
        places = own_inputs(i % n, n, m)
        columns = np.column_stack([np.ones(len(inputs)), inputs[:, places]])
        usual = np.sqrt(np.square(columns).mean(axis=0)).clip(1e-9)
        scaled = columns / usual
        matrix = scaled.T @ scaled + DIRECT_RIDGE * len(inputs) * np.eye(len(usual))
        found = np.linalg.solve(matrix, scaled.T @ residuals[:, i]) / usual
        bias[i], weight[i, places] = found[0], found[1:]
    return Direct(weight, bias)
