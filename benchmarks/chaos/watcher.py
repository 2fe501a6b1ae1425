# SPDX-License-Identifier: Apache-2.0
"""The outsider: a process that shares no code with the project and watches what it leaves.

It knows the processes of a campaign by a word in their environment, reads /proc and /dev/shm, and
listens to topics by a node of its own. Requests and answers are lines of JSON on standard input
and output; what is found wrong meanwhile is kept until it is asked for.
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
"""What else is published of an arm with a stamp."""
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
PAUSE = 0.01  # between looks at processes [s]
AHEAD = 0.005  # of a stamp that is nobody's rounding [s]
STILL = 0.05  # after a stop nothing is measured any more [s]


class Stamps:
    """Whether the stamps of a topic of an arm are true."""

    def __init__(self, name: str, what: str, watcher: Watcher) -> None:
        self.name, self.what, self.watcher = name, what, watcher
        self.stamp = self.oldest = 0.0
        self.messages = 0

    def take(self, message: Any) -> None:
        """Judge a message by its stamp."""
        now = time.time()
        stamp = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
        self.messages += 1
        self.oldest = max(self.oldest, now - stamp)
        if stamp > now + AHEAD:
            self.complain("future", f"stamped {stamp - now:.3f} s ahead of now")
        if stamp < self.stamp:
            self.complain("order", f"stamped {self.stamp - stamp:.3f} s before the last one")
        since = self.watcher.stopped_since(self.name)
        if since and stamp > since + STILL:
            self.complain("stopped", f"stamped {stamp - since:.3f} s after its source was stopped")
        self.stamp = stamp

    def complain(self, rule: str, text: str) -> None:
        """Keep what is wrong."""
        key, text = f"{rule} {self.what} {self.name}", f"{self.what} of {self.name}: {text}"
        self.watcher.breaches.setdefault(key, text)


class Arm(Stamps):
    """What is known of an arm: its states' stamps, where it is, and where it was."""

    def __init__(self, name: str, watcher: Watcher) -> None:
        super().__init__(name, "state", watcher)
        self.q: list[float] = []
        self.at_mark: list[float] = []
        self.moved = 0.0

    def take(self, message: JointState) -> None:
        """Judge a state, and note how far the arm is from where it was."""
        super().take(message)
        self.q = list(message.position)
        if self.at_mark:
            self.moved = max(self.moved, *(abs(a - b) for a, b in zip(self.q, self.at_mark)))


class Watcher:
    """Everything that is watched in a campaign.

    Args:
        word: ``NAME=VALUE`` in the environment of its processes.
    """

    def __init__(self, word: str) -> None:
        rclpy.init()
        self.node = rclpy.create_node(f"watcher_{word.partition('=')[2]}")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.processes = Processes(word)
        self.breaches: dict[str, str] = {}
        self.arms: dict[str, Arm] = {}
        self.sources: dict[str, list[int]] = {}
        self.statuses: dict[str, dict[str, Any]] = {}
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self.diagnose, 50)

    def diagnose(self, message: DiagnosticArray) -> None:
        """Keep the newest status of everything."""
        for status in message.status:
            self.statuses[status.hardware_id] = {
                "level": status.level[0],
                "message": status.message,
                "at": time.time(),
                **{item.key: item.value for item in status.values},
            }

    def stopped_since(self, arm: str) -> float:
        """Return since when a process that an arm's states come through is stopped, or 0."""
        found = [self.processes.look(pid) for pid in self.sources.get(arm, [])]
        return max(found, default=0.0)

    # Requests, by name.

    def do_arms(self, topics: dict[str, str], sources: dict[str, list[int]]) -> None:
        """Watch arms by their topics; what comes through stopped sources cannot be new."""
        for name, topic in topics.items():
            self.arms[name] = Arm(name, self)
            self.node.create_subscription(JointState, topic, self.arms[name].take, 50)
            space = topic.rpartition("/")[0]
            for kind, other in OTHERS.items():
                take = Stamps(name, other, self).take
                self.node.create_subscription(kind, f"{space}/{other}", take, NEWEST)
        self.sources = sources

    def do_come_through(self, sources: dict[str, list[int]]) -> None:
        """Say anew through which processes states come."""
        self.sources = sources

    def do_forget(self) -> None:
        """Watch no arms any more: their node is gone."""
        for subscription in list(self.node.subscriptions):
            if subscription.msg_type is not DiagnosticArray:
                self.node.destroy_subscription(subscription)
        self.arms, self.sources, self.statuses = {}, {}, {}

    def do_mark(self) -> None:
        """Count motion from here."""
        for arm in self.arms.values():
            arm.at_mark, arm.moved = list(arm.q), 0.0

    def do_moved(self) -> dict[str, float]:
        """Return how far joints have been from the mark at most [rad], by arm."""
        return {name: arm.moved for name, arm in self.arms.items()}

    def do_seen(self) -> dict[str, Any]:
        """Return how many states have come, and how old the oldest was on arrival [s]."""
        return {arm.name: [arm.messages, arm.oldest] for arm in self.arms.values()}

    def do_statuses(self) -> dict[str, dict[str, Any]]:
        """Return what /diagnostics said last, by hardware."""
        return self.statuses

    def do_processes(self) -> list[dict[str, Any]]:
        """Return the processes of the campaign that run."""
        return self.processes.running()

    def do_memory(self) -> list[str]:
        """Return the files of shared memory that its processes have had and that are left."""
        return sorted(name for name in self.processes.memory if (Path("/dev/shm") / name).exists())

    def do_breaches(self) -> list[str]:
        """Return what was wrong since the last time; of each kind the first."""
        found, self.breaches = list(self.breaches.values()), {}
        return found


def main() -> int:
    """Watch until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("word")
    with contextlib.suppress(OSError):  # else a busy machine makes it tell of the past
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(1))
    watcher = Watcher(parser.parse_args().word)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    print(json.dumps("ready"), flush=True)
    due = 0.0
    while True:
        watcher.executor.spin_once(timeout_sec=PAUSE)
        if time.monotonic() > due:  # not between all messages: it must keep up with them
            watcher.processes.scan()
            due = time.monotonic() + PAUSE
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
