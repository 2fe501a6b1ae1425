# SPDX-License-Identifier: Apache-2.0
"""Where a recorded motion begins, and by how much two recordings are apart."""

from __future__ import annotations

import numpy as np

from multipanda_py.exceptions import LogError
from multipanda_py.state import Matrix

INTERVAL = 5.0
"""Half the confidence interval of rest, in standard deviations."""
SMALLEST = 2e-4
"""Half of it at least [rad, m]: a simulation without noise rests exactly."""
STAYS = 10
"""Samples that a joint has to be outside for its motion to have begun."""


def leaving_rest(q: Matrix, rest: int) -> int:
    r"""Return the first sample at which a joint leaves the confidence interval of its rest.

    .. math:: |q_k - \bar q_{rest}| > \max(5 \sigma_{rest}, 2 \cdot 10^{-4}\,\mathrm{rad})

    for ten samples in a row, of any joint.

    Args:
        q: Positions, (m, n) [rad, m].
        rest: Samples at the beginning during which the arm is at rest, 2 to m - 1.

    Raises:
        LogError: If ``rest`` is out of range, a number is not finite, or nothing moves.

    Source: Realeasy, section on data (start-point detection).
    """
    if not 2 <= rest < len(q):
        raise LogError(f"samples of rest: got {rest}, allowed 2 to {len(q) - 1}")
    if not np.isfinite(q).all():
        raise LogError("positions: got a number that is not finite, allowed finite ones")
    half = np.maximum(INTERVAL * q[:rest].std(axis=0), SMALLEST)
    outside = np.abs(q - q[:rest].mean(axis=0)) > half
    counts = np.cumsum(np.vstack([np.zeros((1, q.shape[1])), outside]), axis=0)
    begins = (counts[STAYS:] - counts[:-STAYS] == STAYS).any(axis=1)
    if not begins.any():
        raise LogError(f"nothing moves in {len(q)} samples")
    return int(begins.argmax())


def shift_by_correlation(first: Matrix, second: Matrix, most: int) -> int:
    r"""Return by how many samples the second of two recordings is later, for comparison.

    .. math:: \arg\max_{|s| \le s_{max}} \sum_k \dot q_1(k) \cdot \dot q_2(k + s)

    Args:
        first: Velocities, (m, n) [rad/s, m/s].
        second: Velocities, (p, n).
        most: Largest shift that is tried, below the length of both.

    Raises:
        LogError: If ``most`` is not allowed.
    """
    if not 0 <= most < min(len(first), len(second)):
        raise LogError(
            f"largest shift: got {most}, allowed 0 to {min(len(first), len(second)) - 1}"
        )
    length = min(len(first), len(second))
    sums = []
    for shift in range(-most, most + 1):
        begin, end = max(0, -shift), min(length, length - shift)
        sums.append(float(np.sum(first[begin:end] * second[begin + shift : end + shift])))
    return int(np.argmax(sums)) - most
