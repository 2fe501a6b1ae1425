# SPDX-License-Identifier: Apache-2.0
"""Follow a cell that runs, by its memory or by its topics."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from typing import Protocol

from multipanda_py.commands.heard_over_ros import HeardOverRos
from multipanda_py.commands.output import complain, say
from multipanda_py.commands.shadow_output import check_arms, draw, end, write_band
from multipanda_py.commands.told_over_ros import ToldOverRos
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ShadowRefused
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.machine.interruption import end_in_order
from multipanda_py.machine.realtime import other_cpus
from multipanda_py.shadow.arm_shadow import Shadowed
from multipanda_py.shadow.band import Band
from multipanda_py.shadow.cell_shadow import CellShadow
from multipanda_py.shadow.live import LiveRows

NICENESS = 15
PERIOD, LINE = 0.1, 1.0
"""Between two looks at what arms did, and between two lines of text [s]."""
_KEPT = 600.0
"""So much is drawn, or learnt from, at the end [s]."""


class States(Protocol):
    """What arms that run do, piece by piece."""

    @property
    def dropped(self) -> int:
        """How much was lost."""

    @property
    def is_there(self) -> bool:
        """Whether more may come."""

    def take(self) -> dict[str, ArmLog]:
        """Return what they did since the last call, by name; empty if that is nothing."""


def follow_live(options: argparse.Namespace, band: Band | None) -> int:
    """Follow until the cell ends, the time is over or Ctrl-C comes."""
    end_in_order()
    if options.node is None:
        config = CellConfig.from_yaml(options.twin)
        names = (options.arm,) if options.arm else tuple(config.arms)
        check_arms(config, names)
        heard = HeardOverRos(options.topics, config, names)
        try:
            who = f"{', '.join(names)} by the topics of /{options.topics.strip('/')}"
            cell = options.topics.strip("/") or config.cell.name
            return _follow(options, heard, CellShadow(config, band, names, options.update),
                           who, cell)  # fmt: skip
        finally:
            heard.close()
    rows = LiveRows(options.node)
    names = (options.arm,) if options.arm else tuple(rows.config.arms)
    config = CellConfig.from_yaml(options.twin) if options.twin else rows.config
    check_arms(config, names)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, other_cpus(rows.config.realtime))
    os.nice(NICENESS)
    who = f"{', '.join(names)} of cell {rows.plan.name!r}"
    return _follow(options, rows, CellShadow(config, band, names, options.update), who,
                   rows.plan.name)  # fmt: skip


def _follow(
    options: argparse.Namespace, states: States, shadow: CellShadow, who: str, cell: str
) -> int:
    kept: dict[str, list[Shadowed]] = {name: [] for name in shadow.arms}
    begin = time.monotonic()
    until = begin + (options.duration or float("inf"))
    due = begin + LINE
    told = ToldOverRos(cell, options.namespace) if options.ros else None
    say(f"following {who}")
    try:
        while time.monotonic() < until and states.is_there:
            time.sleep(max(0.0, min(PERIOD, until - time.monotonic())))
            if logs := states.take():
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
        if not states.is_there:
            complain("the cell has ended" if options.node is not None else "the node has ended")
    except KeyboardInterrupt:
        say("stopped")
    finally:
        if told is not None:
            told.close()
    if states.dropped:
        complain(f"{states.dropped} rows were lost: this machine has no time to follow them")
    if options.learn:
        if strange := shadow.strangeness():
            raise ShadowRefused(strange[0])
        what = f"{who}, {time.monotonic() - begin:.0f} s"
        return write_band(options.output, kept, shadow.arms, options.margin, what)
    draw(options.output, shadow, kept)
    return end(shadow)
