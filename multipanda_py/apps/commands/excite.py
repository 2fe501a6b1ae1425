# SPDX-License-Identifier: Apache-2.0
"""Optimise, write, read and execute excitation motions, from which an arm is identified."""

from __future__ import annotations

import argparse
import io
import math
import time
import warnings
from pathlib import Path

import numpy as np
import yaml

from multipanda_py.apps.commands.command_line import (
    OK,
    arm_of,
    check_output,
    complain,
    count,
    positive,
    print_line,
    seed,
    write_whole,
)
from multipanda_py.cell import Cell
from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.sections import GateConfig
from multipanda_py.control.reference.trajectory_monitor import STATE, MotionState
from multipanda_py.controllets.targets.joint import check_trajectory
from multipanda_py.exceptions import ConfigurationError, LoopError, TargetRejected
from multipanda_py.files import MAX_DESCRIPTION_SIZE, read_text
from multipanda_py.identification.arm.excitation import (
    CRITERIA,
    Clearance,
    Excitation,
    ExcitationOptions,
    clearance_in,
)
from multipanda_py.identification.arm.fourier import FourierMotion, column_names
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.robots.geometry import gravity_in_base
from multipanda_py.state import ArmSnapshot, Matrix, Vector
from multipanda_py.targets import TRAJECTORY_POINTS

MAX_DURATION, MAX_HARMONICS = 600.0, 50
"""Maximum duration of a motion [s] and maximum number of harmonics; beyond them, the search takes
too long to be useful."""
SUMMARY = (
    "Optimise a motion from which `multipanda identify` finds inertia and friction of an arm."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", metavar="CELL|ROBOT", help="cell file, or a model such as fr3")
    parser.add_argument(
        "--arm", metavar="ARM", help="arm that moves; the others hold their start configuration"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True,
        help=".csv: time, q, dq and ddq for a joint trajectory; .yaml: Fourier coefficients",
    )  # fmt: skip
    parser.add_argument(
        "--harmonics", type=count, default=5, help="number of harmonics of each joint, default 5"
    )
    parser.add_argument(
        "--period",
        type=positive,
        default=20.0,
        metavar="S",
        help="period of the motion, default 20",
    )
    parser.add_argument(
        "--ramp",
        type=positive,
        default=1.0,
        metavar="S",
        help="duration of the ramps at start and end, default 1",
    )
    parser.add_argument(
        "--limit-scale",
        type=float,
        default=0.9,
        help="fraction of the joint limits to use, default 0.9",
    )
    parser.add_argument(
        "--clearance", type=float, default=0.05, metavar="M",
        help="minimum distance to floor, objects and other arms, default 0.05",
    )  # fmt: skip
    parser.add_argument("--criterion", choices=CRITERIA, default=CRITERIA[0])
    parser.add_argument(
        "--mounting", type=float, nargs=3, action="append", default=[], metavar=("R", "P", "Y"),
        help="orientation of the base in the world [rad]; repeat for several mountings of the arm",
    )  # fmt: skip
    parser.add_argument(
        "--evaluations", type=count, default=4000, help="number of motions to try, default 4000"
    )
    parser.add_argument("--seed", type=seed, default=0)


def run(options: argparse.Namespace) -> int:
    """Search for an excitation motion of an arm, and write it to a file."""
    end_in_order()
    check_output(options.output, ".csv", ".yaml", beside=[options.cell])
    if not 0.05 <= options.limit_scale <= 1.0:
        raise ConfigurationError(f"--limit-scale: got {options.limit_scale:g}, allowed 0.05 to 1")
    if not 0.0 <= options.clearance <= 1.0:
        raise ConfigurationError(f"--clearance: got {options.clearance:g}, allowed 0 to 1 m")
    if not options.period >= 1.0 or not options.period + 2.0 * options.ramp <= MAX_DURATION:
        raise ConfigurationError(
            f"--period, --ramp: got {options.period:g} and {options.ramp:g} s. Choose a period of "
            f"1 s or more, and a sum of period and both ramps up to {MAX_DURATION:g} s"
        )
    if options.harmonics > MAX_HARMONICS:
        raise ConfigurationError(
            f"--harmonics: got {options.harmonics}, allowed 1 to {MAX_HARMONICS}"
        )
    if not all(math.isfinite(angle) for rpy in options.mounting for angle in rpy):
        raise ConfigurationError(f"--mounting: got {options.mounting}, allowed finite angles")
    arm, clearance = _arm_and_clearance(options)
    gravities = [gravity_in_base(rpy) for rpy in options.mounting]
    desired = ExcitationOptions(
        harmonics=options.harmonics,
        period=options.period,
        ramp=options.ramp,
        limit_scale=options.limit_scale,
        criterion=options.criterion,
        evaluations=options.evaluations,
        seed=options.seed,
    )
    search = Excitation(arm, desired, clearance, gravities or (None,))
    complain(f"excite: {search.parameters} base parameters, {desired.evaluations} motions to try")
    motion = search.search(
        lambda done, best: complain(f"excite: {done}/{desired.evaluations}: condition {best:.1f}")
    )
    _write(options.output, motion, arm)
    print_line(
        f"{options.output}: {motion.duration:g} s from rest to rest, condition number "
        f"{search.condition(motion):.1f}"
    )
    if search.scale < 1.0:
        complain(
            f"excite: the condition number was {search.best:.1f} at the samples of the search, "
            "but the motion came too close to an obstacle between them. It was scaled to "
            f"{search.scale:.0%}. Try a smaller --clearance or another --seed."
        )
    return OK


def _arm_and_clearance(options: argparse.Namespace) -> tuple[ArmDescription, Clearance]:
    if options.cell in MODELS:
        if options.arm is not None:
            raise ConfigurationError(
                f"--arm: got {options.arm!r}, but {options.cell} is a single arm. Remove --arm."
            )
        arm = ArmDescription("arm", options.cell)
        return arm, Clearance(arm, options.clearance)
    if not Path(options.cell).exists():
        raise ConfigurationError(
            f"CELL: got {options.cell!r}, allowed an existing cell file, or one of "
            f"{', '.join(MODELS)}"
        )
    config = CellConfig.from_yaml(options.cell)
    name = arm_of(config.arms, options.arm)
    arm = describe_arm(name, config.arms[name])
    return arm, clearance_in(config, name, options.clearance)


def _write(path: Path, motion: FourierMotion, arm: ArmDescription) -> None:
    if path.suffix.lower() == ".csv":
        table = motion.table(motion.points(TRAJECTORY_POINTS))
        rows = (",".join(f"{value:.9g}" for value in row) for row in table)
        text = "\n".join([",".join(column_names(arm.n_joints)), *rows]) + "\n"
    else:
        data = {
            "robot": arm.robot.name,
            "joints": [joint.name for joint in arm.robot.joints],
            "period": motion.period,
            "ramp": motion.ramp,
            "periods": motion.periods,
            "q0": motion.q0.tolist(),
            "a": motion.a.tolist(),
            "b": motion.b.tolist(),
        }
        head = (
            "# q = q0 + sum_l a_l / (w l) sin(w l s) - b_l / (w l) cos(w l s), w = 2 pi / period\n"
        )
        text = head + yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=99)
    write_whole(path, text)


MOTION_CONTROLLET = "joint_trajectory"
START_TOLERANCE = 0.02
"""Tolerance of the joint positions at the start and end of a motion [rad, m], and of the
velocities at its start [rad/s, m/s]."""
APPROACH_TIMEOUT = 60.0
"""Time limit for the approach to the start of a motion [s]."""
REST_TIME = 0.2
"""Time for an arm to come to rest after a motion [s]."""


def read_motion(path: Path, name: str, arm: ArmConfig) -> Matrix:
    """Read a motion file for :meth:`.Cell.follow_trajectory`.

    Args:
        path: CSV file with columns time, q, dq and ddq.
        name: Name of the arm that executes the motion.
        arm: Configuration of this arm.

    Returns:
        Points of the motion, (p, 1 + 3 j): time [s], positions, velocities and accelerations of
        the j joints.

    Raises:
        ConfigurationError: The file is not a motion for this arm, or exceeds its limits.
    """
    joints = arm.robot.n_joints
    names = column_names(joints)
    try:
        file = io.StringIO(read_text(path, MAX_DESCRIPTION_SIZE))
        with warnings.catch_warnings():
            # numpy warns about a file without rows; the check below reports such a file.
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
    try:  # An unsuitable motion is rejected before the arm moves.
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
    """Move an arm to the start of a motion from :func:`read_motion`.

    Returns:
        Name of the ``joint_trajectory`` controllet that moves the arm.

    Raises:
        ConfigurationError: The cell has no ``joint_trajectory`` controllet of only this arm.
        LoopError: The arm does not reach the start.
    """
    law = next(
        (c.name for c in cell.controllets() if c.type == MOTION_CONTROLLET and c.arms == (arm,)),
        None,
    )
    if law is None:
        raise ConfigurationError(
            f"controllets: there is no {MOTION_CONTROLLET} of only {arm}, which the motion needs. "
            "Declare one."
        )
    cell.switch([law], strictness="force_auto", timeout=5.0)
    start = points[0, 1 : 1 + cell.state(arm).q.size]
    cell.set_target(arm, q=start)
    until = time.monotonic() + APPROACH_TIMEOUT
    while not _is_at(cell, arm, start):
        _check_motion(cell, arm, law)
        if time.monotonic() > until:
            away = np.abs(cell.state(arm).q - start).max()
            raise LoopError(
                f"{arm}: is {away:.3f} rad away from the start of the motion after "
                f"{APPROACH_TIMEOUT:g} s. Check whether an obstacle blocks its path."
            )
        time.sleep(0.05)
    return law


def follow(cell: Cell, arm: str, law: str, points: Matrix) -> None:
    """Execute a motion from :func:`read_motion` with a controllet, and wait for its end.

    Raises:
        TargetRejected: The arm cannot follow the motion.
        LoopError: The arm faults during the motion, or does not reach its end.
    """
    start = cell.state(arm).time
    cell.follow_trajectory(arm, points)
    while cell.state(arm).time < start + points[-1, 0] + REST_TIME:
        _check_motion(cell, arm, law)
        time.sleep(0.05)
    end = points[-1, 1 : 1 + cell.state(arm).q.size]
    away = np.abs(cell.state(arm).q - end).max()
    if away > START_TOLERANCE:
        raise LoopError(f"{arm}: stopped {away:.3f} rad away from the end of the motion")


def _is_at(cell: Cell, arm: str, q: Matrix) -> bool:
    state = cell.state(arm)
    return bool(
        np.abs(state.q - q).max() < START_TOLERANCE and np.abs(state.dq).max() < START_TOLERANCE
    )


def _check_motion(cell: Cell, arm: str, law: str) -> None:
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
