# SPDX-License-Identifier: Apache-2.0
"""Whether a motion shows the parameters that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.arm.estimators import Estimate, Smoothed, low_pass, smoothed
from multipanda_py.identification.arm.friction import FrictionShape
from multipanda_py.identification.arm.regressor import ArmRegressor, with_rotors
from multipanda_py.realtime.recording.measured_motion import (
    ALIKE,
    MeasuredMotion,
    correlations,
    cut_off,
    other_joints,
    saturated,
    still,
    wrong_positions,
    wrong_times,
    wrong_torques,
    wrong_velocities,
)
from multipanda_py.state import Matrix, Vector

SHORTEST = 5.0
"""Least time without gaps, all runs together [s]."""
MOST = 300_000
"""Samples of a log: regressors of one take some 7 kB, and nobody waits for the rest."""
UNLIKE = 0.3
"""Correlation of signals that are not one."""
CUTOFF = 5.0


def check_motion(motion: MeasuredMotion, regressor: ArmRegressor, *, moves: bool = True) -> None:
    """Refuse a log whose numbers cannot be those of this arm.

    Args:
        motion: The log.
        regressor: Of the arm.
        moves: Whether all joints are to move.

    Raises:
        IdentificationRefused: With one sentence.
    """
    for sentence in _doubts(motion, regressor, moves):
        raise IdentificationRefused(f"{motion.name}: {sentence}")


def _doubts(motion: MeasuredMotion, regressor: ArmRegressor, moves: bool) -> Iterator[str]:
    """Say what speaks against computing with a motion, the plainest first."""
    limits, robot = regressor.arm.limits, regressor.arm.robot
    own = tuple(joint.name for joint in robot.joints)
    columns, given = motion.q.shape[1], motion.joints
    if given is None or len(given) != columns:  # nobody says
        given = (*own[:columns], *["?"] * (columns - len(own)))
    if len(motion.time) > MOST:
        yield f"got {len(motion.time)} samples, allowed up to {MOST}: name a part, or thin it"
    yield from other_joints(given, robot)
    yield from wrong_times(motion.time)
    yield from wrong_positions(motion.q, own, limits)
    yield from wrong_torques(motion.tau, own, limits)
    yield from saturated(motion.tau, own, limits)
    if not moves:
        return
    runs = smoothed(motion, CUTOFF)
    length = sum(len(run.time) / run.rate for run in runs)
    if length < SHORTEST:
        gaps = len(motion.runs()) - 1
        between = f" between {gaps} gaps" if gaps else ""
        yield (
            f"too short: {length:.3g} s in runs of more than a second{between}, allowed "
            f"{SHORTEST:g} s and more"
        )
    yield from still(motion.q, own)
    if motion.dq is not None:
        yield from wrong_velocities(motion.time, motion.q, motion.dq, own, motion.runs())
    yield from cut_off(motion.tau, own)
    q, dq, ddq, tau = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("q", "dq", "ddq", "tau")
    )
    rows = regressor.rows(q, dq, ddq, motion.gravity_in_base)
    expected = rows @ regressor.prior + rows[..., -10:] @ regressor.carried
    yield from _unexpected_torques(own, expected, tau)


def _unexpected_torques(own: tuple[str, ...], expected: Matrix, tau: Matrix) -> Iterator[str]:
    """Say which torques are those of another joint, upside down, or a thousandth."""
    alike = correlations(tau, expected)
    heavy = expected.std(axis=0) > 0.2 * expected.std(axis=0).max()
    size: Vector = np.linalg.norm(tau, axis=0) / np.linalg.norm(expected, axis=0)
    for joint in np.flatnonzero(heavy).tolist():
        best = int(np.nanargmax(np.where(heavy, alike[joint], -1.0)))
        if best != joint and alike[joint, best] > ALIKE and alike[joint, joint] < UNLIKE:
            yield (
                f"the torque of {own[joint]} is what {own[best]} should take: are columns swapped?"
            )
        if alike[joint, joint] < -ALIKE:
            yield (
                f"the torque of {own[joint]} is opposite to what its motion takes: the sign, the "
                "sense of gravity, or another robot?"
            )
        if alike[joint, joint] > ALIKE and not 0.2 < size[joint] < 5.0:
            yield (
                f"the torque of {own[joint]} is {size[joint]:.2g} times what its motion should "
                "take: what unit is it in?"
            )


AHEAD = 4.0
"""Cutoff of positions, relative to that of torques and regressors."""
ENDS = 1.5
"""Periods of the cutoff at both ends of a run in which filters know too little."""
SAMPLES = 5.0
"""In a period of the cutoff, of what is kept; a log has as many, or the filter takes nothing."""

LEAST_CUTOFF = 0.1
"""[Hz]."""


@dataclass(frozen=True, eq=False)
class Stack:
    r"""What is known of the parameters z of an arm.

    .. math:: \tau = A z, \qquad z = (\pi, I_r, f_v, f_c, f_o)

    Columns and torques have been through one and the same filter, so that what is sharp in the
    one, as friction that turns round, is as blunt in the other.

    Attributes:
        rows: A, (N, n, 10 n + 4 n).
        tau: (N, n) [Nm]; without what the last link carries.
        slope: Rate of change of the torques as measured, (N, n) [Nm/s].
        dq: Velocities at the same times, (N, n).
        rate: Samples per second [Hz].
        independent: Share of the samples that the filter left independent of each other.
        time: Of the samples in their log, (N,) [s].
        parts: What was smoothed.
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
        """Return the same with other friction near rest."""
        n = self.tau.shape[1]
        rows = self.rows.copy()
        new = [
            thinned(shape.rows(part.dq).reshape(len(part.dq), -1), cutoff, part.rate)
            for part in self.parts
        ]
        rows[:, :, 11 * n :] = np.concatenate(new).reshape(-1, n, 3 * n)
        return replace(self, rows=rows)

    def moving(self, least: float | Vector, cutoff: float) -> NDArray[np.bool_]:
        """Return which torques have no friction near rest in them, (N, n).

        Args:
            least: Velocity from which friction is what it is far from rest [rad/s, m/s], of all
                joints or (n,).
            cutoff: Of the filter, which spreads what happens near rest [Hz].
        """
        slow = [
            thinned((np.abs(part.dq) < least).astype(float), cutoff, part.rate)
            for part in self.parts
        ]
        return np.concatenate(slow) < 0.1

    def late_by(self, delay: float) -> Stack:
        """Return the same with torques as they were a delay [s] later."""
        return replace(self, tau=self.tau + delay * self.slope)


def thinned(values: Matrix, cutoff: float, rate: float) -> Matrix:
    """Return filtered columns, :data:`SAMPLES` in a period of the cutoff, without the ends."""
    smooth = low_pass(values, cutoff, rate)
    keep = max(1, int(rate / (SAMPLES * cutoff)))
    end = int(ENDS * rate / cutoff)
    return smooth[end : len(smooth) - end : keep]


def stack(
    regressor: ArmRegressor,
    motions: Sequence[MeasuredMotion],
    shape: FrictionShape,
    cutoff: float,
) -> Stack:
    """Return the stack of some motions.

    Args:
        regressor: Of the arm that moved.
        motions: As measured; where they stood says each of them.
        shape: Of friction near rest.
        cutoff: Of the filter of torques and regressors [Hz].

    Raises:
        IdentificationRefused: If a log has too few samples for the cutoff, or nothing is below it.
    """
    if cutoff < LEAST_CUTOFF:
        raise IdentificationRefused(
            f"got a cutoff of {cutoff:g} Hz, allowed from {LEAST_CUTOFF:g} Hz"
        )
    n = regressor.arm.n_joints
    rows, tau, slope, dq, time, parts, rates = [], [], [], [], [], [], []
    for motion in motions:
        for part in smoothed(motion, AHEAD * cutoff):
            if 1.01 * part.rate < SAMPLES * cutoff:
                raise IdentificationRefused(
                    f"{motion.name}: got a cutoff of {cutoff:g} Hz for {part.rate:.3g} samples a "
                    f"second, allowed up to {part.rate / SAMPLES:.3g} Hz: above it accelerations "
                    "are noise"
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
            rates.append(part.rate / max(1, int(part.rate / (SAMPLES * cutoff))))
    if not rows:
        empty = np.zeros((0, n))
        return Stack(np.zeros((0, n, 14 * n)), empty, empty, empty, 0.0, 1.0, np.zeros(0), ())
    rate = min(rates)
    return Stack(
        np.concatenate(rows), np.concatenate(tau), np.concatenate(slope), np.concatenate(dq),
        rate, min(1.0, 2.0 * cutoff / rate), np.concatenate(time), tuple(parts),
    )  # fmt: skip


MOST_CONDITION = 1000.0
"""Of a stack with columns of length one; good motions have 100, random ones some hundred."""


def refuse_what_is_not_excited(
    estimate: Estimate, names: Sequence[str], most: float = MOST_CONDITION
) -> None:
    """Refuse data that leave a combination of parameters open.

    Args:
        estimate: Of the parameters.
        names: Of the parameters, (p,).
        most: Largest condition number.

    Raises:
        IdentificationRefused: Says which parameters cannot be told from one another.
    """
    if estimate.condition <= most:
        return
    share = np.abs(estimate.worst)
    order = np.argsort(-share)
    mixed = [names[i] for i in order[:4] if share[i] > 0.2 * share[order[0]]]
    if len(mixed) > 1:
        what = f"{', '.join(mixed[:-1])} and {mixed[-1]} cannot be told apart"
    else:
        what = f"{mixed[0]} cannot be told"
    raise IdentificationRefused(
        f"the motion does not show all parameters: {what}; condition number "
        f"{estimate.condition:.3g}, allowed {most:g}. Move all joints together, both ways, as "
        "`multipanda excite` does"
    )
