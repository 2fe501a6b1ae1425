# SPDX-License-Identifier: Apache-2.0
"""What says that numbers of a log are not what their columns are called, a sentence each.

Every look takes columns of one arm, (N, n) each, and names of its joints without a prefix; what
calls it says of which log its sentences are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.robots.robot import Robot
from multipanda_py.state import ArmLimits, Matrix, Vector

GAP = 2.5
"""Samples further apart than so many periods have a gap between them. One that is lost leaves two
periods, two leave three; half a period is left for a clock that is not even."""
BRIDGED = 0.02
"""No gap to filters: what they leave of a motion does not change within it [s]."""
RESTS, AROUND = 5e-3, 0.5
"""How near to where it begins and ends an arm rests there [rad, m], and how much of that rest is
kept [s]."""


@dataclass(frozen=True, eq=False)
class MeasuredMotion:
    """Samples of one arm at N instants.

    Attributes:
        name: Of the log, for messages.
        time: Strictly increasing, (N,) [s].
        q: Measured positions, (N, n) [rad, m].
        tau: Measured torques, with those that carry the arm, (N, n) [Nm, N].
        dq: Measured velocities, (N, n) [rad/s, m/s], or None. They are only compared with the
            positions, whose derivatives without phase are better.
        gravity_in_base: (3,) [m/s^2]; None for the arm's own base.
        joints: Names of the joints, or None where nobody says.
        starts: Samples at which a recording begins.
        rotors_in_tau: Whether the torques have in them what turns the rotors.
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
        """Refuse what is not one table of finite numbers at increasing times."""
        tables = {"q": self.q, "tau": self.tau}
        if self.dq is not None:
            tables["dq"] = self.dq
        if np.ndim(self.time) != 1 or np.ndim(self.q) != 2 or not len(self.time):
            raise IdentificationRefused(f"{self.name}: no samples of joints at times")
        for what, table in {"time": self.time[:, None], **tables}.items():
            if what != "time" and table.shape != (len(self.time), self.q.shape[1]):
                raise IdentificationRefused(
                    f"{self.name}: {what}: got shape {table.shape}, allowed "
                    f"{(len(self.time), self.q.shape[1])}"
                )
            bad = ~np.isfinite(table).all(axis=1)
            if bad.any():
                raise IdentificationRefused(
                    f"{self.name}: {what}: not finite in {int(bad.sum())} of {len(bad)} samples, "
                    f"first in sample {int(bad.argmax())}"
                )
        back = np.flatnonzero(np.diff(self.time) <= 0.0)
        if len(back):
            at = int(back[0])
            raise IdentificationRefused(
                f"{self.name}: the clock went from {self.time[at]:.6f} to "
                f"{self.time[at + 1]:.6f} s at sample {at + 1}, allowed times that increase"
            )

    @property
    def period(self) -> float:
        """Median time between samples [s]."""
        return float(np.median(np.diff(self.time))) if len(self.time) > 1 else 0.0

    def runs(self) -> list[slice]:
        """Return the samples between gaps, for filters that know none."""
        step = np.diff(self.time)
        far = np.flatnonzero(step > max(GAP * self.period, BRIDGED)) + 1
        bounds = sorted({0, *self.starts, *far.tolist(), len(self.time)})
        return [slice(begin, end) for begin, end in pairwise(bounds)]

    def part(self, run: slice) -> MeasuredMotion:
        """Return some samples as a motion of their own."""
        begin, end, _ = run.indices(len(self.time))
        inside = {0, *(s - begin for s in self.starts if begin < s < end)}
        return replace(
            self,
            time=self.time[run],
            q=self.q[run],
            tau=self.tau[run],
            dq=None if self.dq is None else self.dq[run],
            starts=tuple(sorted(inside)),
        )

    def without_rest(self) -> MeasuredMotion:
        """Return it without what was recorded before the arm moved, and behind that.

        All of it, if nothing moves.
        """
        left, reached = (np.abs(self.q - self.q[k]).max(axis=1) > RESTS for k in (0, -1))
        if not left.any():
            return self
        begin = self.time[int(left.argmax())] - AROUND
        end = self.time[len(reached) - 1 - int(reached[::-1].argmax())] + AROUND
        first, last = np.searchsorted(self.time, [begin, end]).tolist()
        return self.part(slice(first, last))

    def split(self, held_out: float) -> tuple[MeasuredMotion, MeasuredMotion]:
        """Return the first part, and the last, which is the given share of the time."""
        end = self.time[-1] - held_out * (self.time[-1] - self.time[0])
        at = int(np.searchsorted(self.time, end))
        return self.part(slice(0, at)), self.part(slice(at, len(self.time)))


STILL = 0.02
"""Span of a joint that stands still [rad, m]."""
BEYOND = 0.05
"""How far measured positions may be beyond limits [rad, m]."""
TOO_MUCH, THOUSANDTHS = 1.5, 10.0
"""Measured torques as a share of the limit that are those of another joint, as gravity comes on
top of a command, and those in thousandths."""
LEAST_TORQUE = 0.2
"""Below which no joint of an arm stays, unless it stands on its head [Nm]."""
SATURATED, MOST_SATURATED = 0.995, 0.01
"""Share of the limit at which a torque is cut off, and share of samples that may be."""
ROUNDING = 1e-9
"""What is less is an error of numbers, as is the torque of a joint that carries nothing [Nm]."""
FLAT, EQUAL = 0.02, 1e-6
"""Share of samples from which on equal largest or least torques are where they were cut off, and
how equal they are, as a share of the largest."""
APART, MOVES, WINDOW = 0.3, 0.02, 0.05
"""Largest root mean square of dq less the slope of q as a share of that of dq, from which motion
on [rad/s, m/s], and over which samples both are averaged for that [s]."""
ALIKE = 0.8
"""Correlation of signals that are one."""
SHORTEST_RUN = 8
"""Samples of a run whose slope is looked at."""
PERIODS = (2e-5, 0.2)
"""Time between samples that any log of an arm has [s]."""


def other_joints(joints: Sequence[str], robot: Robot) -> list[str]:
    """Return whether these are joints of another robot; any prefix may stand before their names.

    Args:
        joints: Names, in the order of the columns.
        robot: Whose they should be.
    """
    own = [joint.name for joint in robot.joints]
    if len(joints) != len(own):
        return [f"got {len(joints)} joints, allowed {len(own)}, which a {robot.name} has"]
    if all(a == b or a.endswith(f"_{b}") or b.endswith(f"_{a}") for a, b in zip(joints, own)):
        return []
    return [f"got joints {', '.join(joints)}, allowed {', '.join(own)}, which a {robot.name} has"]


def wrong_times(time: Vector) -> list[str]:
    """Return whether times are no seconds: no arm is measured that often, or that seldom."""
    period = float(np.median(np.diff(time))) if len(time) > 1 else PERIODS[1]
    if PERIODS[0] <= period <= PERIODS[1]:
        return []
    return [
        f"time: got a sample every {period:.3g} s, allowed {PERIODS[0]:g} to {PERIODS[1]:g}: is "
        "it in milliseconds, or in another unit?"
    ]


def wrong_positions(q: Matrix, joints: Sequence[str], limits: ArmLimits) -> list[str]:
    """Return which positions are beyond what joints can be at: degrees, or another joint's."""
    low, high = limits.lower - BEYOND, limits.upper + BEYOND
    found = []
    for joint in np.flatnonzero(((q < low) | (q > high)).any(axis=0)).tolist():
        in_degrees = np.deg2rad(q[:, joint])
        is_inside = (in_degrees >= low[joint]).all() and (in_degrees <= high[joint]).all()
        if is_inside and np.abs(q).max() > 2.0 * np.pi:
            hint = "are positions in degrees?"
        else:
            hint = "are columns swapped, or is it another robot?"
        found.append(
            f"{joints[joint]}: got positions from {q[:, joint].min():.4g} to "
            f"{q[:, joint].max():.4g}, allowed {limits.lower[joint]:.4g} to "
            f"{limits.upper[joint]:.4g} {limits.unit(joint)}: {hint}"
        )
    return found


def wrong_torques(tau: Matrix, joints: Sequence[str], limits: ArmLimits) -> list[str]:
    """Return which torques are no newton metres of these joints."""
    largest = np.abs(tau).max(axis=0)
    if largest.max() < LEAST_TORQUE:
        return [f"no torque is above {largest.max():.2g} Nm: in kNm, or not measured?"]
    in_thousandths = bool((largest > THOUSANDTHS * limits.torque).any())
    hint = "is it in mNm?" if in_thousandths else "are columns swapped, or is it another robot?"
    return [
        f"{joints[joint]}: got torques up to {largest[joint]:.4g}, allowed "
        f"{limits.torque[joint]:g} {limits.unit(joint, 'Nm')}: {hint}"
        for joint in np.flatnonzero(largest > TOO_MUCH * limits.torque).tolist()
    ]


def wrong_velocities(
    time: Vector, q: Matrix, dq: Matrix, joints: Sequence[str], runs: Sequence[slice]
) -> list[str]:
    """Return whether velocities are not how positions change, and what they are instead.

    Args:
        time: (N,) [s].
        q: Positions.
        dq: Velocities.
        joints: Names.
        runs: Samples between gaps.
    """
    runs = [run for run in runs if run.stop - run.start >= SHORTEST_RUN]
    if not runs:
        return []
    window = max(1, round(WINDOW / float(np.median(np.diff(time)))))
    slope = _averaged(np.vstack([np.gradient(q[r], time[r], axis=0) for r in runs]), window)
    given = _averaged(np.vstack([dq[r] for r in runs]), window)
    size = _rms(given)
    if len(zero := np.flatnonzero(~dq.any(axis=0) & (_rms(slope) > MOVES))):
        names = ", ".join(joints[int(k)] for k in zero)
        return [
            f"dq of {names} is zero throughout, while q changes: leave columns of dq out that "
            "nobody measured"
        ]
    odd = np.flatnonzero((size > MOVES) & (_rms(given - slope) > APART * size))
    if not len(odd):
        return []
    joint, alike = int(odd[0]), correlations(given, slope)
    what, changes = f"dq of {joints[joint]} is", "how its q changes"
    best = int(np.argmax(np.nan_to_num(alike[joint], nan=-1.0)))
    if alike[joint, joint] > ALIKE:
        ratio = size[joint] / _rms(slope)[joint]
        unit = "what unit is it in?"
        if 40.0 < max(ratio, 1.0 / ratio) < 80.0:
            unit = f"are {'velocities' if ratio > 1.0 else 'positions'} in degrees?"
        return [f"{what} {ratio:.3g} times {changes}: {unit}"]
    if alike[joint, joint] < -ALIKE:
        return [f"{what} opposite to {changes}"]
    if best != joint and alike[joint, best] > ALIKE:
        return [f"{what} how q of {joints[best]} changes: are columns swapped?"]
    names = ", ".join(joints[int(k)] for k in odd)
    return [f"dq of {names} is not the slope of q: are columns swapped?"]


def saturated(tau: Matrix, joints: Sequence[str], limits: ArmLimits) -> list[str]:
    """Return which torques are at the limit of their joint too often."""
    share = (np.abs(tau) >= SATURATED * limits.torque).mean(axis=0)
    return [
        f"{joints[joint]}: the torque is at its limit of {limits.torque[joint]:g} "
        f"{limits.unit(joint, 'Nm')} in {share[joint]:.0%} of the samples, where it does not say "
        "what the motion takes; move slower"
        for joint in np.flatnonzero(share > MOST_SATURATED).tolist()
    ]


def cut_off(tau: Matrix, joints: Sequence[str]) -> list[str]:
    """Return which torques end at one value to the last digit: that of a sensor or a driver."""
    near = np.maximum(EQUAL * np.abs(tau).max(axis=0), ROUNDING)
    found = []
    for ends in (tau.max(axis=0), tau.min(axis=0)):
        share = (np.abs(tau - ends) <= near).mean(axis=0)
        found += [
            f"{joints[joint]}: the torque is cut off at {ends[joint]:.4g}, in {share[joint]:.0%} "
            "of the samples, where it does not say what the motion takes"
            for joint in np.flatnonzero((share > FLAT) & (np.ptp(tau, axis=0) > near)).tolist()
        ]
    return found


def still(q: Matrix, joints: Sequence[str]) -> list[str]:
    """Return which joints do not move."""
    return [
        f"{joints[joint]}: stands still, within {STILL:g} rad or m, so that its friction and "
        "what it moves cannot be told"
        for joint in np.flatnonzero(np.ptp(q, axis=0) < STILL).tolist()
    ]


def correlations(a: Matrix, b: Matrix) -> Matrix:
    """Return the correlation of every column with every other one, (n, n); nan for constants."""
    one, other = (x - x.mean(axis=0) for x in (a, b))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        lengths = np.outer(np.linalg.norm(one, axis=0), np.linalg.norm(other, axis=0))
        found: Matrix = (one.T @ other) / lengths
    return found


def _averaged(values: Matrix, window: int) -> Matrix:
    kernel = np.ones(window) / window
    return np.stack([np.convolve(column, kernel, "same") for column in values.T], axis=1)


def _rms(values: Matrix) -> Vector:
    with np.errstate(over="ignore"):  # of numbers that are none, which is said elsewhere
        return np.asarray(np.sqrt(np.mean(values**2, axis=0)))
