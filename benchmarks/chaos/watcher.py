# SPDX-License-Identifier: Apache-2.0
"""Watcher of a campaign: a process that shares no code with the project.

It finds the processes of a campaign by a marker in their environment, reads /proc and /dev/shm,
and subscribes to topics with its own ROS node. Requests and answers are lines of JSON on standard
input and output. It stores violations of rules until they are requested.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import sys
import time
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, WrenchStamped
from proc import Processes
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

OTHERS = {PoseStamped: "current_pose", WrenchStamped: "external_wrench"}
"""Other stamped topics of an arm, by message type."""
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
PERIOD = 0.01  # of scans of processes [s]
MAX_AHEAD = 0.005  # maximum time of a stamp after its arrival, for rounding [s]
STOP_DELAY = 0.05  # maximum time of a stamp after the stop of its source [s]


class Stamps:
    """Check of the stamps of one topic of an arm."""

    def __init__(self, name: str, topic: str, watcher: Watcher) -> None:
        self.name, self.topic, self.watcher = name, topic, watcher
        self.stamp = self.oldest = 0.0
        self.messages = 0

    def receive(self, message: Any) -> None:
        """Check the stamp of a message."""
        now = time.time()
        stamp = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
        self.messages += 1
        self.oldest = max(self.oldest, now - stamp)
        if stamp > now + MAX_AHEAD:
            self.report("future", f"stamped {stamp - now:.3f} s ahead of now")
        if stamp < self.stamp:
            self.report("order", f"stamped {self.stamp - stamp:.3f} s before the last one")
        since = self.watcher.stopped_since(self.name)
        if since and stamp > since + STOP_DELAY:
            self.report("stopped", f"stamped {stamp - since:.3f} s after its source was stopped")
        self.stamp = stamp

    def report(self, rule: str, text: str) -> None:
        """Store the first violation of a rule."""
        key, text = f"{rule} {self.topic} {self.name}", f"{self.topic} of {self.name}: {text}"
        self.watcher.breaches.setdefault(key, text)


class Arm(Stamps):
    """Check of the stamps of joint states, and of the motion of an arm since a mark."""

    def __init__(self, name: str, watcher: Watcher) -> None:
        super().__init__(name, "state", watcher)
        self.q: list[float] = []
        self.at_mark: list[float] = []
        self.moved = 0.0

    def receive(self, message: JointState) -> None:
        """Check a stamp, and update the maximum motion of a joint since the mark."""
        super().receive(message)
        self.q = list(message.position)
        if self.at_mark:
            self.moved = max(self.moved, *(abs(a - b) for a, b in zip(self.q, self.at_mark)))


class Watcher:
    """Processes, arms and diagnostics of a campaign.

    Args:
        marker: ``NAME=VALUE`` in the environment of its processes.
    """

    def __init__(self, marker: str) -> None:
        rclpy.init()
        self.node = rclpy.create_node(f"watcher_{marker.partition('=')[2]}")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.processes = Processes(marker)
        self.breaches: dict[str, str] = {}
        self.arms: dict[str, Arm] = {}
        self.sources: dict[str, list[int]] = {}
        self.statuses: dict[str, dict[str, Any]] = {}
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self.diagnose, 50)

    def diagnose(self, message: DiagnosticArray) -> None:
        """Store the newest status of each hardware id."""
        for status in message.status:
            self.statuses[status.hardware_id] = {
                "level": status.level[0],
                "message": status.message,
                "at": time.time(),
                **{item.key: item.value for item in status.values},
            }

    def stopped_since(self, arm: str) -> float:
        """Return the Unix time [s] at which a process of ``sources`` was stopped, or 0."""
        times = [self.processes.stopped_since(pid) for pid in self.sources.get(arm, [])]
        return max(times, default=0.0)

    # Requests by name: do_NAME.

    def do_arms(self, topics: dict[str, str], sources: dict[str, list[int]]) -> None:
        """Subscribe to arms. ``sources`` has the processes that each arm's states pass through."""
        for name, topic in topics.items():
            self.arms[name] = Arm(name, self)
            self.node.create_subscription(JointState, topic, self.arms[name].receive, 50)
            space = topic.rpartition("/")[0]
            for kind, other in OTHERS.items():
                receive = Stamps(name, other, self).receive
                self.node.create_subscription(kind, f"{space}/{other}", receive, NEWEST)
        self.sources = sources

    def do_come_through(self, sources: dict[str, list[int]]) -> None:
        """Replace the processes that the states of arms pass through."""
        self.sources = sources

    def do_forget(self) -> None:
        """Unsubscribe from the arms of a node that has ended."""
        for subscription in list(self.node.subscriptions):
            if subscription.msg_type is not DiagnosticArray:
                self.node.destroy_subscription(subscription)
        self.arms, self.sources, self.statuses = {}, {}, {}

    def do_mark(self) -> None:
        """Measure motion from the current joint positions on."""
        for arm in self.arms.values():
            arm.at_mark, arm.moved = list(arm.q), 0.0

    def do_moved(self) -> dict[str, float]:
        """Return the maximum distance of a joint from the mark, by arm [rad]."""
        return {name: arm.moved for name, arm in self.arms.items()}

    def do_seen(self) -> dict[str, Any]:
        """Return number and maximum age of the received states [s], by arm."""
        return {arm.name: [arm.messages, arm.oldest] for arm in self.arms.values()}

    def do_statuses(self) -> dict[str, dict[str, Any]]:
        """Return the newest status in /diagnostics, by hardware id."""
        return self.statuses

    def do_processes(self) -> list[dict[str, Any]]:
        """Return the running processes of the campaign."""
        return self.processes.running()

    def do_memory(self) -> list[str]:
        """Return the remaining files of shared memory that its processes mapped."""
        return sorted(name for name in self.processes.memory if (Path("/dev/shm") / name).exists())

    def do_breaches(self) -> list[str]:
        """Return the violations since the last request: the first of each rule, topic and arm."""
        violations, self.breaches = list(self.breaches.values()), {}
        return violations


def main() -> int:
    """Serve requests until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("marker", help="NAME=VALUE in the environment of the processes")
    with contextlib.suppress(OSError):  # real-time priority, so that stamps are checked in time
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(1))
    watcher = Watcher(parser.parse_args().marker)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    print(json.dumps("ready"), flush=True)
    due = 0.0
    while True:
        watcher.executor.spin_once(timeout_sec=PERIOD)
        if time.monotonic() > due:  # a scan after each message would be too slow
            watcher.processes.scan()
            due = time.monotonic() + PERIOD
        if not selector.select(0):
            continue
        line = sys.stdin.readline()
        if not line:
            return 0
        request = json.loads(line)
        answer = getattr(watcher, f"do_{request.pop('do')}")(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
