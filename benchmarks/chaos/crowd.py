# SPDX-License-Identifier: Apache-2.0
"""Many clients at once: each switches laws, sets parameters and asks what is active, at random.

Meanwhile both arms follow targets that are streamed to them. Judged are the answers (do they come,
how soon, are lists what the loop's own rows say) and every cycle of the loop (is the tool where
the law wants it).
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
START, END = 60.0, 20.0  # for the node to be up, and to be gone [s]
IDLE = 5.0  # before anybody comes, at most as long as they ask [s]
STANDING = {"joint_state_broadcaster", "left/gripper", "right/gripper"}  # no laws
SLACK = 0.1  # by which a list may be older than the request for it [s]


class Crowd:
    """A node, some processes of clients, and a stream.

    Args:
        clients: How many.
        seconds: For how long.
        patience: How long an answer may take [s].

    Attributes:
        trouble: What went wrong.
    """

    def __init__(self, clients: int, seconds: float, patience: float) -> None:
        self.trouble: list[str] = []
        self._clients, self._seconds, self._patience = clients, seconds, patience
        self._environment = os.environ | {
            "ROS_DOMAIN_ID": str(1 + os.getpid() % 100),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "PYTHONPATH": str(ROOT),
        }
        self._begun = time.monotonic()
        self.times: dict[str, list[float]] = {}
        self.refused: Counter[str] = Counter()
        self.cpu: dict[str, tuple[float, float]] = {}
        self.rows: Watch | None = None

    def run(self) -> None:
        """Start all of it, watch, and end it."""
        with tempfile.TemporaryFile("w+") as log:
            node = start(
                self._environment, "-P", "-m", "multipanda_py.ros.node.node", "--ros-args",
                "--params-file", CELL, "-p", f"cell.name:=crowd_{os.getpid()}",
                stdout=log, stderr=log,
            )  # fmt: skip
            try:
                self._let_in(node.pid)
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

    def _let_in(self, node: int) -> None:
        """Look on while nobody is there, let the clients in, and judge what they found."""
        loop = loop_of(node, CELL, START)
        if loop is None:
            raise CrowdTrouble(f"no loop after {START:g} s")
        self._report("the node is up")
        idle = min(IDLE, self._seconds)
        self.cpu["idle"] = self._spent(node, loop.pid, lambda: time.sleep(idle))[1]
        stream = start(self._environment, HERE / "crowd_stream.py")
        users = Users(self._environment, self._clients, self._seconds, self._report)
        try:
            self.cpu["clients come, a stream"] = self._spent(node, loop.pid, users.come)[1]
            self.rows = rows = Watch(loop.rows)
            found, self.cpu["clients ask, a stream"] = self._spent(node, loop.pid, users.go)
            rows.close()
            if stream.poll() is not None:
                self.trouble.append("the stream has ended")
            self._judge(found, rows)
        finally:
            users.close()
            stream.kill()
            stream.wait()

    def _report(self, text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - self._begun:6.1f} s] {text}\n")

    def _spent(
        self, node: int, loop: int, work: Callable[[], Any]
    ) -> tuple[Any, tuple[float, float]]:
        """Return what some work returns, and the cores of ROS process and loop meanwhile."""
        before = [processor_time(pid) for pid in (node, loop)]
        begun = time.monotonic()
        found = work()
        passed = time.monotonic() - begun
        after = [processor_time(pid) for pid in (node, loop)]
        ros, law = ((b - a) / passed for a, b in zip(before, after))
        return found, (ros, law)

    def _judge(self, found: list[dict[str, Any]], rows: Watch) -> None:
        lists = 0
        for one in found:
            self.trouble += one["wrong"]
            self.refused.update(one["refused"])
            for kind, times in one["times"].items():
                self.times.setdefault(kind, []).extend(times)
            for begun, ended, active in one["lists"]:
                lists += 1
                laws = frozenset(active) - STANDING
                if not rows.was_active(laws, begun - int(SLACK * 1e9), ended):
                    self.trouble.append(f"list_controllers: {sorted(laws)} were never active then")
        if len(found) < self._clients or not lists:
            self.trouble.append(f"{len(found)} of {self._clients} clients found anything")
        for kind, times in self.times.items():
            if max(times) > self._patience:
                self.trouble.append(f"{kind}: an answer took {max(times):.2f} s")
        self.trouble += rows.trouble()

    def report(self) -> list[str]:
        """Return what was found, in Markdown."""
        lines = ["| answers | how many | refused | median [ms] | 99 % [ms] | longest [ms] |",
                 "|---|---|---|---|---|---|"]  # fmt: skip
        for kind, times in sorted(self.times.items()):
            p50, p99, longest = 1e3 * np.percentile(times, [50, 99, 100])
            lines.append(f"| {kind} | {len(times)} | {self.refused[kind]} | {p50:.1f} | {p99:.1f} "
                         f"| {longest:.1f} |")  # fmt: skip
        lines += ["", "| cores | ROS process | loop |", "|---|---|---|"]
        lines += [f"| {name} | {ros:.2f} | {loop:.2f} |" for name, (ros, loop) in self.cpu.items()]
        if self.rows is not None:
            lines += ["", *self.rows.report()]
        return [*lines, "", *(self.trouble or ["nothing broke"])]


def crowd(clients: int, seconds: float, patience: float) -> int:
    """Let the crowd in and report; return 1 if something broke."""
    one = Crowd(clients, seconds, patience)
    one.run()
    print(*one.report(), sep="\n")
    return 1 if one.trouble else 0
