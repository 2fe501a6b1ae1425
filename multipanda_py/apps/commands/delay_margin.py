# SPDX-License-Identifier: Apache-2.0
"""Compute bandwidth and delay margin of the controllets of a cell."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from multipanda_py.apps.commands.command_line import OK, print_line
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.control.delay_margin import MAX_DELAY_CYCLES, Probe, linearise
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.realtime.startup import build_loop, start_loop
from multipanda_py.state import COMMAND_INTERFACES, Vector

SUMMARY = "Compute bandwidth and delay margin of a cell's controllets, without moving anything."
LIMIT_MARGIN = 0.3
"""Minimum distance of random configurations from the joint limits [rad]."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", metavar="CELL", help="cell file")
    parser.add_argument(
        "--controllet", metavar="NAME", action="append",
        help="controllet, such as left/impedance; may be repeated; default: all",
    )  # fmt: skip
    path = parser.add_mutually_exclusive_group()
    path.add_argument(
        "--configuration", metavar="Q", type=float, nargs="+",
        help="joint positions of every arm [rad]; default: q_start of the cell file",
    )  # fmt: skip
    path.add_argument(
        "--random", metavar="N", type=_count, help="report the worst of N random configurations"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random configurations")
    parser.add_argument(
        "--lag", type=_positive_or_zero, default=0.002, metavar="S",
        help="time constant of the torque control of the robot [s], default 0.002",
    )  # fmt: skip
    parser.add_argument(
        "--inertia", type=_scale, default=0.8, metavar="X",
        help="inertia of the arms relative to their models, default 0.8",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(options: argparse.Namespace) -> int:
    """Print one line per controllet with its bandwidth and delay margin."""
    rows = list(_margins_and_bandwidths(CellConfig.from_yaml(options.cell), options))
    if options.json:
        print_line(json.dumps(rows, indent=2))
        return OK
    print_line(
        f"stable up to this delay, with a torque lag of {1e3 * options.lag:g} ms "
        f"and {options.inertia:g} times the inertia:"
    )
    width = max(len(row["controllet"]) for row in rows)
    for row in rows:
        margin = row["delay_margin_ms"]
        text = "unstable even without delay" if margin is None else f"{margin:5.1f} ms"
        if margin is not None and margin >= row["longest_ms"]:
            text += " or more"
        if row["taken_ms"]:
            text += f", of which the backend uses {row['taken_ms']:.1f} ms"
            if margin is not None and margin < row["taken_ms"]:
                text += ": unstable with this backend"
        print_line(f"  {row['controllet']:{width}}  {row['bandwidth']:6.1f} 1/s  {text}")
    return OK


def _margins_and_bandwidths(
    config: CellConfig, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    unconnected = config.model_copy(
        update={
            "arms": {
                name: arm.model_copy(update={"backend": "mock"})
                for name, arm in config.arms.items()
            }
        }
    )
    specs = instance_specs(unconnected)
    known = [spec.name for spec in specs]
    torque = [
        s.name for s in specs if s.controllet_class.command_interface == COMMAND_INTERFACES[0]
    ]
    desired = options.controllet or torque
    for name in desired:
        if name not in known:
            raise UnknownName("controllet", name, known)
        if name not in torque:
            raise ConfigurationError(
                f"controllet: {name} commands no torques, so the robot closes the control loop. "
                "Choose a controllet with torque commands."
            )
    loop = build_loop(unconnected, specs, Mailbox(unconnected, specs))
    period = 1.0 / config.cell.rate
    try:
        start_loop(loop, [], warm_up=2)
        for instance in loop.instances:
            if instance.spec.name not in desired:
                continue
            arms = [loop.arms[arm] for arm in instance.spec.arms]
            probe = Probe(
                [arm.state for arm in arms], [arm.model for arm in arms], instance.tau,
                instance.activate, instance.update,
            )  # fmt: skip
            results = [
                (around.bandwidth, around.delay_margin(options.lag, options.inertia, period), q)
                for q in _configurations(config, instance.spec.arms, options)
                for around in [linearise(probe, q)]
            ]
            _, min_value, worst = min(results, key=lambda row: (row[1], -row[0]))
            kinds = [list(config.arms.values())[arm].backend for arm in instance.spec.arms]
            taken = max(find_backend(kind).response_cycles for kind in kinds)
            yield {
                "controllet": instance.spec.name,
                "type": instance.spec.config.type,
                "bandwidth": max(row[0] for row in results),
                "delay_margin_ms": None if min_value < 0 else 1e3 * period * min_value,
                "taken_ms": 1e3 * period * taken,
                "longest_ms": 1e3 * period * MAX_DELAY_CYCLES,
                "posture": worst.tolist(),
            }
    finally:
        loop.close()


def _configurations(
    config: CellConfig, indices: tuple[int, ...], options: argparse.Namespace
) -> Iterator[Vector]:
    """Yield random, given or start positions of all joints of the arms, (n,) [rad]."""
    named = [list(config.arms.items())[index] for index in indices]
    arms = [arm for _, arm in named]
    if options.random:
        rng = np.random.default_rng(options.seed)
        low, high = (
            np.concatenate([arm.robot.limits.span[side] for arm in arms]) for side in (0, 1)
        )
        for _ in range(options.random):
            yield rng.uniform(low + LIMIT_MARGIN, high - LIMIT_MARGIN)
        return
    if options.configuration is None:
        yield np.concatenate([arm.q_start for arm in arms])
        return
    q = np.array(options.configuration)
    for name, arm in named:
        limits = arm.robot.limits
        if len(q) != limits.n_joints:
            raise ConfigurationError(
                f"--configuration: got {len(q)} numbers, allowed {limits.n_joints}, one per joint "
                f"of {name}"
            )
        for joint in range(limits.n_joints):
            unit = limits.unit(joint)
            if not limits.lower[joint] <= q[joint] <= limits.upper[joint]:
                raise ConfigurationError(
                    f"--configuration: joint {joint + 1} of {name}: got {q[joint]:g} {unit}, "
                    f"allowed [{limits.lower[joint]:g}, {limits.upper[joint]:g}] {unit}"
                )
    yield np.tile(q, len(arms))


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a whole number from 1 to 10000")
    return int(text)


def _positive_or_zero(text: str) -> float:
    return _bounded(text, 0.0, 0.1)


def _scale(text: str) -> float:
    return _bounded(text, 0.1, 10.0)


def _bounded(text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed {low:g} to {high:g}")
    return value
