# SPDX-License-Identifier: Apache-2.0
"""Identify inertia and friction of an arm, or its payload, from logs."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py.apps.commands.command_line import (
    OK,
    arm_of,
    check_output,
    complain,
    positive,
    print_line,
    write_whole,
)
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError, IdentificationRejected, UnknownName
from multipanda_py.files import replacing
from multipanda_py.identification.arm.identify import (
    FRICTION_MODELS,
    ROTOR_MODES,
    Identified,
    Options,
    identify,
)
from multipanda_py.identification.arm.payload import identify_payload
from multipanda_py.realtime.recording import Log
from multipanda_py.realtime.recording.arm_log import motion_of
from multipanda_py.realtime.recording.log import check_recording, known_robot
from multipanda_py.realtime.recording.log_reader import TABLE_SUFFIXES, read
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.realtime.recording.plots import SUFFIXES
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import pyplot
from multipanda_py.robots import DEFAULT_MODEL, MODELS, ArmDescription
from multipanda_py.robots.geometry import gravity_in_base
from multipanda_py.robots.inertial import NO_LOAD, Load, load_of, moments_of
from multipanda_py.robots.measured_files import parameters_text, with_parameters

SUMMARY = "Identify inertia and friction of an arm, or the payload at its flange, from logs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+", help="logs of one moving arm")
    parser.add_argument(
        "--robot", metavar="NAME", help=f"model of the arm, default {DEFAULT_MODEL}"
    )
    parser.add_argument(
        "--cell", metavar="CELL", help="cell file that describes the arm, instead of --robot"
    )
    parser.add_argument("--arm", metavar="ARM", help="arm, if the log or cell has several")
    parser.add_argument("--no-gripper", action="store_true", help="the arm carried no gripper")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="YAML file to write")
    parser.add_argument(
        "--load", action="store_true", help="identify only the payload beyond gripper and tool"
    )
    parser.add_argument(
        "--parameters", metavar="FILE", type=Path,
        help="known parameters of the arm, from an earlier run of this command",
    )  # fmt: skip
    parser.add_argument("--friction", choices=FRICTION_MODELS, default="coulomb")
    parser.add_argument(
        "--rotors", choices=ROTOR_MODES, default=ROTOR_MODES[0],
        help="rotor inertia. fit: identify it; known: use the model's; unseen: the torque sensors "
        "are behind the gears and do not measure it, as on a Franka; auto (default): chosen by "
        "the sensors named in the log",
    )  # fmt: skip
    parser.add_argument(
        "--cutoff", type=positive, default=5.0, metavar="HZ",
        help="cutoff frequency of the filter, default 5",
    )  # fmt: skip
    parser.add_argument(
        "--held-out", type=float, default=0.3, metavar="SHARE",
        help="fraction at the end of every motion used for testing only, default 0.3",
    )  # fmt: skip
    parser.add_argument(
        "--mounting", type=float, nargs=3, action="append", default=[], metavar=("R", "P", "Y"),
        help="orientation of the base in the world [rad]; once for all logs or once per log",
    )  # fmt: skip
    parser.add_argument(
        "--plot", metavar="PNG", type=Path, help="plot the residual torques of the models"
    )


def run(options: argparse.Namespace) -> int:
    """Identify arm or payload, print the quality of the result and write the file."""
    end_in_order()
    if not 0.05 <= options.held_out <= 0.5:
        raise ConfigurationError(f"--held-out: got {options.held_out:g}, allowed 0.05 to 0.5")
    if options.output is not None:
        check_output(options.output, beside=[*options.logs, options.cell, options.parameters])
    elif not options.load:
        raise ConfigurationError("-o: missing. Name the file to write.")
    if options.load:
        _check_load_options(options)
    if options.plot is not None:
        check_output(
            options.plot, *SUFFIXES, option="--plot", beside=[*options.logs, options.output]
        )
        pyplot()  # Fails now, not after minutes, if matplotlib is missing.
    arm, load = _arm_and_compensated_load(options)
    motions = _motions(options, arm)
    if options.load:
        return _identify_load(options, arm, motions)
    identification_options = Options(
        friction=options.friction,
        rotors=options.rotors,
        cutoff=options.cutoff,
        held_out=options.held_out,
    )
    result = identify(
        motions,
        arm,
        identification_options,
        load=load,
        progress=lambda text: complain(f"identify: {text}"),
    )
    _print_torque_errors(result)
    with replacing(options.output) as partial:
        partial.write_text(
            parameters_text(result.robot, _notes(result, options)), encoding="utf-8"
        )
        with_parameters(arm.robot, partial)
    print_line(
        f"{options.output}: written. In a cell file, perturbation: {{parameters: "
        f"{options.output}}} sets the simulated body of a twin, and identified: {options.output} "
        "the model of the controllets"
    )
    if options.plot:
        from multipanda_py.identification.plots import draw_residuals

        draw_residuals(result, options.plot)
        print_line(f"{options.plot}: residual torques of the held-out part")
    return OK


def _check_load_options(options: argparse.Namespace) -> None:
    usual = Options()
    for name, requested in (
        ("--plot", options.plot is not None),
        ("--friction", options.friction != usual.friction),
        ("--rotors", options.rotors != usual.rotors),
        ("--held-out", options.held_out != usual.held_out),
    ):
        if requested:
            raise ConfigurationError(f"{name}: not allowed with --load. Remove it.")


def _arm_and_compensated_load(options: argparse.Namespace) -> tuple[ArmDescription, Load]:
    load = NO_LOAD
    if options.cell and options.robot:
        raise ConfigurationError(
            "--robot: not allowed with --cell, because the cell names the robot. Remove --robot."
        )
    if options.cell:
        config = CellConfig.from_yaml(options.cell)
        name = arm_of(config.arms, options.arm)
        arm = describe_arm(name, config.arms[name])
        load = load_of(config.arms[name].settings)
    else:
        robot = options.robot or DEFAULT_MODEL
        if robot not in MODELS:
            raise UnknownName("--robot: model", robot, tuple(MODELS))
        arm = ArmDescription("arm", MODELS[robot])
    if options.no_gripper:
        arm = replace(arm, hand=False)
    if options.parameters:
        arm = replace(arm, model=with_parameters(arm.robot, options.parameters))
    return arm, load


def _motions(options: argparse.Namespace, arm: ArmDescription) -> list[MeasuredMotion]:
    if len(options.mounting) not in (0, 1, len(options.logs)):
        raise ConfigurationError(
            f"--mounting: given {len(options.mounting)} times, allowed once for all logs, or once "
            "per log"
        )
    if not all(math.isfinite(angle) for rpy in options.mounting for angle in rpy):
        raise ConfigurationError(f"--mounting: got {options.mounting}, allowed finite angles")
    motions = []
    for i, path in enumerate(options.logs):
        log = read(path)
        for sentence in check_recording(log):
            complain(f"note: {sentence}")
        one = log.the_arm(_arm_name_in_log(log, options))
        if known_robot(one) not in (None, arm.robot.name) and arm.robot.name in MODELS:
            raise IdentificationRejected(
                f"{path}: {one.arm} is a {one.robot}, not a {arm.robot.name}. Name the right "
                "model with --robot or --cell."
            )
        gravity = None
        if options.mounting:
            rpy = options.mounting[min(i, len(options.mounting) - 1)]
            gravity = gravity_in_base(rpy)
        motion = motion_of(one, str(path), gravity)
        # Joint names of a table are assumed, so they must not be compared with those of the arm.
        if one.robot is None and Path(path).suffix.lower() in TABLE_SUFFIXES:
            motion = replace(motion, joints=None)
        motions.append(motion)
    return motions


def _arm_name_in_log(log: Log, options: argparse.Namespace) -> str | None:
    """Return the name of the requested arm; None to use the only arm of the log."""
    requested: str | None = options.arm
    if options.cell is None or requested in log.arms:
        return requested
    known = CellConfig.from_yaml(options.cell).arms
    if requested is not None and (others := [name for name in log.arms if name in known]):
        raise IdentificationRejected(
            f"{log.source_description}: has data of {', '.join(others)}, but not of {requested}"
        )
    return None


def _print_torque_errors(result: Identified) -> None:
    print_line(f"{len(result.base)} base parameters, condition number {result.condition:.3g}")
    if result.rotors == "unseen":
        print_line("torque sensors are behind the gears: rotor inertia is that of the model")
    if result.delay:
        print_line(f"torques are delayed by {1e3 * result.delay:.2g} ms relative to positions")
    print_line(
        f"RMSE of held-out torque {'':12}" + "".join(f"{j.name:>10}" for j in result.robot.joints)
    )
    for name, rmse in result.held_out.items():
        print_line(f"  {name:34}" + "".join(f"{value:10.4f}" for value in rmse))
    better = result.held_out["consistent"] < result.held_out["datasheet"]
    if not better.all():
        names = ", ".join(result.robot.joints[k].name for k in np.flatnonzero(~better))
        complain(
            f"note: torques of {names} are predicted no better than by the datasheet. Lower "
            "--cutoff if noise is left, or record a faster motion."
        )


def _notes(notes: Identified, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "logs": [str(log) for log in options.logs],
        "friction_model": options.friction,
        "rotors": notes.rotors,
        "base_parameters": len(notes.base),
        "condition": round(notes.condition, 1),
        "torque_delay": round(notes.delay, 6),
        "held_out_rmse": {
            name: [round(float(v), 5) for v in rmse] for name, rmse in notes.held_out.items()
        },
        "base_estimates": {
            name: [float(f"{value:.5g}"), float(f"{deviation:.2g}")]
            for name, value, deviation in zip(
                notes.names, notes.estimate.values, notes.estimate.deviations
            )
        },
    }


def _identify_load(
    options: argparse.Namespace, arm: ArmDescription, motions: list[MeasuredMotion]
) -> int:
    result = identify_payload(motions, arm, options.cutoff)
    body = result.load
    inertia = moments_of(body.inertia)
    print_line(f"mass {body.mass:.4g} kg (standard deviation {result.mass_deviation:.2g})")
    deviation = ", ".join(f"{value:.2g}" for value in result.com_deviation)
    print_line(
        f"centre in the flange {np.round(body.com, 4).tolist()} m "
        f"(standard deviations {deviation})"
    )
    if result.has_inertia:
        print_line(
            f"inertia about the centre, xx yy zz xy xz yz, {np.round(inertia, 6).tolist()} kg m^2"
        )
    else:
        complain("the arm did not move, so the inertia of the payload is not identified; the "
                 "value is that of an assumed size")  # fmt: skip
    if options.output:
        section = {
            "load_mass": round(float(body.mass), 5),
            "load_com": [round(float(v), 6) for v in body.com],
            "load_inertia": [float(f"{v:.6g}") for v in inertia],
        }
        head = "# Payload beyond gripper and tool: section `franka` of an arm in a cell file.\n"
        write_whole(options.output, head + yaml.safe_dump({"franka": section}, sort_keys=False))
        print_line(f"{options.output}: load_mass, load_com and load_inertia")
    return OK
