# SPDX-License-Identifier: Apache-2.0
"""Run the node for long, see whether anything grows, and say why cycles were late.

Two simulated arms follow targets that another process streams at 1 kHz; laws are switched and
parameters changed every second. Once a second the memory, descriptors and threads of each process
of the node are read from /proc, and what they have in /dev/shm.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from overruns import Overruns  # noqa: E402
from parts.footprint import COLUMNS, family, growth, has_grown, name_of, sample  # noqa: E402
from parts.loop_of import loop_of  # noqa: E402

from multipanda_py.realtime.system.child_process import end_with_parent  # noqa: E402

HERE = Path(__file__).resolve().parent
CELL = ROOT / "config" / "dual_sim.yaml"
START = 40.0  # a node is up after that on the busiest machine [s]
SETTLING = 10.0  # after which figures are taken, or a fifth of the time [s]
Figures = dict[str, list[list[float]]]


class Soak:
    """A node and its user.

    Attributes:
        figures: By process and second, in the order of COLUMNS.
        overruns: Judges the loop's cycles; None before there is one.
        trouble: What went wrong, or nothing.
    """

    def __init__(self) -> None:
        self.figures: Figures = {}
        self.overruns: Overruns | None = None
        self.trouble = ""

    def run(self, minutes: float) -> None:
        """Start both, watch, and end them."""
        environment = os.environ | {
            "ROS_DOMAIN_ID": str(1 + os.getpid() % 100),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "PYTHONPATH": str(ROOT),
        }
        with tempfile.TemporaryFile("w+") as log:
            node = subprocess.Popen(
                [sys.executable, "-P", "-m", "multipanda_py.ros.node.node", "--ros-args",
                 "--params-file", str(CELL), "-p", f"cell.name:=soak_{os.getpid()}"],
                env=environment, stdout=log, stderr=log, preexec_fn=end_with_parent,
            )  # fmt: skip
            user = subprocess.Popen(
                [sys.executable, str(HERE / "soak_user.py")],
                env=environment, preexec_fn=end_with_parent,
            )  # fmt: skip
            try:
                self._watch(node, user, 60.0 * minutes)
            finally:
                if self.overruns is not None:
                    self.overruns.close()
                user.kill()
                node.send_signal(signal.SIGINT)
                code = node.wait(20.0)
                user.wait()
            if code:
                log.seek(0)
                self.trouble += f"; exit code {code}: {log.read()[-2000:]}"

    def _watch(
        self, node: subprocess.Popen[bytes], user: subprocess.Popen[bytes], seconds: float
    ) -> None:
        loop = loop_of(node.pid, CELL, START)
        if loop is None:
            self.trouble = f"no loop after {START:g} s"
            return
        self.overruns = Overruns(loop.pid, loop.cpu)
        self.overruns.start()
        begun = time.monotonic()
        settled = begun + min(SETTLING, 0.2 * seconds)
        while time.monotonic() < begun + seconds:
            time.sleep(1.0)
            if node.poll() is not None or user.poll() is not None:
                self.trouble = f"ended: node {node.poll()}, user {user.poll()}"
                return
            self.overruns.judge(loop.rows.take())
            for pid in family(node.pid) if time.monotonic() > settled else []:
                with contextlib.suppress(OSError):  # it may end just now
                    self.figures.setdefault(name_of(pid), []).append(sample(pid))

    def report(self) -> bool:
        """Print the tables; return whether all is well."""
        grown = not self.figures
        print("| process | figure | after the warm-up | at the end | largest | growth |")
        print("|---|---|---|---|---|---|")
        for name, rows in self.figures.items():
            values = np.array(rows)
            more = growth(values)
            last = np.median(values[-max(len(values) // 10, 1) :], 0)
            for column, title in enumerate(COLUMNS):
                first, largest = last[column] - more[column], values[:, column].max()
                print(f"| {name} | {title} | {first:.2f} | {last[column]:.2f} | {largest:.2f} "
                      f"| {more[column]:+.2f} |")  # fmt: skip
            grown |= has_grown(more)
        if self.overruns is not None:
            print("", *self.overruns.table(), sep="\n")
        print(self.trouble or ("something has grown" if grown else "flat"))
        return not (grown or self.trouble)

    def plot(self, file: Path) -> None:
        """Draw memory, descriptors and threads over time."""
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt

        _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(8, 6))
        for name, rows in self.figures.items():
            values = np.array(rows)
            minutes = np.arange(len(values)) / 60
            upper.plot(minutes, values[:, 0], label=name)
            lower.plot(minutes, values[:, 2], label=f"{name}: descriptors")
            lower.plot(minutes, values[:, 3], "--", label=f"{name}: threads")
        upper.set_ylabel("anonymous memory [MiB]")
        lower.set_xlabel("time [min]")
        upper.legend()
        lower.legend(fontsize="small")
        plt.savefig(file, dpi=120)


def soak(minutes: float, record: Path | None, png: Path | None) -> int:
    """Soak and report; return 1 if something has grown or ended."""
    one = Soak()
    one.run(minutes)
    well = one.report()
    if record:
        record.write_text(json.dumps(one.figures), encoding="utf-8")
    if png and one.figures:
        one.plot(png)
    return 0 if well else 1
