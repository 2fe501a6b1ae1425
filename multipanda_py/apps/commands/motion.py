# SPDX-License-Identifier: Apache-2.0
"""Execute a motion file, as ``multipanda excite`` writes it, on an arm of a cell."""

from __future__ import annotations

import io
import time
import warnings
from pathlib import Path

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.sections import GateConfig
from multipanda_py.control.reference.trajectory_monitor import STATE, MotionState
from multipanda_py.controllets.targets.joint import check_trajectory
from multipanda_py.exceptions import ConfigurationError, LoopError, TargetRejected
from multipanda_py.files import MAX_DESCRIPTION_SIZE, read_text
from multipanda_py.identification.arm.fourier import column_names
from multipanda_py.state import ArmSnapshot, Matrix, Vector

CONTROLLET = "joint_trajectory"
START_TOLERANCE = 0.02
"""Tolerance of the joint positions at the start and end of a motion [rad, m], and of the
velocities at its start [rad/s, m/s]."""
APPROACH_TIMEOUT = 60.0
"""Time limit for the approach to the start of a motion [s]."""
REST_TIME = 0.2
"""Time for an arm to come to rest after a motion [s]."""


def read_motion(path: Path, name: str, arm: ArmConfig) -> Matrix:
    """Read a motion file for :meth:`.Cell.follow`.

    Args:
        path: CSV file with columns time, q, dq and ddq.
        name: Name of the arm that executes the motion.
        arm: Configuration of this arm.

    Returns:
        Points of the motion, (p, 1 + 3 j): time [s], positions, velocities and accelerations of
        the j joints.

    Raises:
        ConfigurationError: The file is not a motion, belongs to an arm with other joints, or has
            a motion that this arm cannot follow.
    """
    joints = arm.robot.n_joints
    names = column_names(joints)
    try:
        file = io.StringIO(read_text(path, MAX_DESCRIPTION_SIZE))
        with warnings.catch_warnings():
            # numpy warns about a file without rows, which is reported below.
            warnings.simplefilter("ignore")
            head = file.readline().strip().split(",")
            points = np.loadtxt(file, delimiter=",", ndmin=2) if head == names else None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: not a motion: {error}") from None
    if points is None or points.shape[1:] != (len(names),) or not np.isfinite(points).all():
        raise ConfigurationError(
            f"{path}: got columns {', '.join(head)[:80]}, allowed finite numbers in columns "
            f"time, q1 ... ddq{joints}, as multipanda excite writes them"
        )
    try:  # The motion is rejected before the arm moves to its start.
        rest = _at_rest(name, points[0, 1 : 1 + joints])
        check_trajectory(points, rest, arm.robot.limits, GateConfig().limits())
    except TargetRejected as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return points


def _at_rest(name: str, q: Vector) -> ArmSnapshot:
    nothing, wrench = np.zeros(len(q)), np.zeros(6)
    return ArmSnapshot(
        name, 0.0, q, nothing, nothing, nothing, nothing, np.zeros(3), np.eye(3), wrench, wrench,
        np.zeros(2), "", "",
    )  # fmt: skip


def move_to_start(cell: Cell, arm: str, points: Matrix) -> str:
    """Move an arm to the start of a motion.

    Args:
        cell: Running cell.
        arm: Name of the arm.
        points: Times, positions, velocities and accelerations of the motion, (p, 1 + 3 n).

    Returns:
        Name of the ``joint_trajectory`` controllet that moves the arm.

    Raises:
        ConfigurationError: The cell has no such controllet for this arm alone.
        LoopError: The arm does not reach the start.
    """
    law = next(
        (c.name for c in cell.controllets() if c.type == CONTROLLET and c.arms == (arm,)), None
    )
    if law is None:
        raise ConfigurationError(
            f"controllets: no {CONTROLLET} for {arm} alone. Declare one, since it follows the "
            f"motion."
        )
    cell.switch([law], strictness="force_auto", timeout=5.0)
    start = points[0, 1 : 1 + cell.state(arm).q.size]
    cell.set_target(arm, q=start)
    until = time.monotonic() + APPROACH_TIMEOUT
    while not _is_at(cell, arm, start):
        _check(cell, arm, law)
        if time.monotonic() > until:
            away = np.abs(cell.state(arm).q - start).max()
            raise LoopError(
                f"{arm}: is {away:.3f} rad away from the start of the motion after "
                f"{APPROACH_TIMEOUT:g} s. Check whether an obstacle blocks its path."
            )
        time.sleep(0.05)
    return law


def follow(cell: Cell, arm: str, law: str, points: Matrix) -> None:
    """Execute a motion on an arm and wait for its end.

    Args:
        cell: Running cell.
        arm: Name of the arm.
        law: Name of the ``joint_trajectory`` controllet.
        points: Times, positions, velocities and accelerations of the motion, (p, 1 + 3 n).

    Raises:
        TargetRejected: The arm cannot follow the motion.
        LoopError: The arm faults during the motion, or does not reach its end.
    """
    start = cell.state(arm).time
    cell.follow(arm, points)
    while cell.state(arm).time < start + points[-1, 0] + REST_TIME:
        _check(cell, arm, law)
        time.sleep(0.05)
    end = points[-1, 1 : 1 + cell.state(arm).q.size]
    away = np.abs(cell.state(arm).q - end).max()
    if away > START_TOLERANCE:
        raise LoopError(f"{arm}: ended {away:.3f} rad away from the end of the motion")


def _is_at(cell: Cell, arm: str, q: Matrix) -> bool:
    state = cell.state(arm)
    return bool(
        np.abs(state.q - q).max() < START_TOLERANCE and np.abs(state.dq).max() < START_TOLERANCE
    )


def _check(cell: Cell, arm: str, law: str) -> None:
    cell.check()
    fault = cell.state(arm).fault
    if fault:
        raise LoopError(f"{arm}: stopped during the motion: {fault}")
    if law not in cell.active:
        raise LoopError(f"{arm}: stopped during the motion: {law} is no longer active")
    state = MotionState(int(cell.report(law).value(STATE)))
    if state > MotionState.DONE:
        description = state.name.lower().replace("_", " ")
        raise LoopError(f"{arm}: stopped during the motion: {description}")
