# SPDX-License-Identifier: Apache-2.0
"""Time until ``/stop`` of a busy node is answered and in force.

The client has a real-time priority, so that its own delay is small. A loop in C with normal
priority shows the delays of the machine.

    .venv/bin/python benchmarks/stop.py --calls 200
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE / "chaos"), str(HERE.parent / "test" / "helpers")]
os.environ |= {
    "ROS_DOMAIN_ID": str(1 + os.getpid() % 100),
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
}

import rclpy  # noqa: E402
from clock_loop import ClockLoop  # noqa: E402
from controller_manager_msgs.srv import SwitchController  # noqa: E402
from floods import FLOODER  # noqa: E402
from parts.node import Node, Rows  # noqa: E402
from parts.options import count  # noqa: E402
from rcl_interfaces.srv import SetParameters  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from robots import unused_address  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from multipanda_py.simulation.fci import FciSim  # noqa: E402

LAWS = [f"{arm}/cartesian_impedance_controller" for arm in ("left", "right")]
PAUSE = 0.01  # time between two calls [s]
SWITCH_EVERY = 4  # calls, so that some calls stop active controllets
ANSWER = 10.0  # timeout of an answer [s]
STUCK = "a stuck robot, asked for settings"
FLOODS = ("flood", "flood of bad")
KINDS = ("quiet", *FLOODS, STUCK)

Found = tuple[str, tuple[list[float], list[float]], ClockLoop]


class Caller:
    """Client of a node that measures answer times."""

    def __init__(self, node: Node) -> None:
        self.node = node.client
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self.stop = self.node.create_client(Trigger, "stop")
        self.switch, self.rows = node.switcher, Rows(node)
        self.stop.wait_for_service(ANSWER)
        self.call(self.stop, Trigger.Request())  # waits for discovery by both ends

    def call(self, client: Any, request: Any) -> tuple[float, Any]:
        """Return the time of an answer [s], and the answer."""
        begin, future = time.monotonic(), client.call_async(request)
        while not future.done() and time.monotonic() - begin < ANSWER:
            self._executor.spin_once(timeout_sec=0.05)
        return time.monotonic() - begin, future.result() if future.done() else None

    def stops(self, count: int, laws: list[str]) -> tuple[list[float], list[float]]:
        """Return times until the answer, and until the first torque of the loop under hold [s]."""
        answered, in_force = [], []
        for number in range(count):
            has_switched = number % SWITCH_EVERY == 0
            if has_switched:
                requested = SwitchController.Request(activate_controllers=laws, strictness=4)
                answer = self.call(self.switch, requested)[1]
                if answer is None or not answer.ok:
                    raise RuntimeError(f"switch_controller failed: {answer}")
            since, begin = self.rows.count, time.monotonic_ns()
            duration, answer = self.call(self.stop, Trigger.Request())
            if answer is None or not answer.success:
                raise RuntimeError(f"stop failed: {answer}")
            answered.append(duration)
            time.sleep(PAUSE)
            found = self.rows.take(since)
            changes = np.flatnonzero(np.diff(found["epoch"]))
            if has_switched and len(changes):
                first = found[changes[-1] + 1]
                in_force.append((int(first["wake_ns"]) + int(first["compute_ns"]) - begin) * 1e-9)
        return answered, in_force


@contextlib.contextmanager
def flood(kind: str) -> Iterator[None]:
    """Send targets at the maximum rate, in another process."""
    if kind not in FLOODS:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flooder.py"
        file.write_text(FLOODER, encoding="utf-8")
        arguments = ["50000", "bad" if "bad" in kind else "good", "1e6"]
        with subprocess.Popen(
            [sys.executable, str(file), *arguments], stdout=subprocess.PIPE
        ) as sender:
            try:
                if sender.stdout is not None:
                    sender.stdout.readline()
                yield
            finally:
                sender.kill()


def under_load(count: int, kinds: Sequence[str]) -> Iterator[Found]:
    """Measure a node with simulated arms under each kind of load."""
    node = Node()
    try:
        caller = prioritised(Caller(node))
        for kind in kinds:
            with flood(kind), ClockLoop() as loop:
                times = caller.stops(count, LAWS)
            yield kind, times, loop
    finally:
        node.close()


def with_a_stuck_robot(count: int) -> Iterator[Found]:
    """Measure a node with two FCI robots, one of which does not answer a request for settings."""
    addresses = [unused_address(), unused_address()]
    overrides = []
    for arm, ip in zip(("left", "right"), addresses):
        overrides += [f"arms.{arm}.robot_ip:='{ip}'", f"arms.{arm}.franka.answer_budget:=0.5"]
    with FciSim(addresses[:1], lockstep=True) as stuck, FciSim(addresses[1:], lockstep=True):
        node = Node(HERE.parent / "config" / "dual_real.yaml", *overrides)
        try:
            caller = prioritised(Caller(node))
            settings = node.client.create_client(SetParameters, "left/franka/set_parameters")
            settings.wait_for_service(ANSWER)
            requested = [Parameter("load_mass", value=0.5).to_parameter_msg()]
            os.kill(stuck.process.pid, signal.SIGSTOP)
            settings.call_async(SetParameters.Request(parameters=requested))
            with ClockLoop() as loop:
                times = caller.stops(count, LAWS[1:])
            yield STUCK, times, loop
            os.kill(stuck.process.pid, signal.SIGCONT)
        finally:
            node.close()


def prioritised(caller: Caller) -> Caller:
    """Give all threads of this process a real-time priority, if this is allowed."""
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(int(task), policy, os.sched_param(10))
    return caller


def line(kind: str, times: Sequence[Sequence[float]], loop: ClockLoop) -> str:
    """Return a row of the table in Markdown [ms]."""
    cells = []
    for found in times:
        values = np.array(found) * 1e3
        p50, p99 = np.percentile(values, [50, 99])
        cells.append(f"{p50:.1f} / {p99:.1f} / {values.max():.1f}")
    return f"| {kind} | {' | '.join(cells)} | {loop.worst / 1000:.1f} |"


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=count, default=200)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    rclpy.init()
    print(
        "| `/stop`: median / 99 % / max [ms] | answered | in force | C loop, max lateness [ms] |"
    )
    print("|---|---|---|---|")
    for found in under_load(options.calls, [k for k in options.kinds if k != STUCK]):
        print(line(*found), flush=True)
    if STUCK in options.kinds:
        for found in with_a_stuck_robot(options.calls):
            print(line(*found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
