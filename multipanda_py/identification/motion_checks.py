# SPDX-License-Identifier: Apache-2.0
"""Whether a log can be what it is said to be: units, columns, joints, length."""

from __future__ import annotations

import numpy as np

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.arm_regressor import ArmRegressor
from multipanda_py.identification.motion import MeasuredMotion
from multipanda_py.identification.smoothing import smoothed
from multipanda_py.state import Matrix, Vector

SHORTEST = 5.0
"""Least time without gaps, all runs together [s]."""
STILL = 0.02
"""Span of a joint that stands still [rad, m]."""
SATURATED, MOST_SATURATED = 0.995, 0.01
"""Share of the limit at which a torque is cut off, and share of samples that may be."""
FLAT = 0.02
"""Share of samples from which on equal largest or least torques are where they were cut off."""
BEYOND = 0.05
"""How far measured positions may be beyond limits [rad, m]."""
ALIKE, UNLIKE = 0.8, 0.3
"""Correlations of signals that are one, and of those that are not."""
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
    n, limits = regressor.arm.n_joints, regressor.arm.limits
    own = tuple(joint.name for joint in regressor.arm.robot.joints)
    if motion.joints is not None and not _same_joints(motion.joints, own):
        raise IdentificationRefused(
            f"{motion.name}: got joints {', '.join(motion.joints)}, allowed {', '.join(own)}, "
            f"which a {regressor.arm.robot.name} has"
        )
    if motion.q.shape[1] != n:
        raise IdentificationRefused(
            f"{motion.name}: got {motion.q.shape[1]} joints, allowed {n}, which a "
            f"{regressor.arm.robot.name} has"
        )
    _check_units(motion, regressor)
    saturated = (np.abs(motion.tau) >= SATURATED * limits.torque).mean(axis=0)
    if (saturated > MOST_SATURATED).any():
        joint = int(saturated.argmax())
        raise IdentificationRefused(
            f"{motion.name}: {own[joint]}: the torque is at its limit of "
            f"{limits.torque[joint]:g} {limits.unit(joint, 'Nm')} in {saturated[joint]:.0%} of "
            "the samples, where it does not say what the motion takes; move slower"
        )
    if not moves:
        return
    runs = smoothed(motion, CUTOFF)
    length = sum(len(run.time) / run.rate for run in runs)
    if length < SHORTEST:
        gaps = len(motion.runs()) - 1
        between = f" between {gaps} gaps" if gaps else ""
        raise IdentificationRefused(
            f"{motion.name}: too short: {length:.3g} s in runs of more than a second{between}, "
            f"allowed {SHORTEST:g} s and more"
        )
    still = np.ptp(motion.q, axis=0) < STILL
    if still.any():
        names = ", ".join(own[i] for i in np.flatnonzero(still))
        raise IdentificationRefused(
            f"{motion.name}: {names}: stands still, within {STILL:g} rad or m, so that its "
            "friction and what it moves cannot be told"
        )
    _check_velocities(motion, own)
    _check_cut_off(motion, own)
    q, dq, ddq, tau = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("q", "dq", "ddq", "tau")
    )
    rows = regressor.rows(q, dq, ddq, motion.gravity_in_base)
    expected = rows @ regressor.prior + rows[..., -10:] @ regressor.carried
    _check_torques(motion, own, expected, tau)


def _same_joints(got: tuple[str, ...], own: tuple[str, ...]) -> bool:
    """Return whether names are the robot's, with whatever prefix in front of all of them."""
    if len(got) != len(own):
        return False
    return all(a == b or a.endswith(f"_{b}") or b.endswith(f"_{a}") for a, b in zip(got, own))


def _check_units(motion: MeasuredMotion, regressor: ArmRegressor) -> None:
    """Refuse degrees, millinewtonmetres and what is beyond all limits."""
    limits, robot = regressor.arm.limits, regressor.arm.robot
    low, high = limits.lower - BEYOND, limits.upper + BEYOND
    outside = ((motion.q < low) | (motion.q > high)).any(axis=0)
    if outside.any():
        joint = int(outside.argmax())
        least, most = motion.q[:, joint].min(), motion.q[:, joint].max()
        degrees = np.deg2rad(motion.q)
        hint = ""
        if ((degrees >= low) & (degrees <= high)).all() and np.abs(motion.q).max() > 2.0 * np.pi:
            hint = ": are these degrees?"
        raise IdentificationRefused(
            f"{motion.name}: {robot.joints[joint].name}: got positions from {least:.4g} to "
            f"{most:.4g}, allowed {limits.lower[joint]:.4g} to {limits.upper[joint]:.4g} "
            f"{limits.unit(joint)}{hint}"
        )
    most_torque = np.abs(motion.tau).max(axis=0)
    too_much = most_torque > 1.5 * limits.torque
    if too_much.any():
        joint = int(too_much.argmax())
        hint = (
            ": are these mNm?"
            if (most_torque[too_much] > 10.0 * limits.torque[too_much]).any()
            else ""
        )
        raise IdentificationRefused(
            f"{motion.name}: {robot.joints[joint].name}: got torques up to "
            f"{most_torque[joint]:.4g}, allowed {limits.torque[joint]:g} "
            f"{limits.unit(joint, 'Nm')}{hint}"
        )


def _check_velocities(motion: MeasuredMotion, own: tuple[str, ...]) -> None:
    """Refuse velocities that are not those of the positions."""
    if motion.dq is None:
        return
    runs = [run for run in motion.runs() if run.stop - run.start > 10]
    slope = np.concatenate([np.gradient(motion.q[r], motion.time[r], axis=0) for r in runs])
    given = np.concatenate([motion.dq[r] for r in runs])
    alike = _correlations(given, slope)
    for joint in range(len(own)):
        best = int(np.nanargmax(alike[joint])) if np.isfinite(alike[joint]).any() else joint
        if best != joint and alike[joint, best] > ALIKE and alike[joint, joint] < UNLIKE:
            raise IdentificationRefused(
                f"{motion.name}: dq of {own[joint]} is how q of {own[best]} changes: are columns "
                "swapped?"
            )
        scale = float(np.linalg.norm(given[:, joint]) / np.linalg.norm(slope[:, joint]))
        if alike[joint, joint] > ALIKE and 40.0 < scale < 80.0:
            raise IdentificationRefused(
                f"{motion.name}: dq of {own[joint]} is {scale:.0f} times how its q changes: are "
                "velocities in degrees?"
            )
        if alike[joint, joint] < -ALIKE:
            raise IdentificationRefused(
                f"{motion.name}: dq of {own[joint]} is opposite to how its q changes"
            )


def _check_cut_off(motion: MeasuredMotion, own: tuple[str, ...]) -> None:
    """Refuse torques that end at some value to the last digit: that of a sensor or a driver."""
    ends = (motion.tau == motion.tau.max(axis=0)) | (motion.tau == motion.tau.min(axis=0))
    flat = np.where(np.ptp(motion.tau, axis=0) > 0.0, ends.mean(axis=0), 0.0)
    if (flat > FLAT).any():
        joint = int(flat.argmax())
        end = motion.tau[np.flatnonzero(ends[:, joint])[0], joint]
        raise IdentificationRefused(
            f"{motion.name}: {own[joint]}: the torque is cut off at {end:.4g}, in "
            f"{flat[joint]:.0%} of the samples, where it does not say what the motion takes"
        )


def _check_torques(
    motion: MeasuredMotion, own: tuple[str, ...], expected: Matrix, tau: Matrix
) -> None:
    """Refuse torques that are those of another joint, upside down, or a thousandth."""
    alike = _correlations(tau, expected)
    heavy = expected.std(axis=0) > 0.2 * expected.std(axis=0).max()
    size: Vector = np.linalg.norm(tau, axis=0) / np.linalg.norm(expected, axis=0)
    for joint in np.flatnonzero(heavy).tolist():
        best = int(np.nanargmax(np.where(heavy, alike[joint], -1.0)))
        if best != joint and alike[joint, best] > ALIKE and alike[joint, joint] < UNLIKE:
            raise IdentificationRefused(
                f"{motion.name}: the torque of {own[joint]} is what {own[best]} should take: are "
                "columns swapped?"
            )
        if alike[joint, joint] < -ALIKE:
            raise IdentificationRefused(
                f"{motion.name}: the torque of {own[joint]} is opposite to what its motion takes: "
                "the sign, the sense of gravity, or another robot?"
            )
        if alike[joint, joint] > ALIKE and not 0.2 < size[joint] < 5.0:
            raise IdentificationRefused(
                f"{motion.name}: the torque of {own[joint]} is {size[joint]:.2g} times what its "
                "motion should take: what unit is it in?"
            )


def _correlations(a: Matrix, b: Matrix) -> Matrix:
    """Return the correlation of every column with every other one, (n, n); nan for constants."""
    one, other = (x - x.mean(axis=0) for x in (a, b))
    lengths = np.outer(np.linalg.norm(one, axis=0), np.linalg.norm(other, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Matrix = (one.T @ other) / lengths
    return found
