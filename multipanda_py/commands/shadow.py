# SPDX-License-Identifier: Apache-2.0
"""Let a twin follow a cell that runs, or a log, and say where they part."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from pathlib import Path

from multipanda_py.commands.options import positive
from multipanda_py.commands.output import FAILED, OK, complain, say, write_whole
from multipanda_py.commands.told_over_ros import ToldOverRos
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, ShadowRefused
from multipanda_py.logs import ArmLog, Log, read
from multipanda_py.logs.doubts import holes, mistaken
from multipanda_py.machine.interruption import end_in_order
from multipanda_py.machine.realtime import other_cpus
from multipanda_py.robots import MODELS
from multipanda_py.shadow.arm_shadow import Shadowed
from multipanda_py.shadow.band import MARGIN, Band, learn
from multipanda_py.shadow.cell_shadow import CellShadow
from multipanda_py.shadow.live import LiveRows
from multipanda_py.shadow.plot import check_output, draw_shadow

SUMMARY = "Let a twin follow a cell or a log, and warn where they part more than in good runs."

NICENESS = 15
PERIOD, LINE = 0.1, 1.0
"""Between two looks at the rows of a cell, and between two lines of text [s]."""
_KEPT = 600.0
"""Of a cell that is followed, so much is drawn at the end [s]."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("logs", metavar="LOG", nargs="*", help="one log, or several as one")
    parser.add_argument(
        "--node", metavar="CELL", nargs="?", const="",
        help="follow a cell that runs, as in a ROS node, by the name in its file; without a "
        "name: the only one that runs",
    )  # fmt: skip
    parser.add_argument(
        "--learn", action="store_true",
        help="learn the band from logs of good runs, and write it to OUT",
    )  # fmt: skip
    parser.add_argument("--band", metavar="FILE", help="the band of good runs")
    parser.add_argument(
        "--margin", type=positive, default=MARGIN, metavar="SHARE",
        help=f"by which a learnt band is wider on either side; default {MARGIN:g} of its width",
    )  # fmt: skip
    parser.add_argument(
        "--twin", metavar="CELL",
        help="the cell file that describes the twin; by default the cell as it was recorded",
    )  # fmt: skip
    parser.add_argument("--arm", metavar="ARM", help="follow this arm only")
    parser.add_argument(
        "--update", action="store_true",
        help="say what load and friction seem to be beyond the description, in free motion; "
        "nothing acts on it",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT",
        help="the band that is learnt; else a picture of both: OUT.png, .svg, .pdf, or "
        "OUT_ARM.png of several arms",
    )  # fmt: skip
    parser.add_argument(
        "--duration", type=positive, metavar="S", help="with --node: end after S seconds"
    )
    parser.add_argument(
        "--ros", action="store_true",
        help="with --node: say it in /diagnostics, and send shadow/joint_states",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Follow, and say what there is."""
    if bool(options.logs) == (options.node is not None):
        raise ConfigurationError("name logs, or --node for a cell that runs, and not both")
    if options.learn and (
        options.node is not None or options.band or options.update or options.output is None
    ):
        raise ConfigurationError("--learn is from logs, to a file: multipanda shadow --learn "
                                 "LOG ... -o band.yaml")  # fmt: skip
    if options.node is None and (options.ros or options.duration):
        raise ConfigurationError("--ros and --duration are for --node: a log has an end")
    if not options.learn and options.output is not None:
        check_output(options.output)
    band = Band.from_yaml(options.band) if options.band else None
    if options.learn:
        return _learn(options)
    return _live(options, band) if options.node is not None else _log(options, band)


def _learn(options: argparse.Namespace) -> int:
    runs: dict[str, list[Shadowed]] = {}
    arms = {}
    for path in options.logs:
        log = read(path, robot=None)
        config, named = _twin(options, log)
        shadow = CellShadow(config, arms=tuple(named))
        _doubt(shadow, named)
        shadow.follow(named)
        if strange := shadow.strangeness():
            raise ShadowRefused(f"{path}: {strange[0]}")
        arms.update(shadow.arms)
        for name, found in shadow.last.items():
            runs.setdefault(name, []).append(found)
    limits = {name: arm.limits for name, arm in arms.items()}
    band = learn(runs, limits, options.margin)
    text = f"# Band of {len(options.logs)} good runs, margin {options.margin:g}.\n"
    write_whole(options.output, text + band.to_yaml())
    seconds = min(sum(run.judged_for for run in of_arm) for of_arm in runs.values())
    say(f"{options.output}: {', '.join(band.arms)}, from {seconds:.1f} s that were judged")
    return OK


def _log(options: argparse.Namespace, band: Band | None) -> int:
    log = read(options.logs)
    config, named = _twin(options, log)
    shadow = CellShadow(config, band, tuple(named), options.update)
    _doubt(shadow, named)
    for alarm in shadow.follow(named):
        say(f"{alarm.time:9.2f} s  {alarm}")
    for line in shadow.lines():
        say(line)
    for sentence in shadow.strangeness():
        complain(f"note: {sentence}")
    _draw(options, shadow, {name: [found] for name, found in shadow.last.items()})
    return _end(shadow)


def _doubt(shadow: CellShadow, named: dict[str, ArmLog]) -> None:
    """Refuse what is not of the arms that are described; say what is lacking.

    Raises:
        ShadowRefused: Another robot, other units, swapped columns.
    """
    for name, log in named.items():
        robot = shadow.arms[name].robot.name
        found = mistaken(log, robot if robot in MODELS else None)
        if found:
            raise ShadowRefused(found[0])
        for sentence in holes(log):
            complain(f"note: {sentence}")


def _live(options: argparse.Namespace, band: Band | None) -> int:
    end_in_order()
    rows = LiveRows(options.node)
    names = (options.arm,) if options.arm else tuple(rows.config.arms)
    config = CellConfig.from_yaml(options.twin) if options.twin else rows.config
    _check_arms(config, names)
    shadow = CellShadow(config, band, names, options.update)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, other_cpus(rows.config.realtime))
    os.nice(NICENESS)
    kept: dict[str, list[Shadowed]] = {name: [] for name in names}
    begin = time.monotonic()
    until = begin + (options.duration or float("inf"))
    due = begin + LINE
    told = ToldOverRos(rows.plan.name) if options.ros else None
    say(f"following {', '.join(names)} of cell {rows.plan.name!r}")
    try:
        while time.monotonic() < until and rows.is_there:
            time.sleep(max(0.0, min(PERIOD, until - time.monotonic())))
            if logs := rows.take():
                for alarm in shadow.follow(logs):
                    complain(f"warning: {alarm}")
                for name, found in shadow.last.items() if options.output else ():
                    kept[name].append(found)
                    while kept[name][0].time[0] < found.time[-1] - _KEPT:
                        kept[name].pop(0)
                if told is not None:
                    told.say(shadow)
            if time.monotonic() >= due:
                due += LINE
                for line in shadow.lines():
                    say(line)
                for update in shadow.updates.values():
                    say(next(update.lines()))
                shadow.forget()
        if not rows.is_there:
            complain("the cell has ended")
    except KeyboardInterrupt:
        say("stopped")
    finally:
        if told is not None:
            told.close()
    if rows.dropped:
        complain(f"{rows.dropped} rows were lost: this machine has no time to follow them")
    _draw(options, shadow, kept)
    return _end(shadow)


def _twin(options: argparse.Namespace, log: Log) -> tuple[CellConfig, dict[str, ArmLog]]:
    """Return the cell that describes the twin, and the logs by the names that arms have there."""
    if options.twin:
        config = CellConfig.from_yaml(options.twin)
    elif log.cell:
        config = CellConfig.from_dict(json.loads(log.cell), "cell of the log")
    else:
        raise ShadowRefused(
            f"{log.where}: says nothing of its cell: name a cell file that describes the arm, "
            "--twin CELL"
        )
    if len(log.arms) == 1 and not set(log.arms) & set(config.arms):  # a table has no name for it
        names = [options.arm] if options.arm else list(config.arms)
        if len(names) != 1:
            raise ShadowRefused(
                f"{log.where}: which arm is it? The twin has {', '.join(names)}: --arm ARM"
            )
        named = {names[0]: next(iter(log.arms.values()))}
    elif options.arm:
        named = {options.arm: log.the_arm(options.arm)}
    else:
        named = dict(log.arms)
    _check_arms(config, tuple(named))
    return config, named


def _check_arms(config: CellConfig, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in config.arms:
            raise ShadowRefused(f"the twin has no arm {name!r}; it has {', '.join(config.arms)}")


def _draw(
    options: argparse.Namespace, shadow: CellShadow, parts: dict[str, list[Shadowed]]
) -> None:
    if options.output is None:
        return
    path: Path = options.output
    for name, found in parts.items():
        if not found:
            continue
        target = path if len(parts) == 1 else path.with_name(f"{path.stem}_{name}{path.suffix}")
        watch = shadow.watches.get(name)
        band, alarms = (watch.band, watch.alarms) if watch else (None, [])
        draw_shadow(found, target, band, alarms)
        say(f"{target}: {target.stat().st_size / 1e3:.0f} kB")


def _end(shadow: CellShadow) -> int:
    for update in shadow.updates.values():
        for line in update.lines():
            say(line)
    if shadow.skipped:
        complain(f"{shadow.skipped} samples could not be followed and were left out")
    if not shadow.watches:
        return OK
    count = len(shadow.alarms)
    if not any(watch.seen for watch in shadow.watches.values()):
        complain("nothing was judged: a twin settles for a second first")
        return FAILED
    say(f"{count} times outside the band of good runs" if count else "within the band throughout")
    return FAILED if count else OK
