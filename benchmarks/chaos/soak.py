# SPDX-License-Identifier: Apache-2.0
"""Long run of a node: growth of memory, descriptors and threads, and causes of late cycles.

Two simulated arms follow targets that another process streams at 1 kHz. Every second this process
also switches controllets and sets parameters. The test reads memory, descriptors, threads and
shared memory of the node's processes once a second.
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
START = 40.0  # timeout of the start of a node on a busy machine [s]
WARM_UP = 10.0  # before the first sample, at most a fifth of the run [s]
Figures = dict[str, list[list[float]]]


class Soak:
    """Node, client, and samples of their resources.

    Attributes:
        figures: Samples by process, one per second, in the order of COLUMNS.
        overruns: Causes of late cycles of the loop; None until the loop runs.
        trouble: Failure, or an empty text.
    """

    def __init__(self) -> None:
        self.figures: Figures = {}
        self.overruns: Overruns | None = None
        self.trouble = ""

    def run(self, minutes: float) -> None:
        """Start node and client, sample them, and end them."""
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
            self.trouble = f"no loop within {START:g} s"
            return
        self.overruns = Overruns(loop.pid, loop.cpu)
        self.overruns.start()
        started = time.monotonic()
        warm = started + min(WARM_UP, 0.2 * seconds)
        while time.monotonic() < started + seconds:
            time.sleep(1.0)
            if node.poll() is not None or user.poll() is not None:
                self.trouble = (
                    f"process ended; exit codes: node {node.poll()}, client {user.poll()}"
                )
                return
            self.overruns.judge(loop.rows.take())
            for pid in family(node.pid) if time.monotonic() > warm else []:
                with contextlib.suppress(OSError):  # the process may end meanwhile
                    self.figures.setdefault(name_of(pid), []).append(sample(pid))

    def report(self) -> bool:
        """Print the tables; return True without growth and failures."""
        grown = not self.figures
        print("| process | quantity | after the warm-up | at the end | max | growth |")
        print("|---|---|---|---|---|---|")
        for name, samples in self.figures.items():
            values = np.array(samples)
            increase = growth(values)
            last = np.median(values[-max(len(values) // 10, 1) :], 0)
            for column, title in enumerate(COLUMNS):
                first, maximum = last[column] - increase[column], values[:, column].max()
                print(f"| {name} | {title} | {first:.2f} | {last[column]:.2f} | {maximum:.2f} "
                      f"| {increase[column]:+.2f} |")  # fmt: skip
            grown |= has_grown(increase)
        if self.overruns is not None:
            print("", *self.overruns.table(), sep="\n")
        print(self.trouble or ("FAILED: growth" if grown else "no growth"))
        return not (grown or self.trouble)

    def plot(self, file: Path) -> None:
        """Plot memory, descriptors and threads over time."""
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt

        _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(8, 6))
        for name, samples in self.figures.items():
            values = np.array(samples)
            minutes = np.arange(len(values)) / 60
            upper.plot(minutes, values[:, 0], label=name)
            lower.plot(minutes, values[:, 2], label=f"{name}: descriptors")
            lower.plot(minutes, values[:, 3], "--", label=f"{name}: threads")
        upper.set_ylabel("anonymous memory [MiB]")
        lower.set_ylabel("number")
        lower.set_xlabel("time [min]")
        upper.legend()
        lower.legend(fontsize="small")
        plt.savefig(file, dpi=120)


def soak(minutes: float, record: Path | None, png: Path | None) -> int:
    """Run the test and print the results; return 1 after growth or the end of a process."""
    test = Soak()
    test.run(minutes)
    passed = test.report()
    if record:
        record.write_text(json.dumps(test.figures), encoding="utf-8")
    if png and test.figures:
        test.plot(png)
    return 0 if passed else 1
