# SPDX-License-Identifier: Apache-2.0
"""Measured motion of an arm, and checks of log columns for wrong units and swapped columns.

Each check takes columns of one arm, (N, n) each, and joint names without prefix. It returns one
message per problem, without the name of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.robots.robot import Robot
from multipanda_py.state import ArmLimits, Matrix, Vector

GAP_PERIODS = 2.5
"""Number of periods beyond which two samples have a gap between them. One lost sample makes two
periods, two make three. The half period allows for jitter of the clock."""
MAX_BRIDGED_GAP = 0.02
"""Maximum gap that filters may ignore, because the filtered motion hardly changes in it [s]."""
REST_TOLERANCE, REMAINING_REST = 5e-3, 0.5
"""Maximum distance of a resting arm from its first or last configuration [rad, m], and duration
of that rest which is not removed [s]."""


@dataclass(frozen=True, eq=False)
class MeasuredMotion:
    """Samples of one arm at N instants.

    Attributes:
        name: Name of the log, for messages.
        time: Strictly increasing time, (N,) [s].
        q: Measured positions, (N, n) [rad, m].
        tau: Measured torques including gravity, (N, n) [Nm, N].
        dq: Measured velocities, (N, n) [rad/s, m/s], only to check the positions; None for no
            check.
        gravity_in_base: Gravity in the base frame, (3,) [m/s^2]; None to use that of the arm
            model.
        joints: Joint names, or None if unknown.
        starts: Indices of the samples at which joined recordings begin.
        rotors_in_tau: True if the torques include the torque that accelerates the rotors.
    """

    name: str
    time: Vector
    q: Matrix
    tau: Matrix
    dq: Matrix | None = None
    gravity_in_base: Vector | None = None
    joints: tuple[str, ...] | None = None
    starts: tuple[int, ...] = (0,)
    rotors_in_tau: bool = True

    def __post_init__(self) -> None:
        tables = {"q": self.q, "tau": self.tau}
        if self.dq is not None:
            tables["dq"] = self.dq
        if np.ndim(self.time) != 1 or np.ndim(self.q) != 2 or not len(self.time):
            raise IdentificationRejected(f"{self.name}: the motion has no joint samples")
        for quantity, table in {"time": self.time[:, None], **tables}.items():
            if quantity != "time" and table.shape != (len(self.time), self.q.shape[1]):
                raise IdentificationRejected(
                    f"{self.name}: {quantity}: got shape {table.shape}, allowed "
                    f"{(len(self.time), self.q.shape[1])}"
                )
            bad = ~np.isfinite(table).all(axis=1)
            if bad.any():
                raise IdentificationRejected(
                    f"{self.name}: {quantity}: not finite in {int(bad.sum())} of {len(bad)} "
                    f"samples, first in sample {int(bad.argmax())}"
                )
        back = np.flatnonzero(np.diff(self.time) <= 0.0)
        if len(back):
            at = int(back[0])
            raise IdentificationRejected(
                f"{self.name}: time has to increase, got {self.time[at]:.6f}, "
                f"{self.time[at + 1]:.6f} s at sample {at + 1}"
            )

    @property
    def period(self) -> float:
        """Median time between samples [s]."""
        return float(np.median(np.diff(self.time))) if len(self.time) > 1 else 0.0

    def runs(self) -> list[slice]:
        """Return the index ranges of samples without gaps."""
        step = np.diff(self.time)
        far = np.flatnonzero(step > max(GAP_PERIODS * self.period, MAX_BRIDGED_GAP)) + 1
        bounds = sorted({0, *self.starts, *far.tolist(), len(self.time)})
        return [slice(start, end) for start, end in pairwise(bounds)]

    def part(self, run: slice) -> MeasuredMotion:
        start, end, _ = run.indices(len(self.time))
        inside = {0, *(s - start for s in self.starts if start < s < end)}
        return replace(
            self,
            time=self.time[run],
            q=self.q[run],
            tau=self.tau[run],
            dq=None if self.dq is None else self.dq[run],
            starts=tuple(sorted(inside)),
        )

    def without_rest(self) -> MeasuredMotion:
        """Return the motion without the times of rest before it starts and after it ends.

        If the arm never moves, the result is the whole motion.
        """
        left, reached = (np.abs(self.q - self.q[k]).max(axis=1) > REST_TOLERANCE for k in (0, -1))
        if not left.any():
            return self
        start = self.time[int(left.argmax())] - REMAINING_REST
        end = self.time[len(reached) - 1 - int(reached[::-1].argmax())] + REMAINING_REST
        first, last = np.searchsorted(self.time, [start, end]).tolist()
        return self.part(slice(first, last))

    def split(self, held_out: float) -> tuple[MeasuredMotion, MeasuredMotion]:
        """Split the motion in two parts by time.

        Args:
            held_out: Fraction of the duration in the second part.
        """
        end = self.time[-1] - held_out * (self.time[-1] - self.time[0])
        at = int(np.searchsorted(self.time, end))
        return self.part(slice(0, at)), self.part(slice(at, len(self.time)))


MAX_CONSTANT_RANGE = 0.02
"""Range of the positions of a joint, up to which the joint counts as not moving [rad, m]."""
MAX_LIMIT_EXCESS = 0.05
"""Distance beyond a joint limit, above which a measured position is implausible [rad, m]."""
MAX_TORQUE_FACTOR, MILLI_TORQUE_FACTOR = 1.5, 10.0
"""Factors on the torque limit of a joint. A measured torque above the first factor belongs to
another joint or robot, above the second factor its unit is mNm. The first factor exceeds 1,
because measured torques include gravity and limited commands do not."""
MIN_TORQUE = 0.2
"""Largest measured torque below which torques seem to have a wrong unit, or not to be measured
[Nm]. Only a vertically stretched arm has less."""
SATURATION_FRACTION, MAX_SATURATED_FRACTION = 0.995, 0.01
"""Fraction of the limit from which a torque is saturated, and maximum fraction of such samples."""
ROUNDING_TORQUE = 1e-9
"""Torque below which differences are rounding errors [Nm]."""
MIN_CLIPPED_FRACTION, EQUALITY_TOLERANCE = 0.02, 1e-6
"""Minimum fraction of samples at the maximum or minimum torque that indicates clipping, and
relative tolerance of their equality."""
MAX_VELOCITY_DIFFERENCE, MIN_RMS_VELOCITY, AVERAGING_TIME = 0.3, 0.02, 0.05
"""Maximum RMS difference of dq and the slope of q, relative to the RMS of dq. Minimum RMS of dq
for this check [rad/s, m/s]. Averaging time of both signals [s]."""
MIN_CORRELATION = 0.8
"""Correlation above which two signals count as the same."""
MIN_RUN_SAMPLES = 8
"""Minimum number of samples of a run whose slope is checked."""
PERIOD_RANGE = (2e-5, 0.2)
"""Minimum and maximum plausible time between samples [s]."""


def other_joints(joints: Sequence[str], robot: Robot) -> list[str]:
    """Check that joint names belong to a robot. Prefixes that end with ``_`` are ignored.

    Returns:
        One message if the names do not belong to the robot, otherwise an empty list.
    """
    own = [joint.name for joint in robot.joints]
    if len(joints) != len(own):
        return [f"got {len(joints)} joints, allowed {len(own)} for {robot.name}"]
    if all(a == b or a.endswith(f"_{b}") or b.endswith(f"_{a}") for a, b in zip(joints, own)):
        return []
    return [f"got joints {', '.join(joints)}, allowed {', '.join(own)} for {robot.name}"]


def wrong_times(time: Vector) -> list[str]:
    """Return a message if the sample periods suggest that times are not in seconds."""
    period = float(np.median(np.diff(time))) if len(time) > 1 else PERIOD_RANGE[1]
    if PERIOD_RANGE[0] <= period <= PERIOD_RANGE[1]:
        return []
    return [
        f"time: got a sample every {period:.3g} s, allowed {PERIOD_RANGE[0]:g} to "
        f"{PERIOD_RANGE[1]:g}: is "
        "it in milliseconds, or in another unit?"
    ]


def wrong_positions(q: Matrix, joints: Sequence[str], limits: ArmLimits) -> list[str]:
    """Check positions for degrees and swapped columns; return one message per wrong joint.

    Args:
        q: Measured positions, (N, n) [rad, m].
        joints: Names of the joints, for messages.
        limits: Limits of the joints.
    """
    low, high = limits.lower - MAX_LIMIT_EXCESS, limits.upper + MAX_LIMIT_EXCESS
    faults = []
    for joint in np.flatnonzero(((q < low) | (q > high)).any(axis=0)).tolist():
        in_degrees = np.deg2rad(q[:, joint])
        is_inside = (in_degrees >= low[joint]).all() and (in_degrees <= high[joint]).all()
        if is_inside and np.abs(q).max() > 2.0 * np.pi:
            hint = "are positions in degrees?"
        else:
            hint = "are columns swapped, or is it another robot?"
        faults.append(
            f"{joints[joint]}: got positions from {q[:, joint].min():.4g} to "
            f"{q[:, joint].max():.4g}, allowed {limits.lower[joint]:.4g} to "
            f"{limits.upper[joint]:.4g} {limits.unit(joint)}: {hint}"
        )
    return faults


def wrong_torques(tau: Matrix, joints: Sequence[str], limits: ArmLimits) -> list[str]:
    """Check torques for wrong units and swapped columns; return one message per problem.

    Args:
        tau: Measured torques, (N, n) [Nm, N].
        joints: Names of the joints, for messages.
        limits: Limits of the joints.
    """
    largest = np.abs(tau).max(axis=0)
    if largest.max() < MIN_TORQUE:
        return [f"no torque is above {largest.max():.2g} Nm: is it in kNm, or not measured?"]
    in_thousandths = bool((largest > MILLI_TORQUE_FACTOR * limits.torque).any())
    hint = "is it in mNm?" if in_thousandths else "are columns swapped, or is it another robot?"
    return [
        f"{joints[joint]}: got torques up to {largest[joint]:.4g}, allowed "
        f"{limits.torque[joint]:g} {limits.unit(joint, 'Nm')}: {hint}"
        for joint in np.flatnonzero(largest > MAX_TORQUE_FACTOR * limits.torque).tolist()
    ]


def wrong_velocities(
    time: Vector, q: Matrix, dq: Matrix, joints: Sequence[str], runs: Sequence[slice]
) -> list[str]:
    """Check that velocities are the slopes of positions.

    Args:
        time: Time, (N,) [s].
        q: Positions, (N, n) [rad, m].
        dq: Velocities, (N, n) [rad/s, m/s].
        joints: Joint names.
        runs: Index ranges of samples without gaps, as from :meth:`MeasuredMotion.runs`.

    Returns:
        One message about the first problem; empty without problems.
    """
    runs = [run for run in runs if run.stop - run.start >= MIN_RUN_SAMPLES]
    if not runs:
        return []
    window = max(1, round(AVERAGING_TIME / float(np.median(np.diff(time)))))
    slope = _averaged(np.vstack([np.gradient(q[r], time[r], axis=0) for r in runs]), window)
    value = _averaged(np.vstack([dq[r] for r in runs]), window)
    size = _rms(value)
    if len(zero := np.flatnonzero(~dq.any(axis=0) & (_rms(slope) > MIN_RMS_VELOCITY))):
        names = ", ".join(joints[int(k)] for k in zero)
        return [
            f"dq of {names} is zero throughout, while q changes. Remove columns of dq that were "
            "not measured"
        ]
    unusual = np.flatnonzero(
        (size > MIN_RMS_VELOCITY) & (_rms(value - slope) > MAX_VELOCITY_DIFFERENCE * size)
    )
    if not len(unusual):
        return []
    joint, alike = int(unusual[0]), correlations(value, slope)
    description, changes = f"dq of {joints[joint]} is", "the slope of its q"
    best = int(np.argmax(np.nan_to_num(alike[joint], nan=-1.0)))
    if alike[joint, joint] > MIN_CORRELATION:
        ratio = size[joint] / _rms(slope)[joint]
        unit = "what unit is it in?"
        if 40.0 < max(ratio, 1.0 / ratio) < 80.0:
            unit = f"are {'velocities' if ratio > 1.0 else 'positions'} in degrees?"
        return [f"{description} {ratio:.3g} times {changes}: {unit}"]
    if alike[joint, joint] < -MIN_CORRELATION:
        return [f"{description} opposite to {changes}"]
    if best != joint and alike[joint, best] > MIN_CORRELATION:
        return [f"{description} the slope of q of {joints[best]}: are columns swapped?"]
    names = ", ".join(joints[int(k)] for k in unusual)
    return [f"dq of {names} is not the slope of q: are columns swapped?"]


def saturated(tau: Matrix, joints: Sequence[str], limits: ArmLimits) -> list[str]:
    """Return a message per joint with a torque at its limit in too many samples.

    The maximum fraction of such samples is :data:`MAX_SATURATED_FRACTION`.

    Args:
        tau: Measured torques, (N, n) [Nm, N].
        joints: Names of the joints, for messages.
        limits: Limits of the joints.
    """
    fraction = (np.abs(tau) >= SATURATION_FRACTION * limits.torque).mean(axis=0)
    return [
        f"{joints[joint]}: the torque is at its limit of {limits.torque[joint]:g} "
        f"{limits.unit(joint, 'Nm')} in {fraction[joint]:.0%} of the samples. The motion needs "
        "more torque there. Move slower"
        for joint in np.flatnonzero(fraction > MAX_SATURATED_FRACTION).tolist()
    ]


def clipped_torques(tau: Matrix, joints: Sequence[str]) -> list[str]:
    """Return a message per joint and value at which a sensor or driver clips its torque.

    Args:
        tau: Measured torques, (N, n) [Nm, N].
        joints: Names of the joints, for messages.
    """
    near = np.maximum(EQUALITY_TOLERANCE * np.abs(tau).max(axis=0), ROUNDING_TORQUE)
    result = []
    for ends in (tau.max(axis=0), tau.min(axis=0)):
        fraction = (np.abs(tau - ends) <= near).mean(axis=0)
        result += [
            f"{joints[joint]}: the torque is clipped at {ends[joint]:.4g}, in "
            f"{fraction[joint]:.0%} "
            "of the samples, by a sensor or a driver. The true torque is beyond it. Move slower"
            for joint in np.flatnonzero(
                (fraction > MIN_CLIPPED_FRACTION) & (np.ptp(tau, axis=0) > near)
            ).tolist()
        ]
    return result


def constant_joints(q: Matrix, joints: Sequence[str]) -> list[str]:
    """Return a message per joint that does not move.

    Args:
        q: Measured positions, (N, n) [rad, m].
        joints: Names of the joints, for messages.
    """
    return [
        f"{joints[joint]}: does not move by more than {MAX_CONSTANT_RANGE:g} rad or m, so that "
        f"its friction "
        "and inertia cannot be identified"
        for joint in np.flatnonzero(np.ptp(q, axis=0) < MAX_CONSTANT_RANGE).tolist()
    ]


def correlations(a: Matrix, b: Matrix) -> Matrix:
    """Return the correlation of each column of ``a`` with each column of ``b``, (n, n).

    It is NaN for constant columns.

    Args:
        a: Signals, one per column, (N, n).
        b: Other signals at the same instants, (N, n).
    """
    one, other = (x - x.mean(axis=0) for x in (a, b))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        lengths = np.outer(np.linalg.norm(one, axis=0), np.linalg.norm(other, axis=0))
        result: Matrix = (one.T @ other) / lengths
    return result


def _averaged(values: Matrix, window: int) -> Matrix:
    kernel = np.ones(window) / window
    return np.stack([np.convolve(column, kernel, "same") for column in values.T], axis=1)


def _rms(values: Matrix) -> Vector:
    with np.errstate(over="ignore"):  # Another check reports numbers that are too large.
        return np.asarray(np.sqrt(np.mean(values**2, axis=0)))
