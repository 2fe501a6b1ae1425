# SPDX-License-Identifier: Apache-2.0
"""Whether a log can be what it is said to be: units, columns, joints, length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.arm_regressor import ArmRegressor
from multipanda_py.identification.mistaken_columns import (
    ALIKE,
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
from multipanda_py.identification.motion import MeasuredMotion
from multipanda_py.identification.smoothing import smoothed
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
