# SPDX-License-Identifier: Apache-2.0
"""Optimise an excitation motion for identifying inertia and friction of an arm."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

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
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError
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
    """Search for a motion and write it."""
    end_in_order()
    check_output(options.output, ".csv", ".yaml", beside=[options.cell])
    if not 0.05 <= options.limit_scale <= 1.0:
        raise ConfigurationError(f"--limit-scale: got {options.limit_scale:g}, allowed 0.05 to 1")
    if not 0.0 <= options.clearance <= 1.0:
        raise ConfigurationError(f"--clearance: got {options.clearance:g}, allowed 0 to 1 m")
    if not options.period >= 1.0 or not options.period + 2.0 * options.ramp <= MAX_DURATION:
        raise ConfigurationError(
            f"--period, --ramp: got {options.period:g} and {options.ramp:g} s, allowed a period "
            f"from 1 s and, including both ramps, up to {MAX_DURATION:g} s"
        )
    if options.harmonics > MAX_HARMONICS:
        raise ConfigurationError(
            f"--harmonics: got {options.harmonics}, allowed 1 to {MAX_HARMONICS}"
        )
    if not all(math.isfinite(angle) for rpy in options.mounting for angle in rpy):
        raise ConfigurationError(f"--mounting: got {options.mounting}, allowed finite angles")
    arm, clearance = _arm(options)
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


def _arm(options: argparse.Namespace) -> tuple[ArmDescription, Clearance]:
    """Return the arm that moves and its clearance to obstacles."""
    if options.cell in MODELS:
        if options.arm is not None:
            raise ConfigurationError(
                f"--arm: got {options.arm!r}, but {options.cell} is a single arm. Remove --arm."
            )
        arm = ArmDescription("arm", options.cell)
        return arm, Clearance(arm, options.clearance)
    if not Path(options.cell).exists():
        raise ConfigurationError(
            f"got {options.cell!r}, allowed an existing cell file, or one of {', '.join(MODELS)}"
        )
    config = CellConfig.from_yaml(options.cell)
    name = arm_of(config.arms, options.arm)
    arm = describe_arm(name, config.arms[name])
    return arm, clearance_in(config, name, options.clearance)


def _write(path: Path, motion: FourierMotion, arm: ArmDescription) -> None:
    """Write a motion as CSV or YAML, atomically."""
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
