# SPDX-License-Identifier: Apache-2.0
"""What is odd about a log, in sentences, before anybody computes with it."""

from __future__ import annotations

import numpy as np

from multipanda_py.exceptions import UnknownName
from multipanda_py.identification.mistaken_columns import (
    cut_off,
    other_joints,
    saturated,
    still,
    wrong_positions,
    wrong_times,
    wrong_torques,
    wrong_velocities,
)
from multipanda_py.logs.arm_log import JOINT_COLUMNS, ArmLog
from multipanda_py.logs.log import Log
from multipanda_py.robots import MODELS

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
    found = mistaken(log, name)
    more = still(log.q, log.joints) if moves else []
    if log.tau is not None:
        known = [] if name is None else saturated(log.tau, log.joints, MODELS[name].limits)
        more += known or cut_off(log.tau, log.joints)
    return found + [f"{log.arm}: {sentence}" for sentence in more]


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
    if found := wrong_times(log.time):  # velocities would only repeat it
        return [f"{log.arm}: {sentence}" for sentence in found]
    numbers = np.hstack([log[column] for column in JOINT_COLUMNS if column in log.names])
    fine = np.isfinite(numbers).all(axis=1)
    if not fine.any():
        return []
    if not fine.all():
        log = log.with_columns({column: log[column][fine] for column in log.names})
    found = []
    if log.dq is not None:
        found += wrong_velocities(log.time, log.q, log.dq, log.joints, log.segments())
    if name is not None:
        limits = MODELS[name].limits
        found += wrong_positions(log.q, log.joints, limits)
        if log.tau is not None:
            found += wrong_torques(log.tau, log.joints, limits)
    return [f"{log.arm}: {sentence}" for sentence in found]


def unrecorded(log: Log) -> list[str]:
    """Return what a recording says that it has not: its end, rows that were lost."""
    found = []
    if torn := log.about.get("torn"):
        found.append(f"{log.where}: has no end: {torn}")
    if (dropped := log.about.get("dropped", "0")) != "0":
        found.append(f"{log.where}: {dropped} rows came too fast to be recorded")
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
    found = other_joints(log.joints, MODELS[name])
    if len(log.joints) == MODELS[name].n_joints and known_robot(log) not in (None, name):
        found = [f"recorded on {log.robot}, not on {name}"]
    return [f"{log.arm}: {sentence}" for sentence in found]


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
