# SPDX-License-Identifier: Apache-2.0
"""Crowd of clients that switch and list controllets and set parameters at random.

Meanwhile both arms follow streams of targets. The test checks that all requests are answered in
time, that lists agree with the cycle records of the loop, and that the arms follow their
references in every cycle.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from crowd_users import CrowdTrouble, Users, start  # noqa: E402
from crowd_watch import Watch  # noqa: E402
from parts.loop_of import loop_of  # noqa: E402

from multipanda_py.apps.bench.processes import processor_time  # noqa: E402

HERE = Path(__file__).resolve().parent
CELL = ROOT / "config" / "dual_sim.yaml"
START, END = 60.0, 20.0  # timeouts of the start and the end of the node [s]
IDLE = 5.0  # maximum time of the measurement without clients [s]
NO_CONTROLLETS = {"joint_state_broadcaster", "left/gripper", "right/gripper"}  # always listed
MAX_AGE = 0.1  # of a list, before its request [s]


class Crowd:
    """Node, clients in several processes, and a process that streams targets.

    Args:
        clients: Number of clients.
        seconds: Length of the test [s].
        patience: Maximum response time [s].

    Attributes:
        trouble: Failures, as sentences.
        times: Response times by request [s].
        refused: Number of rejected requests.
        cpu: Used cores of ROS process and loop, by phase of the test.
    """

    def __init__(self, clients: int, seconds: float, patience: float) -> None:
        self.trouble: list[str] = []
        self._clients, self._seconds, self._patience = clients, seconds, patience
        self._environment = os.environ | {
            "ROS_DOMAIN_ID": str(1 + os.getpid() % 100),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "PYTHONPATH": str(ROOT),
        }
        self._started = time.monotonic()
        self.times: dict[str, list[float]] = {}
        self.refused: Counter[str] = Counter()
        self.cpu: dict[str, tuple[float, float]] = {}
        self._watch: Watch | None = None

    def run(self) -> None:
        """Start node, stream and clients, check them, and end the node."""
        with tempfile.TemporaryFile("w+") as log:
            node = start(
                self._environment, "-P", "-m", "multipanda_py.ros.node.node", "--ros-args",
                "--params-file", CELL, "-p", f"cell.name:=crowd_{os.getpid()}",
                stdout=log, stderr=log,
            )  # fmt: skip
            try:
                self._run_clients(node.pid)
            except CrowdTrouble as trouble:
                self.trouble.append(str(trouble))
            finally:
                node.send_signal(signal.SIGINT)
                try:
                    code: object = node.wait(END)
                except subprocess.TimeoutExpired:
                    node.kill()
                    code = f"none within {END:g} s"
                log.seek(0)
                reported = log.read()
                if code or "Traceback" in reported:
                    self.trouble.append(f"exit code of the node: {code}: {reported[-2000:]}")

    def _run_clients(self, node: int) -> None:
        """Measure the idle load, run stream and clients, and check their results."""
        loop = loop_of(node, CELL, START)
        if loop is None:
            raise CrowdTrouble(f"no loop after {START:g} s")
        self._report("the node runs")
        idle = min(IDLE, self._seconds)
        self.cpu["idle"] = self._used_cores(node, loop.pid, lambda: time.sleep(idle))[1]
        stream = start(self._environment, HERE / "crowd_stream.py")
        users = Users(self._environment, self._clients, self._seconds, self._report)
        try:
            self.cpu["clients start, stream"] = self._used_cores(node, loop.pid, users.connect)[1]
            self._watch = watch = Watch(loop.rows)
            results, self.cpu["requests, stream"] = self._used_cores(node, loop.pid, users.run)
            watch.close()
            if stream.poll() is not None:
                self.trouble.append("the stream has ended")
            self._check(results, watch)
        finally:
            users.close()
            stream.kill()
            stream.wait()

    def _report(self, text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - self._started:6.1f} s] {text}\n")

    def _used_cores(
        self, node: int, loop: int, work: Callable[[], Any]
    ) -> tuple[Any, tuple[float, float]]:
        """Return the result of a function, and the used cores of ROS process and loop."""
        before = [processor_time(pid) for pid in (node, loop)]
        started = time.monotonic()
        result = work()
        elapsed = time.monotonic() - started
        after = [processor_time(pid) for pid in (node, loop)]
        of_ros, of_loop = ((b - a) / elapsed for a, b in zip(before, after))
        return result, (of_ros, of_loop)

    def _check(self, results: list[dict[str, Any]], watch: Watch) -> None:
        lists = 0
        for result in results:
            self.trouble += result["wrong"]
            self.refused.update(result["refused"])
            for kind, times in result["times"].items():
                self.times.setdefault(kind, []).extend(times)
            for started, ended, active in result["lists"]:
                lists += 1
                controllets = frozenset(active) - NO_CONTROLLETS
                if not watch.was_active(controllets, started - int(MAX_AGE * 1e9), ended):
                    self.trouble.append(
                        f"list_controllers: {sorted(controllets)} were not active at that time"
                    )
        if len(results) < self._clients or not lists:
            self.trouble.append(
                f"{len(results)} of {self._clients} clients with results, {lists} lists"
            )
        for kind, times in self.times.items():
            if max(times) > self._patience:
                self.trouble.append(f"{kind}: maximum response time {max(times):.2f} s")
        self.trouble += watch.trouble()

    def report(self) -> list[str]:
        """Return the results in Markdown."""
        lines = ["| request | number | rejected | median [ms] | 99 % [ms] | max [ms] |",
                 "|---|---|---|---|---|---|"]  # fmt: skip
        for kind, times in sorted(self.times.items()):
            p50, p99, maximum = 1e3 * np.percentile(times, [50, 99, 100])
            lines.append(f"| {kind} | {len(times)} | {self.refused[kind]} | {p50:.1f} | {p99:.1f} "
                         f"| {maximum:.1f} |")  # fmt: skip
        lines += ["", "| used cores | ROS process | loop |", "|---|---|---|"]
        lines += [f"| {name} | {ros:.2f} | {loop:.2f} |" for name, (ros, loop) in self.cpu.items()]
        if self._watch is not None:
            lines += ["", *self._watch.report()]
        return [*lines, "", *(self.trouble or ["no failures"])]


def crowd(clients: int, seconds: float, patience: float) -> int:
    """Run the crowd and print the results; return 1 after any failure."""
    test = Crowd(clients, seconds, patience)
    test.run()
    print(*test.report(), sep="\n")
    return 1 if test.trouble else 0
