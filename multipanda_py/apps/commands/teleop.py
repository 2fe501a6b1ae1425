# SPDX-License-Identifier: Apache-2.0
"""Run a cell whose arms follow an input device."""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING

from multipanda_py.apps.commands.command_line import OK, complain, positive, print_line
from multipanda_py.cell import Cell
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.realtime.system.scheduling import other_cpus
from multipanda_py.realtime.system.signals import end_in_order

if TYPE_CHECKING:
    from multipanda_py.apps.teleoperation import Source

SUMMARY = "Run a cell whose arms follow an input device; Ctrl-C ends it."
SOURCES = ("keyboard", "gamepad", "spacemouse", "ros", "leader")
DEFAULT_RATES = {"leader": 30.0}
"""Default rates of targets [Hz]; for the other devices it is 50 Hz."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="cell file")
    parser.add_argument("--source", choices=SOURCES, default="keyboard", help="input device")
    parser.add_argument(
        "--arm", action="append", default=[], metavar="ARM",
        help="arm that the device moves; may be repeated; default: all arms of the cell",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=positive, metavar="HZ",
        help="rate of targets, 20 to 100; default 50, for a leader 30",
    )  # fmt: skip
    parser.add_argument(
        "--scale",
        type=positive,
        default=1.0,
        metavar="S",
        help="tool translation per device translation, default 1",
    )
    parser.add_argument(
        "--rotation-scale",
        type=positive,
        default=1.0,
        metavar="S",
        help="tool rotation per device rotation, default 1",
    )
    parser.add_argument(
        "--frame", default="", metavar="FRAME",
        help="frame of the device axes: tool, world or an arm (its base); default: the arm's base",
    )  # fmt: skip
    parser.add_argument(
        "--namespace",
        default="hand",
        metavar="NAME",
        help="namespace of the topics for --source ros",
    )
    parser.add_argument(
        "--leader", action="append", default=[], metavar="PLACE",
        help="for --source leader: namespace and leading arm, such as /north/left; one per --arm",
    )  # fmt: skip
    parser.add_argument(
        "--feedback", type=float, default=0.0, metavar="G",
        help="scale of the follower's wrench on the leader, 0 to 1; default 0",
    )  # fmt: skip
    parser.add_argument(
        "--duration",
        type=positive,
        default=math.inf,
        metavar="S",
        help="end after S seconds; default: Ctrl-C",
    )


def run(options: argparse.Namespace) -> int:
    """Run the cell and move its arms with the device."""
    from multipanda_py.apps.teleoperation import Teleoperator

    cell = Cell.from_yaml(options.file)
    arms = tuple(dict.fromkeys(options.arm)) or cell.arms
    for arm in arms:
        if arm not in cell.arms:
            raise UnknownName("--arm: arm", arm, cell.arms)
    if options.frame != "tool":
        cell.frames.base_from(options.frame, arms[0])
    source = _source(options, arms)
    end_in_order()
    try:
        cell.start()
        for warning in cell.warnings:
            complain(f"warning: {warning}")
        if cell.config.cell.placement == "process":
            os.sched_setaffinity(0, other_cpus(cell.realtime))  # Do not use the loop's core.
        rate = options.rate or DEFAULT_RATES.get(options.source, 50.0)
        teleoperator = Teleoperator(
            cell,
            [source],
            rate,
            options.scale,
            options.rotation_scale,
            print_line,
            controllets=cell.config.active,
        )
        print_line(f"{source.name} moves {', '.join(arms)}")
        teleoperator.run(options.duration)
    except KeyboardInterrupt:
        print_line("ended")
    finally:
        source.close()
        cell.close()
    return OK


def _source(options: argparse.Namespace, arms: tuple[str, ...]) -> Source:
    from multipanda_py.apps.teleoperation import devices, ros_sources

    if options.source == "leader":
        if len(options.leader) != len(arms):
            raise ConfigurationError(
                f"--leader: got {', '.join(options.leader) or 'none'}, allowed one for each of "
                f"the arms {', '.join(arms)}"
            )
        leaders = dict(zip(arms, options.leader))
        return ros_sources.Leader(leaders, options.feedback, options.frame, print_line)
    if options.leader or options.feedback:
        raise ConfigurationError(
            f"--leader, --feedback: not allowed with --source {options.source}. Use "
            "--source leader."
        )
    if options.source == "ros":
        return ros_sources.RosStreams(arms, options.namespace, options.frame)
    if options.source == "gamepad":
        print_line(devices.GAMEPAD_HELP)
        return devices.Gamepad(arms, options.frame)
    if options.source == "spacemouse":
        print_line(devices.SPACE_MOUSE_HELP)
        return devices.SpaceMouse(arms, options.frame)
    print_line(devices.KEYBOARD_HELP)
    return devices.Keyboard(arms, options.frame)
