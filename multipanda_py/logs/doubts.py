# SPDX-License-Identifier: Apache-2.0
"""What is odd about a log, in sentences, before anybody computes with it."""

from __future__ import annotations

import numpy as np

from multipanda_py.exceptions import UnknownName
from multipanda_py.limits import ArmLimits
from multipanda_py.logs.arm_log import JOINT_COLUMNS, ArmLog
from multipanda_py.robots import MODELS
from multipanda_py.state import Matrix, Vector

_STILL = 1e-4
"""A joint whose positions spread less than this does not move [rad]."""
_SATURATED = 0.02
"""Share of samples at the largest torque of a joint from which on it was cut off."""
_FLAT = 1e-6
"""As a share of the largest torque: so equal are those that were cut off, and no crests."""
_ROOM = 1.05
"""A measurement may be so much above a limit."""
_VELOCITY_FITS = 0.3
"""Largest rms of dq minus the slope of q, as a share of that of dq."""
_MOVES = 0.02
"""Root mean square from which on a joint's velocities are held against its positions [rad/s]."""
_LACKING = 0.05
"""Share of the time that may lie in gaps."""


def doubts(
    log: ArmLog, robot: str | None = None, shortest: float = 0.0, *, moves: bool = True
) -> list[str]:
    """Return what speaks against computing with a log, one sentence each; empty if nothing does.

    Time that goes back cannot be in an :class:`.ArmLog`: reading refuses it.

    Args:
        log: Of one arm.
        robot: Name of the model that it is to be of; that of the log by default. What depends on
            a model's limits is not looked at without one.
        shortest: How long it is to be at least [s].
        moves: Whether all joints are to move.

    Raises:
        UnknownName: If there is no such robot.
    """
    name = robot or known_robot(log)
    found = _of_another_robot(log, name) + holes(log, shortest)
    if found:
        return found  # what follows would only repeat it
    found += [
        f"{log.arm}: {joint} does not move: its positions spread {np.ptp(q):.1e} rad"
        for joint, q in zip(log.joints, log.q.T)
        if moves and np.ptp(q) < _STILL
    ]
    found += mistaken(log, name)
    if name is not None:
        found += _cut_off(log, MODELS[name].limits)
    return found


def mistaken(log: ArmLog, robot: str | None = None) -> list[str]:
    """Return what says that numbers are not what their columns are called, one sentence each.

    Another robot, degrees, mNm, columns that are swapped. Samples that have something in them
    that is no number are not looked at.

    Args:
        log: Of one arm.
        robot: Name of the model that it is to be of; that of the log by default.

    Raises:
        UnknownName: If there is no such robot.
    """
    name = robot or known_robot(log)
    if found := _of_another_robot(log, name):
        return found
    numbers = np.hstack([log[column] for column in JOINT_COLUMNS if column in log.names])
    fine = np.isfinite(numbers).all(axis=1)
    if not fine.any():
        return []
    if not fine.all():
        log = log.with_columns({column: log[column][fine] for column in log.names})
    found = _velocities(log)
    if name is not None:
        limits = MODELS[name].limits
        found += _positions(log, limits) + _units(log, limits)
    return found


def known_robot(log: ArmLog) -> str | None:
    """Return the model that a log is of, or None where nobody says or it is one of files."""
    return log.robot if log.robot in MODELS else None


def holes(log: ArmLog, shortest: float = 0.0) -> list[str]:
    """Return what is not in a log, one sentence each: numbers, time, samples.

    Args:
        log: Of one arm.
        shortest: How long it is to be at least [s].
    """
    found = _not_numbers(log)
    if log.duration < shortest:
        found.append(f"{log.arm}: {log.duration:.1f} s are too short, allowed from {shortest:g} s")
    lacking = float(np.diff(log.gaps(), axis=1).sum())
    if lacking > _LACKING * log.duration:
        found.append(
            f"{log.arm}: {lacking:.2f} of {log.duration:.2f} s lie in {len(log.gaps())} gaps"
        )
    return found


def _of_another_robot(log: ArmLog, name: str | None) -> list[str]:
    if name is None:
        return []
    if name not in MODELS:
        raise UnknownName("robot", name, list(MODELS))
    model = MODELS[name]
    if len(log.joints) != model.limits.n_joints:
        return [f"{log.arm}: {len(log.joints)} joints, {name} has {model.limits.n_joints}"]
    known = tuple(joint.name for joint in model.joints)
    if known_robot(log) not in (None, name):
        return [f"{log.arm}: recorded on {log.robot}, not on {name}"]
    if sorted(log.joints) != sorted(known):
        return [f"{log.arm}: joints {', '.join(log.joints)}; those of {name}: {', '.join(known)}"]
    return []


def _not_numbers(log: ArmLog) -> list[str]:
    found = []
    for name in ("q", "dq", "tau", "tau_commanded"):
        if name in log.names and not np.isfinite(log[name]).all():
            at = np.argwhere(~np.isfinite(log[name]))
            k, joint = at[0].tolist()
            found.append(
                f"{log.arm}: {name} of {log.joints[joint]} is {log[name][k, joint]} at "
                f"{log.time[k]:.3f} s, and {len(at) - 1} more such numbers"
            )
    return found


def _velocities(log: ArmLog) -> list[str]:
    """Hold velocities against positions: wrong units, swapped columns."""
    if log.dq is None or len(log) < 8:
        return []
    slope = np.vstack([np.gradient(log.q[run], log.time[run], axis=0)
                       for run in log.segments(at_least=8)] or [np.zeros((0, 1))])  # fmt: skip
    if not len(slope):
        return []
    dq = np.vstack([log.dq[run] for run in log.segments(at_least=8)])
    window = max(1, round(0.05 * log.rate))
    slope, dq = _smooth(slope, window), _smooth(dq, window)
    moving = _rms(dq) > _MOVES
    apart = _rms(dq - slope) > _VELOCITY_FITS * np.maximum(_rms(dq), 1e-12)
    odd = np.flatnonzero(moving & apart)
    if not len(odd):
        return []
    joint = int(odd[0])
    ratio = float(dq[:, joint] @ slope[:, joint]) / float(dq[:, joint] @ dq[:, joint])
    for scale, what in ((57.2958, "positions are in degrees"), (1 / 57.2958, "dq is in degrees")):
        if abs(ratio / scale - 1.0) < 0.2:
            return [f"{log.arm}: {what} where dq and q disagree by {ratio:.3g}, allowed rad"]
    names = ", ".join(log.joints[k] for k in odd)
    return [f"{log.arm}: dq of {names} is not the slope of q: are columns swapped?"]


def _positions(log: ArmLog, limits: ArmLimits) -> list[str]:
    largest = np.abs(log.q).max(axis=0)
    bound = np.maximum(np.abs(limits.lower), np.abs(limits.upper))
    if (largest > 3.0 * bound).any():
        joint = int(np.argmax(largest / bound))
        return [
            f"{log.arm}: {log.joints[joint]} is at {largest[joint]:.1f}, allowed up to "
            f"{bound[joint]:.2f} rad: are positions in degrees?"
        ]
    outside = (log.q < limits.lower - 0.05) | (log.q > limits.upper + 0.05)
    return [
        f"{log.arm}: {log.joints[k]} is outside [{limits.lower[k]:.3f}, {limits.upper[k]:.3f}] "
        "rad of this robot: are columns swapped, or is it another one?"
        for k in np.flatnonzero(outside.any(axis=0))
    ]


def _units(log: ArmLog, limits: ArmLimits) -> list[str]:
    if log.tau is None:
        return []
    largest = np.abs(log.tau).max(axis=0)
    if (largest > 10.0 * limits.torque).any():
        joint = int(np.argmax(largest / limits.torque))
        return [
            f"{log.arm}: tau of {log.joints[joint]} is {largest[joint]:.0f}, allowed up to "
            f"{limits.torque[joint]:.0f} Nm: is it in mNm?"
        ]
    if largest.max() < 0.2:
        return [f"{log.arm}: no torque is above {largest.max():.2g} Nm: in kNm, or not measured?"]
    over = np.flatnonzero(largest > _ROOM * limits.torque)
    return [
        f"{log.arm}: tau of {log.joints[k]} is {largest[k]:.1f}, above the {limits.torque[k]:.0f} "
        "Nm of this robot: are columns swapped, or is it another one?"
        for k in over
    ]


def _cut_off(log: ArmLog, limits: ArmLimits) -> list[str]:
    if log.tau is None:
        return []
    largest = np.abs(log.tau).max(axis=0)
    cut = (np.abs(log.tau) > (1.0 - _FLAT) * largest).mean(axis=0)
    return [
        f"{log.arm}: tau of {log.joints[k]} is cut off at {largest[k]:.2f} Nm in "
        f"{100 * cut[k]:.0f} % of the samples"
        for k in np.flatnonzero((cut > _SATURATED) & (np.ptp(log.tau, axis=0) > 1e-6))
        if largest[k] <= _ROOM * limits.torque[k]
    ]


def _smooth(values: Matrix, window: int) -> Matrix:
    kernel = np.ones(window) / window
    return np.stack([np.convolve(column, kernel, "same") for column in values.T], axis=1)


def _rms(values: Matrix) -> Vector:
    return np.asarray(np.sqrt(np.mean(values**2, axis=0)))
