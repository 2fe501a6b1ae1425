# SPDX-License-Identifier: Apache-2.0
"""How long a command takes from the loop to the robot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.state import Vector

STEP = 10e-6
"""Of the grid that signals are compared on [s]."""
LONGEST = 5e-3
"""Delay that is looked for, either way [s]."""

Signals = NDArray[np.float64]


def correlated_delay(t_from: Vector, x_from: Signals, t_to: Vector, x_to: Signals) -> float | None:
    r"""Return by how much one recording of signals is behind another [s].

    As in the multipanda_ros2 paper: both are interpolated linearly to common times, and

    .. math:: \hat T = \arg\max_T \sum_j \int \dot x_{from,j}(t)\, \dot x_{to,j}(t + T)\, dt

    Of their changes, for slow motions make the maximum of the signals themselves flat. Between
    points of the grid the maximum is that of a parabola.

    Args:
        t_from: Times of the first, (n,) [s], growing.
        x_from: Its values, (n, k).
        t_to: Times of the second, (m,) [s].
        x_to: Its values, (m, k).

    Returns:
        The delay, or None if there is no maximum within ``LONGEST``: nothing changes enough.
    """
    begin, end = max(t_from[0], t_to[0]), min(t_from[-1], t_to[-1])
    times = np.arange(begin, end, STEP)
    size = 1 << (2 * len(times) - 1).bit_length()
    total = np.zeros(size)
    for k in range(x_from.shape[1]):
        a = np.fft.rfft(np.diff(np.interp(times, t_from, x_from[:, k])), size)
        b = np.fft.rfft(np.diff(np.interp(times, t_to, x_to[:, k])), size)
        total += np.fft.irfft(np.conj(a) * b, size)
    most = round(LONGEST / STEP)
    window = np.concatenate([total[-most:], total[: most + 1]])  # lags -most to most
    peak = int(window.argmax())
    if not 0 < peak < 2 * most:
        return None
    left, middle, right = window[peak - 1 : peak + 2].tolist()
    bend = left - 2.0 * middle + right
    between = 0.5 * (left - right) / bend if bend < 0.0 else 0.0
    return float((peak - most + between) * STEP)


def stamped_delays(
    t_from: Vector, x_from: Signals, t_to: Vector, x_to: Signals
) -> tuple[Vector, Vector]:
    """Return the delay of each command that was written before it arrived.

    Args:
        t_from: When the loop has written commands, (n,), growing.
        x_from: The commands, (n, k).
        t_to: When commands arrived, (m,).
        x_to: What arrived, (m, k).

    Returns:
        When they arrived and how long it took, of those that are the same to the last bit.
    """
    last = np.searchsorted(t_from, t_to, side="right") - 1
    known = last >= 0
    known[known] = (x_from[last[known]] == x_to[known]).all(axis=1)
    return t_to[known], t_to[known] - t_from[last[known]]
