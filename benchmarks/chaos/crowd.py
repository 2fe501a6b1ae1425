# SPDX-License-Identifier: Apache-2.0
"""Many clients at once: each switches laws, sets parameters and asks what is active, at random.

Meanwhile both arms follow targets that are streamed to them. Judged are the answers (do they come,
how soon, are lists what the loop's own rows say) and every cycle of the loop (is the tool where
the law wants it).
"""

from __future__ import annotations

import bisect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from parts.loop_of import loop_of  # noqa: E402

from multipanda_py.bench.processes import processor_time  # noqa: E402
from multipanda_py.loop.row_follower import RowFollower  # noqa: E402
from multipanda_py.machine.child import end_with_parent  # noqa: E402

HERE = Path(__file__).resolve().parent
CELL = ROOT / "config" / "dual_sim.yaml"
ARMS = ("left", "right")
START, END = 60.0, 20.0  # for the node to be up, and to be gone [s]
PER_PROCESS = 10  # clients
IDLE = 5.0  # before anybody comes [s]
SLACK = 0.1  # by which a list may be older than the request for it [s]
BEHIND = 0.02, 0.08  # of the tool, of a joint, from what the law is given [m], [rad]
FAST = 0.5  # no tool is ever [m/s]


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
        self.times: dict[str, list[float]] = {}
        self.refused: Counter[str] = Counter()
        self.cpu: dict[str, tuple[float, float]] = {}

    def run(self) -> None:
        """Start all of it, watch, and end it."""
        with tempfile.TemporaryFile("w+") as log:
            node = self._start("-P", "-m", "multipanda_py.ros.node", "--ros-args",
                               "--params-file", CELL, "-p", f"cell.name:=crowd_{os.getpid()}",
                               stdout=log, stderr=log)  # fmt: skip
            others: list[subprocess.Popen[str]] = []
            try:
                loop = loop_of(node.pid, CELL, START)
                if loop is None:
                    self.trouble.append(f"no loop after {START:g} s")
                    return
                idle = self._spent(node.pid, loop.pid, lambda: time.sleep(IDLE), IDLE)
                others += self._users()
                rows = Watch(loop.rows)
                found: list[list[dict[str, Any]]] = []
                busy = self._spent(
                    node.pid, loop.pid, lambda: found.extend(self._let_go(others)), self._seconds
                )
                rows.close()
                self.cpu = {"idle": idle, "with clients": busy}
                self._judge([one for some in found for one in some], rows)
                self.rows = rows
            finally:
                for user in others:
                    user.kill()
                    user.wait()
                node.send_signal(signal.SIGINT)
                try:
                    code: object = node.wait(END)
                except subprocess.TimeoutExpired:
                    node.kill()
                    code = f"none within {END:g} s"
                log.seek(0)
                said = log.read()
                if code or "Traceback" in said:
                    self.trouble.append(f"exit code of the node: {code}: {said[-2000:]}")

    def _start(self, *words: Any, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *map(str, words)],
            env=self._environment, text=True, preexec_fn=end_with_parent, **options,
        )  # fmt: skip

    def _users(self) -> list[subprocess.Popen[str]]:
        """Start the clients, and return when each has had its first answers."""
        stream = self._start(HERE / "crowd_stream.py")
        users = []
        for first in range(0, self._clients, PER_PROCESS):
            count = min(PER_PROCESS, self._clients - first)
            users.append(
                self._start(HERE / "crowd_user.py", "--clients", count, "--seed", first,
                            "--seconds", self._seconds,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )  # fmt: skip
        for user in users:
            if user.stdout is None or user.stdout.readline() != "ready\n":
                self.trouble.append("clients have ended before they began")
        return [*users, stream]

    def _let_go(self, others: list[subprocess.Popen[str]]) -> list[list[dict[str, Any]]]:
        """Let the clients begin, and return what each process of them has found."""
        *users, stream = others
        for user in users:
            if user.stdin is not None:
                user.stdin.write("\n")
                user.stdin.flush()
        found = [json.loads(user.stdout.readline() or "[]") for user in users if user.stdout]
        if stream.poll() is not None:
            self.trouble.append("the stream has ended")
        return found

    def _spent(self, node: int, loop: int, work: Any, seconds: float) -> tuple[float, float]:
        """Return how many cores the ROS process and the loop take during some work."""
        before = [processor_time(pid) for pid in (node, loop)]
        begun = time.monotonic()
        work()
        passed = max(time.monotonic() - begun, seconds)
        after = [processor_time(pid) for pid in (node, loop)]
        ros, law = ((b - a) / passed for a, b in zip(before, after))
        return ros, law

    def _judge(self, found: list[dict[str, Any]], rows: Watch) -> None:
        lists = 0
        for one in found:
            self.trouble += one["wrong"]
            self.refused.update(one["refused"])
            for kind, times in one["times"].items():
                self.times.setdefault(kind, []).extend(times)
            for begun, ended, active in one["lists"]:
                lists += 1
                laws = frozenset(active) - {"joint_state_broadcaster"}
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
        if self.cpu:
            lines += ["", *self.rows.report()]
        return [*lines, "", *(self.trouble or ["nothing broke"])]


class Watch(threading.Thread):
    """Follow the rows of the loop: who had which arm when, and how well it was moved."""

    def __init__(self, rows: RowFollower) -> None:
        super().__init__(daemon=True)
        self._rows, self._end = rows, threading.Event()
        self._laws = rows.controllets
        self._times: list[int] = []
        self._active: list[frozenset[str]] = []
        self.behind, self.joints_behind, self.speed = 0.0, 0.0, 0.0
        self._first = self._last = 0
        self._compute: list[NDArray[np.int64]] = []
        self.cycles = 0
        self._faults: set[int] = set()
        rows.take()
        self._dropped = rows.dropped
        self.start()

    def run(self) -> None:
        """Take what has come, 20 times a second: the ring holds four seconds."""
        while not self._end.wait(0.05):
            self._look(self._rows.take())

    def close(self) -> None:
        """Take the last, and end."""
        self._end.set()
        self.join()
        self._look(self._rows.take())

    def _look(self, rows: NDArray[np.void]) -> None:
        if not len(rows):
            return
        arms = rows["arms"]
        self.cycles += len(rows)
        self._first = self._first or int(rows["missed"][0])
        self._last = int(rows["missed"][-1])
        self._compute.append(rows["compute_ns"])
        self._faults.update(map(int, np.unique(arms["fault"])))
        owners = arms["owner"]
        for place in np.flatnonzero((np.diff(owners, axis=0, prepend=-1) != 0).any(axis=1)):
            active = frozenset(self._laws[number] for number in owners[place])
            if self._active[-1:] != [active]:
                self._times.append(int(rows["wake_ns"][place]))
                self._active.append(active)
        has_pose, has_joint = (arms["target_channels"] & bit != 0 for bit in (1, 2))
        off = np.linalg.norm(arms["target_pose"][..., :3] - arms["position_ee_in_base"], axis=-1)
        self.behind = max(self.behind, float(off[has_pose].max(initial=0.0)))
        wide = np.abs(arms["target_joint"][..., 0, :] - arms["q"]).max(axis=-1)
        only = has_joint & ~has_pose
        self.joints_behind = max(self.joints_behind, float(wide[only].max(initial=0.0)))
        speed = np.linalg.norm(arms["twist_ee_in_base"][..., :3], axis=-1)
        self.speed = max(self.speed, float(speed.max()))

    def was_active(self, laws: frozenset[str], begun: int, ended: int) -> bool:
        """Return whether these laws and no others were active at some time [ns]."""
        first = max(bisect.bisect_right(self._times, begun) - 1, 0)
        last = bisect.bisect_right(self._times, ended)
        return laws in self._active[first:last]

    def trouble(self) -> list[str]:
        """Return what is wrong with the motion."""
        found = []
        for what, size, most in (
            ("a tool was behind its reference by", self.behind, BEHIND[0]),
            ("a joint was behind its reference by", self.joints_behind, BEHIND[1]),
            ("a tool moved at", self.speed, FAST),
        ):
            if size > most:
                found.append(f"{what} {size:.3f}, allowed {most:g}")
        if self._faults - {0}:
            found.append(f"faults: {self._faults - {0}}")
        if dropped := self._rows.dropped - self._dropped:
            found.append(f"{dropped} rows were not seen")
        return found

    def report(self) -> list[str]:
        """Return what was seen, as lines."""
        compute = 1e-3 * np.concatenate(self._compute)
        p50, p99, most = np.percentile(compute, [50, 99, 100])
        return [
            f"{self.cycles} cycles, {self._last - self._first} periods missed; computed for "
            f"{p50:.0f} us (median), {p99:.0f} us (99 %), {most:.0f} us (longest)",
            f"{len(self._times)} changes of the active set; tools at most {1e3 * self.behind:.1f} "
            f"mm and joints {self.joints_behind:.3f} rad behind, at up to {self.speed:.2f} m/s",
        ]


def crowd(clients: int, seconds: float, patience: float) -> int:
    """Let the crowd in and report; return 1 if something broke."""
    one = Crowd(clients, seconds, patience)
    one.run()
    print(*one.report(), sep="\n")
    return 1 if one.trouble else 0
