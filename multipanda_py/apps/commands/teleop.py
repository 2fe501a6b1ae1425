# SPDX-License-Identifier: Apache-2.0
"""Run a cell whose arms follow a device."""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING

from multipanda_py.apps.commands.command_line import OK, complain, positive, say
from multipanda_py.cell import Cell
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.realtime.system.priority import other_cpus
from multipanda_py.realtime.system.signals import end_in_order

if TYPE_CHECKING:
    from multipanda_py.apps.teleoperation import Source

SUMMARY = "Run a cell whose arms follow a device in a hand; Ctrl-C ends it."
SOURCES = ("keyboard", "gamepad", "spacemouse", "ros", "leader")
RATES = {"leader": 30.0}
"""Of targets, unless told otherwise; of all others 50 [Hz]."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="the cell file")
    parser.add_argument("--source", choices=SOURCES, default="keyboard", help="the device")
    parser.add_argument(
        "--arm", action="append", default=[], metavar="ARM",
        help="it may move, more than once for several; by default all of the cell",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=positive, metavar="HZ",
        help="of targets, 20 to 100; by default 50, of a leader 30",
    )  # fmt: skip
    parser.add_argument(
        "--scale", type=positive, default=1.0, metavar="S", help="metres of the tool per metre"
    )
    parser.add_argument(
        "--turn-scale", type=positive, default=1.0, metavar="S", help="likewise of turns"
    )
    parser.add_argument(
        "--frame", default="", metavar="FRAME",
        help="along whose axes: tool, world or an arm's base; by default the arm's own base",
    )  # fmt: skip
    parser.add_argument(
        "--namespace", default="hand", metavar="NAME", help="of the topics of --source ros"
    )
    parser.add_argument(
        "--leader", action="append", default=[], metavar="PLACE",
        help="of --source leader: namespace and arm that leads, as /north/left; one per --arm",
    )  # fmt: skip
    parser.add_argument(
        "--feedback", type=float, default=0.0, metavar="G",
        help="share of the follower's wrench that a leader is to feel, 0 to 1; by default none",
    )  # fmt: skip
    parser.add_argument(
        "--duration", type=positive, default=math.inf, metavar="S", help="end after S seconds"
    )


def run(options: argparse.Namespace) -> int:
    """Run the cell, and move its arms by the device."""
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
            os.sched_setaffinity(0, other_cpus(cell.realtime))  # the loop's is left alone
        rate = options.rate or RATES.get(options.source, 50.0)
        teleoperator = Teleoperator(
            cell, [source], rate, options.scale, options.turn_scale, say, laws=cell.config.active
        )
        say(f"{source.name} moves {', '.join(arms)}")
        teleoperator.run(options.duration)
    except KeyboardInterrupt:
        say("ended")
    finally:
        source.close()
        cell.close()
    return OK


def _source(options: argparse.Namespace, arms: tuple[str, ...]) -> Source:
    from multipanda_py.apps.teleoperation import devices as gamepad
    from multipanda_py.apps.teleoperation import devices as keyboard
    from multipanda_py.apps.teleoperation import devices as space_mouse
    from multipanda_py.apps.teleoperation import ros_sources as leader
    from multipanda_py.apps.teleoperation import ros_sources as ros_streams

    if options.source == "leader":
        if len(options.leader) != len(arms):
            raise ConfigurationError(
                f"--leader: got {', '.join(options.leader) or 'none'}, allowed one for each of "
                f"the arms {', '.join(arms)}"
            )
        leaders = dict(zip(arms, options.leader))
        return leader.Leader(leaders, options.feedback, options.frame, say)
    if options.leader or options.feedback:
        raise ConfigurationError(
            f"--leader and --feedback: got them with --source {options.source}, allowed with "
            "--source leader"
        )
    if options.source == "ros":
        return ros_streams.RosStreams(arms, options.namespace, options.frame)
    if options.source == "gamepad":
        say(gamepad.GAMEPAD_HELP)
        return gamepad.Gamepad(arms, options.frame)
    if options.source == "spacemouse":
        say(space_mouse.SPACE_MOUSE_HELP)
        return space_mouse.SpaceMouse(arms, options.frame)
    say(keyboard.KEYBOARD_HELP)
    return keyboard.Keyboard(arms, options.frame)
