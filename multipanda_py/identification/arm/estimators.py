# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares with standard deviations, joint by joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.registry import needed
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
