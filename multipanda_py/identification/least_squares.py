# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares with standard deviations, joint by joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.extras import needed
from multipanda_py.state import Matrix, Vector

ROUNDS = 3
"""Of estimating parameters by the noise of joints, and noise by parameters."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Parameters, and how well they are known.

    Attributes:
        values: (p,).
        deviations: Standard deviations, (p,).
        noise: Of every joint's torque, (n,) [Nm].
        condition: Number of the matrix with columns of length one.
        worst: Its right singular vector of the smallest singular value, (p,).
    """

    values: Vector
    deviations: Vector
    noise: Vector
    condition: float
    worst: Vector


def fit(
    rows: Matrix,
    tau: Matrix,
    independent: float = 1.0,
    *,
    used: NDArray[np.bool_] | None = None,
    weighted: bool = True,
) -> Estimate:
    r"""Return what fits torques best.

    .. math::
        \hat z = \arg\min \sum_j \sigma_j^{-2} \| A_j z - \tau_j \|^2, \qquad
        \mathrm{Cov}(\hat z) = \nu \left( \sum_j \sigma_j^{-2} A_j^T A_j \right)^{-1}

    with the noise :math:`\sigma_j` of the residual of every joint, and the number :math:`\nu` of
    samples per independent one.

    Args:
        rows: A, (N, n, p).
        tau: (N, n) [Nm].
        independent: Share of the samples that are independent, :math:`1 / \nu`.
        used: Which torques count, (N, n); by default all.
        weighted: Whether noisier joints count less.
    """
    _, n, p = rows.shape
    noise = np.ones(n)
    count = np.ones(tau.shape) if used is None else used.astype(float)
    for _ in range(ROUNDS if weighted else 1):
        scaled = (rows * (count / noise)[:, :, None]).reshape(-1, p)
        length = np.linalg.norm(scaled, axis=0)
        length[length == 0.0] = 1.0
        u, s, vt = needed("scipy.linalg").svd(scaled / length, full_matrices=False)
        floor = np.maximum(s, 1e-12 * s[0])
        values = vt.T @ ((u.T @ (tau * count / noise).ravel()) / floor) / length
        left = (rows @ values - tau) * count
        per_joint = np.maximum(1.0, count.sum(axis=0) * independent - p / n)
        noise = np.sqrt((left**2).sum(axis=0) * independent / per_joint)
        noise = np.maximum(noise, 1e-9 * (1.0 + np.abs(tau).max(axis=0)))
    spread = np.sqrt(((vt / floor[:, None]) ** 2).sum(axis=0) / independent) / length
    if not weighted:
        spread = spread * float(np.sqrt((noise**2).mean()))
    return Estimate(values, spread, noise, float(s[0] / floor[-1]), vt[-1])
