# SPDX-License-Identifier: Apache-2.0
"""Checks of measured motions, and the filtered regressor stack for identification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.estimators import Estimate, FrictionShape
from multipanda_py.identification.arm.regressor import ArmRegressor, with_rotors
from multipanda_py.realtime.recording.measured_motion import (
    MIN_CORRELATION,
    MeasuredMotion,
    clipped_torques,
    constant_joints,
    correlations,
    other_joints,
    saturated,
    wrong_positions,
    wrong_times,
    wrong_torques,
    wrong_velocities,
)
from multipanda_py.registry import needed
from multipanda_py.state import Matrix, Vector

MAX_RATE = 1000.0
"""Maximum rate of resampled logs [Hz]."""
FILTER_ORDER = 4
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
    sections = signal.butter(FILTER_ORDER, normalized_cutoff, output="sos")
    pad = min(len(values) - 1, int(3 * FILTER_ORDER / normalized_cutoff) + 1)
    smooth: Matrix = signal.sosfiltfilt(sections, values, axis=0, padtype="odd", padlen=pad)
    return smooth


def smoothed(motion: MeasuredMotion, cutoff: float, min_duration: float = 1.0) -> list[Smoothed]:
    """Resample and low-pass filter the continuous segments of a motion, without phase shift.

    Velocities and accelerations are derivatives of the filtered positions.

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


MIN_DURATION = 5.0
"""Minimum total duration of the segments of a log without gaps [s]. Shorter logs are refused."""
MAX_SAMPLES = 300_000
"""Maximum number of samples of a log. The regressor of a sample takes about 7 kB."""
UNRELATED_CORRELATION = 0.3
"""Correlation of measured and expected torque below which they count as unrelated."""
CUTOFF_FREQUENCY = 5.0
"""Cutoff frequency of the filter in the checks of a log [Hz]."""


def check_motion(motion: MeasuredMotion, regressor: ArmRegressor, *, moves: bool = True) -> None:
    """Refuse a log whose values are implausible for this arm.

    Args:
        motion: Measured log.
        regressor: Regressor of the arm.
        moves: True if every joint has to move.

    Raises:
        IdentificationRejected: If a check fails. The message names the log and the failed check.
    """
    for sentence in _failed_checks(motion, regressor, moves):
        raise IdentificationRejected(f"{motion.name}: {sentence}")


def _failed_checks(motion: MeasuredMotion, regressor: ArmRegressor, moves: bool) -> Iterator[str]:
    """Yield a message for every failed check of a log, the most obvious first."""
    limits, robot = regressor.arm.limits, regressor.arm.robot
    own = tuple(joint.name for joint in robot.joints)
    columns, joint_names = motion.q.shape[1], motion.joints
    if joint_names is None or len(joint_names) != columns:  # The log lacks joint names.
        joint_names = (*own[:columns], *["?"] * (columns - len(own)))
    if len(motion.time) > MAX_SAMPLES:
        yield (
            f"got {len(motion.time)} samples, allowed up to {MAX_SAMPLES}. Cut or decimate the "
            f"log."
        )
    yield from other_joints(joint_names, robot)
    yield from wrong_times(motion.time)
    yield from wrong_positions(motion.q, own, limits)
    yield from wrong_torques(motion.tau, own, limits)
    yield from saturated(motion.tau, own, limits)
    if not moves:
        return
    runs = smoothed(motion, CUTOFF_FREQUENCY)
    length = sum(len(run.time) / run.rate for run in runs)
    if length < MIN_DURATION:
        gaps = len(motion.runs()) - 1
        between = f" between {gaps} gaps" if gaps else ""
        yield (
            f"too short: {length:.3g} s in segments longer than 1 s{between}. Record "
            f"{MIN_DURATION:g} "
            "s or more."
        )
    yield from constant_joints(motion.q, own)
    if motion.dq is not None:
        yield from wrong_velocities(motion.time, motion.q, motion.dq, own, motion.runs())
    yield from clipped_torques(motion.tau, own)
    q, dq, ddq, tau = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("q", "dq", "ddq", "tau")
    )
    rows = regressor.rows(q, dq, ddq, motion.gravity_in_base)
    expected = rows @ regressor.prior + rows[..., -10:] @ regressor.carried
    yield from _mismatched_torques(own, expected, tau)


def _mismatched_torques(
    names: tuple[str, ...], expected: Matrix, measured: Matrix
) -> Iterator[str]:
    alike = correlations(measured, expected)
    heavy = expected.std(axis=0) > 0.2 * expected.std(axis=0).max()
    size: Vector = np.linalg.norm(measured, axis=0) / np.linalg.norm(expected, axis=0)
    for joint in np.flatnonzero(heavy).tolist():
        best = int(np.nanargmax(np.where(heavy, alike[joint], -1.0)))
        if (
            best != joint
            and alike[joint, best] > MIN_CORRELATION
            and alike[joint, joint] < UNRELATED_CORRELATION
        ):
            yield (
                f"the torque of {names[joint]} matches the expected torque of {names[best]}. Are "
                "columns swapped?"
            )
        if alike[joint, joint] < -MIN_CORRELATION:
            yield (
                f"the torque of {names[joint]} is opposite to the torque expected from its "
                "motion. Check its sign, the direction of gravity and the robot model."
            )
        if alike[joint, joint] > MIN_CORRELATION and not 0.2 < size[joint] < 5.0:
            yield (
                f"the torque of {names[joint]} is {size[joint]:.2g} times the torque expected "
                "from its motion. Check its unit."
            )


POSITION_CUTOFF_RATIO = 4.0
"""Cutoff frequency of the position filter relative to that of torques and regressors."""
TRANSIENT_PERIODS = 1.5
"""Periods of the cutoff that are dropped at both ends of a segment because of
filter transients."""
SAMPLES_PER_PERIOD = 5.0
"""Samples per period of the cutoff after decimation. A log needs as many or more."""

MIN_CUTOFF = 0.1
"""Minimum cutoff frequency [Hz]."""


@dataclass(frozen=True, eq=False)
class Stack:
    r"""Filtered linear equations for the parameters z of an arm.

    .. math:: \tau = A z, \qquad z = (\pi, I_r, f_v, f_c, f_o).

    Symbols: joint torques :math:`\tau`, regressor A, inertial parameters :math:`\pi` of the links,
    and rotor inertias :math:`I_r`. The joints have the viscous friction :math:`f_v`, the Coulomb
    friction :math:`f_c` and the offset :math:`f_o`. A and :math:`\tau` pass the same filter.

    Attributes:
        rows: Regressor A, (N, n, 10 n + 4 n).
        tau: Torques without those of the bodies attached to the last link, (N, n) [Nm].
        slope: Time derivative of the measured torques, (N, n) [Nm/s].
        dq: Joint velocities at the same times, (N, n).
        rate: Samples per second [Hz].
        independent: Fraction of statistically independent samples. Filtering
            correlates samples.
        time: Times of the samples in their log, (N,) [s].
        parts: Filtered segments that the stack was built from.
    """

    rows: Matrix
    tau: Matrix
    slope: Matrix
    dq: Matrix
    rate: float
    independent: float
    time: Vector
    parts: tuple[Smoothed, ...]

    def __len__(self) -> int:
        return len(self.tau)

    def with_shape(self, shape: FrictionShape, cutoff: float) -> Stack:
        """Return the stack with another friction shape near zero velocity.

        Args:
            shape: Shape of the friction.
            cutoff: Cutoff frequency of the stack's filter [Hz].
        """
        n = self.tau.shape[1]
        rows = self.rows.copy()
        new = [
            thinned(shape.rows(part.dq).reshape(len(part.dq), -1), cutoff, part.rate)
            for part in self.parts
        ]
        rows[:, :, 11 * n :] = np.concatenate(new).reshape(-1, n, 3 * n)
        return replace(self, rows=rows)

    def moving(self, min_velocity: float | Vector, cutoff: float) -> NDArray[np.bool_]:
        """Return a mask of the torques, (N, n), that is False while a joint is near rest.

        Args:
            min_velocity: Velocity below which a joint is at rest, one for all joints or (n,)
                [rad/s, m/s].
            cutoff: Cutoff frequency of the stack's filter [Hz].
        """
        slow = [
            thinned((np.abs(part.dq) < min_velocity).astype(float), cutoff, part.rate)
            for part in self.parts
        ]
        # The filter mixes samples, so the mask is also False shortly before and after rest.
        return np.concatenate(slow) < 0.1

    def with_delay(self, delay: float) -> Stack:
        """Return the stack with torques shifted in time to compensate their ``delay`` [s]."""
        return replace(self, tau=self.tau + delay * self.slope)


def thinned(values: Matrix, cutoff: float, rate: float) -> Matrix:
    """Filter columns, decimate them, and drop both ends, where the filter has transients.

    The result has :data:`SAMPLES_PER_PERIOD` samples per period of the cutoff frequency.

    Args:
        values: Columns to filter, (N, k).
        cutoff: Cutoff frequency [Hz].
        rate: Samples per second [Hz].
    """
    smooth = low_pass(values, cutoff, rate)
    keep = max(1, int(rate / (SAMPLES_PER_PERIOD * cutoff)))
    end = int(TRANSIENT_PERIODS * rate / cutoff)
    return smooth[end : len(smooth) - end : keep]


def stack(
    regressor: ArmRegressor,
    motions: Sequence[MeasuredMotion],
    shape: FrictionShape,
    cutoff: float,
) -> Stack:
    """Build the regressor stack of one or more logs.

    Args:
        regressor: Regressor of the arm.
        motions: Measured logs. Each states its gravity vector.
        shape: Friction shape near zero velocity.
        cutoff: Cutoff frequency of the filter of torques and regressors [Hz].

    Raises:
        IdentificationRejected: If the cutoff is too low, or too high for the sample rate of a log.
    """
    if cutoff < MIN_CUTOFF:
        raise IdentificationRejected(
            f"cutoff: got {cutoff:g} Hz, allowed {MIN_CUTOFF:g} Hz or more"
        )
    n = regressor.arm.n_joints
    rows, tau, slope, dq, time, parts, rates = [], [], [], [], [], [], []
    for motion in motions:
        for part in smoothed(motion, POSITION_CUTOFF_RATIO * cutoff):
            if 1.01 * part.rate < SAMPLES_PER_PERIOD * cutoff:
                raise IdentificationRejected(
                    f"{motion.name}: a cutoff of {cutoff:g} Hz for {part.rate:.3g} samples per "
                    f"second is above the maximum of {part.rate / SAMPLES_PER_PERIOD:.3g} Hz. "
                    f"Lower "
                    "the cutoff, because accelerations would be mostly noise."
                )
            full = regressor.rows(part.q, part.dq, part.ddq, motion.gravity_in_base)
            known = full[..., -10:] @ regressor.carried
            full = np.concatenate(
                [with_rotors(full, part.ddq), shape.rows(part.dq)], axis=2
            ).reshape(len(part.q), -1)
            rows.append(thinned(full, cutoff, part.rate).reshape(-1, n, 14 * n))
            torque = np.concatenate(
                [part.tau - known, np.gradient(part.tau, 1.0 / part.rate, axis=0), part.dq,
                 part.time[:, None]], axis=1,
            )  # fmt: skip
            torque = thinned(torque, cutoff, part.rate)
            tau.append(torque[:, :n])
            slope.append(torque[:, n : 2 * n])
            dq.append(torque[:, 2 * n : 3 * n])
            time.append(torque[:, -1])
            parts.append(part)
            rates.append(part.rate / max(1, int(part.rate / (SAMPLES_PER_PERIOD * cutoff))))
    if not rows:
        empty = np.zeros((0, n))
        return Stack(np.zeros((0, n, 14 * n)), empty, empty, empty, 0.0, 1.0, np.zeros(0), ())
    rate = min(rates)
    return Stack(
        np.concatenate(rows), np.concatenate(tau), np.concatenate(slope), np.concatenate(dq),
        rate, min(1.0, 2.0 * cutoff / rate), np.concatenate(time), tuple(parts),
    )  # fmt: skip


MAX_CONDITION = 1000.0
"""Condition number of a stack with columns of unit length above which the data are refused. Good
motions reach 100, random ones several hundred."""


def check_excitation(
    estimate: Estimate, names: Sequence[str], max_condition: float = MAX_CONDITION
) -> None:
    """Refuse data that do not determine all parameters.

    Args:
        estimate: Estimated parameters.
        names: Names of the parameters, (p,).
        max_condition: Maximum condition number.

    Raises:
        IdentificationRejected: If the condition number is too large. The message names the
            parameters that the data determine worst.
    """
    if estimate.condition <= max_condition:
        return
    weights = np.abs(estimate.worst)
    order = np.argsort(-weights)
    mixed = [names[i] for i in order[:4] if weights[i] > 0.2 * weights[order[0]]]
    if len(mixed) > 1:
        description = f"{', '.join(mixed[:-1])} and {mixed[-1]} cannot be separated"
    else:
        description = f"{mixed[0]} cannot be determined"
    raise IdentificationRejected(
        f"the motion does not determine all parameters: {description}; condition number "
        f"{estimate.condition:.3g}, allowed {max_condition:g}. Move all joints at once and in "
        f"both "
        "directions, for example with a motion of `multipanda excite`."
    )
