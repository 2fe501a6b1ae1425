# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares with standard deviations and per-joint noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.registry import needed
from multipanda_py.state import Matrix, Vector

MAX_RATE = 1000.0
"""Maximum rate of resampled logs [Hz]."""
ORDER = 4
"""Order of the Butterworth filter."""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Filtered log segment without gaps at equidistant times.

    Attributes:
        time: Times, (N,) [s].
        q: Joint positions, (N, n) [rad, m].
        dq: Joint velocities, (N, n) [rad/s, m/s].
        ddq: Joint accelerations, (N, n) [rad/s^2, m/s^2].
        tau: Joint torques, (N, n) [Nm, N].
        rate: Samples per second [Hz].
    """

    time: Vector
    q: Matrix
    dq: Matrix
    ddq: Matrix
    tau: Matrix
    rate: float


def low_pass(values: Matrix, cutoff: float, rate: float) -> Matrix:
    """Filter columns with a zero-phase Butterworth filter that runs forward and backward.

    Args:
        values: Columns to filter, (N, k).
        cutoff: Cutoff frequency of each pass [Hz], limited to 0.45 of the rate.
        rate: Samples per second [Hz].

    Returns:
        Filtered columns, (N, k).
    """
    signal = needed("scipy.signal")
    normalized_cutoff = min(0.45, cutoff / rate) * 2.0
    sections = signal.butter(ORDER, normalized_cutoff, output="sos")
    pad = min(len(values) - 1, int(3 * ORDER / normalized_cutoff) + 1)
    smooth: Matrix = signal.sosfiltfilt(sections, values, axis=0, padtype="odd", padlen=pad)
    return smooth


def smoothed(motion: MeasuredMotion, cutoff: float, min_duration: float = 1.0) -> list[Smoothed]:
    """Resample and filter the continuous segments of a motion.

    Positions are interpolated by a spline, low-pass filtered without phase and differentiated by
    central differences. Torques pass the same filter. The result is decimated to about ten samples
    per period of the cutoff.

    Args:
        motion: Measured log.
        cutoff: Cutoff frequency of the filter [Hz].
        min_duration: Minimum duration of a segment [s]. Shorter segments are dropped.
    """
    interpolate = needed("scipy.interpolate")
    result = []
    for run in motion.runs():
        part = motion.part(run)
        length = part.time[-1] - part.time[0]
        if length < min_duration or len(part.time) < 12:
            continue
        rate = min(MAX_RATE, 1.0 / part.period)
        time = part.time[0] + np.arange(int(length * rate) + 1) / rate
        q = interpolate.CubicSpline(part.time, part.q)(time)
        tau = np.stack([np.interp(time, part.time, column) for column in part.tau.T], axis=1)
        q = low_pass(q, cutoff, rate)
        dq = np.gradient(q, 1.0 / rate, axis=0)
        ddq = np.gradient(dq, 1.0 / rate, axis=0)
        tau = low_pass(tau, cutoff, rate)
        keep = slice(None, None, max(1, int(rate / (10.0 * cutoff))))
        result.append(
            Smoothed(time[keep], q[keep], dq[keep], ddq[keep], tau[keep], rate / keep.step)
        )
    return result


MAX_ITERATIONS = 3
"""Number of iterations. Each estimates the parameters, then the noise of each joint."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated parameters with their uncertainty.

    Attributes:
        values: Parameters, (p,).
        deviations: Standard deviations of the parameters, (p,).
        noise: Standard deviation of the torque residual of each joint, (n,) [Nm].
        condition: Condition number of the regressor with columns of unit length.
        worst: Right singular vector for the smallest singular value of the regressor, (p,).
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
    r"""Estimate parameters by weighted linear least squares.

    .. math::
        \hat z = \arg\min \sum_j \sigma_j^{-2} \| A_j z - \tau_j \|^2, \qquad
        \mathrm{Cov}(\hat z) = \nu \left( \sum_j \sigma_j^{-2} A_j^T A_j \right)^{-1}.

    Symbols: regressor :math:`A_j`, torques :math:`\tau_j` and residual noise :math:`\sigma_j` of
    joint j, and the number :math:`\nu` of samples per independent sample.

    Args:
        rows: Regressor A, (N, n, p).
        tau: Joint torques, (N, n) [Nm].
        independent: Fraction of statistically independent samples, :math:`1 / \nu`.
        used: Mask of the torques to fit, (N, n). By default all are fitted.
        weighted: True to weight joints by their noise.
    """
    _, n, p = rows.shape
    noise = np.ones(n)
    count = np.ones(tau.shape) if used is None else used.astype(float)
    for _ in range(MAX_ITERATIONS if weighted else 1):
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
