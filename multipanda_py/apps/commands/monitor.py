# SPDX-License-Identifier: Apache-2.0
"""Run a digital twin along a running cell or a log, and report deviations."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from multipanda_py.apps.commands.command_line import check_output, complain, positive, print_line
from multipanda_py.apps.commands.monitor_live import (
    check_arms,
    follow_live,
    plot_deviations,
    print_summary,
    write_band,
)
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import refuse_namespace
from multipanda_py.config.renamed_keys import with_current_keys
from multipanda_py.exceptions import ConfigurationError, MonitorRejected
from multipanda_py.identification.monitor.arm_monitor import MonitoredLog
from multipanda_py.identification.monitor.band import BAND_MARGIN, Band
from multipanda_py.identification.monitor.cell_monitor import CellMonitor
from multipanda_py.realtime.recording import ArmLog, Log, read
from multipanda_py.realtime.recording.log import check_columns, check_completeness, check_recording
from multipanda_py.realtime.recording.plots import SUFFIXES
from multipanda_py.registry import pyplot
from multipanda_py.robots import MODELS

SUMMARY = "Run a twin along a cell or a log; warn of larger deviations than in good runs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="*", help="one log, or several to combine")
    parser.add_argument(
        "--node", metavar="CELL", nargs="?", const="",
        help="follow a running cell, such as in a ROS node; CELL is the name in its file, and may "
        "be left out if only one cell runs",
    )  # fmt: skip
    parser.add_argument(
        "--topics", metavar="NAMESPACE", nargs="?", const="",
        help="follow the cell of the node with this namespace by its ROS topics, from any machine "
        "in its network; needs --twin",
    )  # fmt: skip
    parser.add_argument(
        "--learn", action="store_true",
        help="learn the band from logs of good runs or a running cell, and write it to OUT",
    )  # fmt: skip
    parser.add_argument("--band", metavar="FILE", help="band of deviations in good runs")
    parser.add_argument(
        "--margin", type=positive, default=BAND_MARGIN, metavar="FRACTION",
        help=f"widen a learnt band at each side by this fraction of its width; default "
        f"{BAND_MARGIN:g}",
    )  # fmt: skip
    parser.add_argument(
        "--twin", metavar="CELL",
        help="cell file that describes the twin; default: the cell as recorded",
    )  # fmt: skip
    parser.add_argument("--arm", metavar="ARM", help="follow only this arm")
    parser.add_argument(
        "--update", action="store_true",
        help="estimate load and friction that the cell file does not describe, in free motion; "
        "the estimates are only printed",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT",
        help="with --learn: band to write; otherwise: plot of arm and twin, OUT.png, .svg, .pdf, "
        "or OUT_ARM.png for several arms",
    )  # fmt: skip
    parser.add_argument(
        "--duration", type=positive, metavar="S", help="for a running cell: end after S seconds"
    )
    parser.add_argument(
        "--ros", action="store_true",
        help="for a running cell: publish the result on /diagnostics and twin/joint_states",
    )  # fmt: skip
    parser.add_argument(
        "--namespace", metavar="NS", default="",
        help="with --ros: namespace of node twin_monitor_CELL and twin/joint_states, needed "
        "for several cells in one network; default: none",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Run the twin along a cell or logs, and print unusual deviations between robot and twin.

    With ``--learn``, write the usual range of deviations in logs of normal operation to a file.
    """
    live = options.node is not None or options.topics is not None
    sources = (bool(options.logs), options.node is not None, options.topics is not None)
    if sum(sources) != 1:
        raise ConfigurationError(
            "source: name logs, --node for a cell that runs on this machine, or --topics for a "
            "cell in the ROS network, and only one of them"
        )
    if options.topics is not None and not options.twin:
        raise ConfigurationError(
            "--topics: needs a cell file that describes the arms. Name it with --twin CELL"
        )
    if options.learn and (options.band or options.update or options.output is None):
        raise ConfigurationError("--learn: needs good runs and an output file: multipanda monitor "
                                 "--learn LOG ... -o band.yaml")  # fmt: skip
    if not live and (options.ros or options.duration):
        raise ConfigurationError("--ros, --duration: not allowed with logs. Remove them")
    if options.namespace and not options.ros:
        raise ConfigurationError("--namespace: not allowed without --ros. Add --ros or remove it")
    refuse_namespace(options.namespace)
    if options.output is not None:
        beside = [*options.logs, options.twin, options.band]
        check_output(options.output, *(() if options.learn else SUFFIXES), beside=beside)
        if not options.learn:
            pyplot()  # Fails now, not at the end, if matplotlib is missing.
    band = Band.from_yaml(options.band) if options.band else None
    if live:
        return follow_live(options, band)
    return _learn(options) if options.learn else _log(options, band)


def _learn(options: argparse.Namespace) -> int:
    runs: dict[str, list[MonitoredLog]] = {}
    arms = {}
    for path in options.logs:
        log = read(path, robot=None)
        config, named = _twin_cell_and_logs(options, log)
        monitor = CellMonitor(config, arms=tuple(named))
        _check_log_fits_twin(monitor, log, named)
        monitor.follow(named)
        if strange := monitor.mismatches():
            raise MonitorRejected(f"{path}: {strange[0]}")
        arms.update(monitor.arms)
        for name, result in monitor.last.items():
            runs.setdefault(name, []).append(result)
    return write_band(options.output, runs, arms, options.margin, f"{len(options.logs)} good runs")


def _log(options: argparse.Namespace, band: Band | None) -> int:
    log = read(options.logs)
    config, named = _twin_cell_and_logs(options, log)
    monitor = CellMonitor(config, band, tuple(named), options.update)
    _check_log_fits_twin(monitor, log, named)
    for alarm in monitor.follow(named):
        print_line(f"{alarm.time:9.2f} s  {alarm}")
    for line in monitor.lines():
        print_line(line)
    for sentence in monitor.mismatches():
        complain(f"note: {sentence}")
    plot_deviations(
        options.output, monitor, {name: [result] for name, result in monitor.last.items()}
    )
    return print_summary(monitor)


def _check_log_fits_twin(monitor: CellMonitor, log: Log, named: dict[str, ArmLog]) -> None:
    for sentence in check_recording(log):
        complain(f"note: {sentence}")
    for name, arm in named.items():
        robot = monitor.arms[name].robot.name
        faults = check_columns(arm, robot if robot in MODELS else None)
        if not np.isfinite(arm.q).all(axis=1).any():
            faults = [f"{arm.arm}: no sample has finite positions"]
        if faults:
            raise MonitorRejected(faults[0])
        for sentence in check_completeness(arm):
            complain(f"note: {sentence}")


def _twin_cell_and_logs(
    options: argparse.Namespace, log: Log
) -> tuple[CellConfig, dict[str, ArmLog]]:
    """Return the cell of the twin, and the logs of its arms by their names in this cell."""
    if options.twin:
        config = CellConfig.from_yaml(options.twin)
    elif log.cell:
        cell = with_current_keys(json.loads(log.cell))
        if isinstance(cell, dict) and "arms" in cell:  # A twin needs only the arms.
            cell = {"arms": cell["arms"]}
        config = CellConfig.from_dict(cell, "cell of the log")
    else:
        raise MonitorRejected(
            f"{log.source_description}: does not describe its cell. Name a cell file that "
            "describes the arm with --twin CELL"
        )
    # A log without names, such as a CSV table, is of the twin's only arm or of that of --arm.
    if len(log.arms) == 1 and not set(log.arms) & set(config.arms):
        names = [options.arm] if options.arm else list(config.arms)
        if len(names) != 1:
            raise MonitorRejected(
                f"{log.source_description}: does not name its arm. Choose one of "
                f"{', '.join(names)} with --arm."
            )
        named = {names[0]: next(iter(log.arms.values()))}
    elif options.arm:
        named = {options.arm: log.the_arm(options.arm)}
    else:
        named = dict(log.arms)
    check_arms(config, tuple(named))
    return config, named
