# SPDX-License-Identifier: Apache-2.0
"""The whole node under load at 1 kHz, beside a C loop under the same load.

The node, a publisher of two poses at 1 kHz and the benchmark are processes of their own.
Rounds alternate: the node's loop runs, then it is stopped (SIGSTOP) and a C loop that only
wakes up takes its core and priority while messages go on. Both see the same machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from controller_manager_msgs.srv import SwitchController
from diagnostic_msgs.msg import DiagnosticArray

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parents[1] / "config" / "dual_sim.yaml"
ARMS = ("left", "right")
LAW, OTHER = "cartesian_impedance_controller", "joint_impedance_controller"


class Node:
    """The node as a process, and a client to talk to it.

    Args:
        file: Its cell.
        overrides: Of parameters in it.
    """

    def __init__(self, file: Path = CONFIG, *overrides: str) -> None:
        self.begin, self.file = time.monotonic(), file
        values = [f"cell.name:=benchmark_{os.getpid()}", *overrides]
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "multipanda_py.ros.node", "--ros-args"),
                *("--params-file", str(file)),
                *(part for value in values for part in ("-p", value)),
            ],
            stderr=subprocess.DEVNULL,
        )
        self.client = rclpy.create_node("benchmark_client")
        self.switcher = self.client.create_client(
            SwitchController, "controller_manager/switch_controller"
        )
        self.diagnostics: list[DiagnosticArray] = []
        self.client.create_subscription(
            DiagnosticArray, "/diagnostics", self.diagnostics.append, 10
        )
        if not self.switcher.wait_for_service(timeout_sec=60.0):
            raise TimeoutError("the node did not start within 60 s")
        self.start_to_active = time.monotonic() - self.begin
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        loops = [int(pid) for pid in children.read_text().split()]
        self.loop = next(
            pid for pid in loops if b"loop.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        self.fd = self._find_mailbox()

    def _find_mailbox(self) -> str:
        for entry in Path(f"/proc/{self.loop}/fd").iterdir():
            if "memfd:multipanda" in str(os.readlink(entry)):
                return str(entry)
        raise FileNotFoundError("the loop has no mailbox")

    def switch(self, activate: list[str], deactivate: list[str]) -> float:
        """Switch by the ROS service; return the delay that its answer states [s]."""
        request = SwitchController.Request(
            activate_controllers=activate, deactivate_controllers=deactivate, strictness=2
        )
        future = self.switcher.call_async(request)
        rclpy.spin_until_future_complete(self.client, future, timeout_sec=5.0)
        answer = future.result()
        if answer is None or not answer.ok:
            raise RuntimeError(f"switch refused: {getattr(answer, 'message', 'no answer')}")
        found = re.search(r"([0-9.]+) ms from request", answer.message)
        if found is None:
            raise RuntimeError(f"no delay in {answer.message!r}")
        return float(found.group(1)) * 1e-3

    def close(self) -> None:
        """End the node."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)
        self.client.destroy_node()


class Rows:
    """Read the loop's rows out of its mailbox, as any other process may."""

    def __init__(self, node: Node) -> None:
        from multipanda_py.config.cell_file import CellConfig
        from multipanda_py.loop.row_follower import RowFollower

        self._follower = RowFollower(CellConfig.from_yaml(node.file), node.fd)
        self._follower.take()

    @property
    def count(self) -> int:
        """Number of cycles so far."""
        return self._follower.seen + self._follower.waiting

    def take(self, since: int) -> np.ndarray:  # type: ignore[type-arg]
        """Return copies of the rows after the first ``since``."""
        self._follower.seen = since
        return self._follower.take()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> dict[str, float]:
    """Return resident and proportional memory of a process."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", rollup, re.MULTILINE))
    return {name.lower(): int(kib) / 1024 for name, kib in found.items()}


def build_floor(folder: str) -> str:
    """Compile the C loop."""
    program = f"{folder}/floor"
    subprocess.run(["gcc", "-O2", "-o", program, str(HERE / "floor.c")], check=True)
    return program


def benchmark(rounds: int, seconds: float, trials: int, minutes: float) -> dict[str, Any]:
    """Return lateness of loop and floor, CPU, memory, switch delays and start-up time."""
    rclpy.init()
    node = Node()
    rows = Rows(node)
    cpu, priority = max(os.sched_getaffinity(node.loop)), os.sched_getscheduler(node.loop)
    realtime = 80 if priority == os.SCHED_FIFO else 0
    load = subprocess.Popen(
        [sys.executable, str(HERE / "load.py"), *ARMS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if load.stdout is None or load.stdin is None or "ready" not in load.stdout.readline():
        raise RuntimeError("the load did not start")
    loop_late, floor_late, compute, cores = [], [], [], []
    missed = {"loop": 0, "floor": 0, "loop_cycles": 0, "floor_cycles": 0}
    with tempfile.TemporaryDirectory() as folder:
        floor = build_floor(folder)
        for number in range(rounds):
            time.sleep(0.5)
            ros_before, begin, since = cpu_seconds(node.process.pid), time.monotonic(), rows.count
            time.sleep(seconds)
            found = rows.take(since)
            cores.append((cpu_seconds(node.process.pid) - ros_before) / (time.monotonic() - begin))
            loop_late.append(found["wake_ns"] - found["deadline_ns"])
            compute.append(found["compute_ns"])
            missed["loop"] += int(found["missed"][-1] - found["missed"][0])
            missed["loop_cycles"] += len(found)
            os.kill(node.loop, signal.SIGSTOP)
            out = subprocess.run(
                [floor, str(seconds), str(cpu), str(realtime)],
                check=True, capture_output=True, text=True,
            ).stdout.split()  # fmt: skip
            os.kill(node.loop, signal.SIGCONT)
            floor_late.append(np.array(out[:-2], dtype=np.int64))
            missed["floor"] += int(out[-1])
            missed["floor_cycles"] += len(out) - 2
            sys.stderr.write(f"\rround {number + 1}/{rounds}")
            sys.stderr.flush()
    sys.stderr.write("\n")
    ros, own = memory_mib(node.process.pid), memory_mib(node.loop)
    growth = _growth(node, minutes) if minutes > 0 else None
    load.stdin.close()
    sent = float(load.stdout.readline())
    load.wait(5)
    delays = _switches(node, trials)
    node.close()
    rclpy.shutdown()
    return {
        "loop_lateness_us": _percentiles(loop_late),
        "floor_lateness_us": _percentiles(floor_late),
        "p99_ratio_median_of_rounds": float(
            np.median([np.percentile(a, 99) / np.percentile(b, 99)
                       for a, b in zip(loop_late, floor_late)])
        ),
        "compute_us": _percentiles(compute),
        "missed": missed,
        "poses_per_second_and_arm": sent,
        "ros_process_cores": float(np.median(cores)),
        "memory_mib": {"ros": ros, "loop": own},
        "memory_growth": growth,
        "start_to_active_s": node.start_to_active,
        "switch_ms": {
            "trials": trials, "mean": float(np.mean(delays)) * 1e3,
            "std": float(np.std(delays)) * 1e3, "max": float(np.max(delays)) * 1e3,
        },
    }  # fmt: skip


def _switches(node: Node, trials: int) -> list[float]:
    rng = np.random.default_rng(0)
    pair = [f"left/{LAW}"], [f"left/{OTHER}"]
    delays = []
    for trial in range(trials):
        stop, start = pair if trial % 2 == 0 else pair[::-1]
        time.sleep(float(rng.uniform(0.02, 0.05)))  # a random phase of the loop
        delays.append(node.switch(start, stop))
    return delays


def _growth(node: Node, minutes: float) -> dict[str, float]:
    def total() -> float:
        return memory_mib(node.process.pid)["rss"] + memory_mib(node.loop)["rss"]

    before = total()
    for minute in range(round(minutes)):
        time.sleep(60)
        sys.stderr.write(f"\rminute {minute + 1}/{round(minutes)}")
        sys.stderr.flush()
    sys.stderr.write("\n")
    return {"minutes": minutes, "mib": total() - before}


def _percentiles(parts: list[Any]) -> dict[str, float]:
    """Return percentiles over all rounds, in microseconds."""
    values = np.concatenate(parts) * 1e-3
    return {
        "p50": float(np.percentile(values, 50)),
        "p99": float(np.percentile(values, 99)),
        "p99.9": float(np.percentile(values, 99.9)),
        "max": float(values.max()),
    }
