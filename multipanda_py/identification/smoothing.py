# SPDX-License-Identifier: Apache-2.0
"""Positions, velocities and accelerations without noise and without phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.identification.motion import MeasuredMotion
from multipanda_py.state import Matrix, Vector

MOST_RATE = 1000.0
"""To which samples are put on even times [Hz]."""
ORDER = 4


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A run without gaps at even times.

    Attributes:
        time: (N,) [s].
        q: (N, n) [rad, m].
        dq: (N, n) [rad/s, m/s].
        ddq: (N, n) [rad/s^2, m/s^2].
        tau: (N, n) [Nm, N].
        rate: [Hz].
    """

    time: Vector
    q: Matrix
    dq: Matrix
    ddq: Matrix
    tau: Matrix
    rate: float


def low_pass(values: Matrix, cutoff: float, rate: float) -> Matrix:
    """Return columns behind a Butterworth filter that runs both ways, (N, k).

    Args:
        values: (N, k).
        cutoff: Of one way [Hz]; at most 0.45 of the rate.
        rate: [Hz].
    """
    signal = needed("scipy.signal")
    share = min(0.45, cutoff / rate) * 2.0
    sections = signal.butter(ORDER, share, output="sos")
    pad = min(len(values) - 1, int(3 * ORDER / share) + 1)
    smooth: Matrix = signal.sosfiltfilt(sections, values, axis=0, padtype="odd", padlen=pad)
    return smooth


def smoothed(motion: MeasuredMotion, cutoff: float, least: float = 1.0) -> list[Smoothed]:
    r"""Return the runs of a motion at even times.

    Positions go through a spline, a Butterworth filter that runs both ways and so has no phase,
    and central differences; torques through the same filter. Of what is left every
    :math:`k`-th sample is kept, so that there are ten in a period of the cutoff.

    Args:
        motion: As measured.
        cutoff: Of the filter of positions [Hz].
        least: Shortest run that is of use [s].
    """
    interpolate = needed("scipy.interpolate")
    found = []
    for run in motion.runs():
        part = motion.part(run)
        length = part.time[-1] - part.time[0]
        if length < least or len(part.time) < 12:
            continue
        rate = min(MOST_RATE, 1.0 / part.period)
        time = part.time[0] + np.arange(int(length * rate) + 1) / rate
        q = interpolate.CubicSpline(part.time, part.q)(time)
        tau = np.stack([np.interp(time, part.time, column) for column in part.tau.T], axis=1)
        q = low_pass(q, cutoff, rate)
        dq = np.gradient(q, 1.0 / rate, axis=0)
        ddq = np.gradient(dq, 1.0 / rate, axis=0)
        tau = low_pass(tau, cutoff, rate)
        keep = slice(None, None, max(1, int(rate / (10.0 * cutoff))))
        found.append(
            Smoothed(time[keep], q[keep], dq[keep], ddq[keep], tau[keep], rate / keep.step)
        )
    return found
