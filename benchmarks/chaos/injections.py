# SPDX-License-Identifier: Apache-2.0
"""Faults of real arms: faults of simulated robots, and signals to robots, drivers and grippers."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from typing import Any

from client import Client
from stage import HERE, Program, Stage, wait

PORT = 7331
CONTROLLET = "cartesian_impedance_controller"
RECOVERY = 30.0  # timeout of a recovery with a new driver on a busy machine [s]
LOOP_DELAYED = "the loop has not run for"
MAX_MOTION = 0.05  # of a joint during a fault and its recovery [rad]

FAULTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "reflex": [("reflex", {})],
    "user stop": [("user_stop", {})],
    "guiding": [("guiding", {})],
    "20 commands lost": [("drop", {"commands": 20})],
    "dead UDP": [("kill_udp", {})],
    "dead TCP": [("kill_tcp", {})],
    "reboot": [("reboot", {"seconds": 0.3})],
    "two errors at once": [("fault", {"errors": ["joint_reflex", "cartesian_reflex"]})],
    "motion ended by the robot": [("end_motion", {"status": "preempted"})],
}
SIGNALS = {
    "driver SIGKILL": ("driver", signal.SIGKILL, 0.0),
    "driver SIGTERM": ("driver", signal.SIGTERM, 0.0),
    "driver SIGSTOP 1 s": ("driver", signal.SIGSTOP, 1.0),
    "robot SIGSTOP 1.5 s": ("robot", signal.SIGSTOP, 1.5),
    "robot SIGKILL and restart": ("robot", signal.SIGKILL, 0.0),
    "gripper SIGKILL": ("gripper", signal.SIGKILL, 0.0),
}


def inject(address: str, command: str, **arguments: Any) -> dict[str, Any]:
    """Send a command to the injection port of a simulated robot; return the answer."""
    with socket.create_connection((address, PORT), timeout=5.0) as connection:
        connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(connection.makefile().readline())
    return answer


class Robots:
    """Two simulated robots, each in its own process, and a node that runs them."""

    def __init__(self, stage: Stage, client: Client) -> None:
        self.stage, self.client, self.ledger = stage, client, stage.ledger
        base = 10 + os.getpid() % 200
        self.address = {"left": f"127.0.{base}.1", "right": f"127.0.{base}.2"}
        self.robots = {arm: self._robot(arm) for arm in self.address}
        self.node = stage.node(
            HERE / "real.yaml",
            *(f"arms.{arm}.robot_ip:='{address}'" for arm, address in self.address.items()),
        )
        if not self.node.logs("is active"):
            raise RuntimeError(f"the node did not start: {self.node.log[-2000:]}")
        topics = {arm: f"/{arm}/joint_states" for arm in self.address}
        stage.watcher.request("arms", topics=topics, sources={})
        self._watch()
        self._driver_of_right = max(stage.processes("hardware.franka.driver"))
        ready = wait(lambda: all(self._mode(arm) == "move" for arm in self.address), 20.0)
        self.ledger.expect(ready, "start on simulated robots", "robots do not receive torques")
        received = self._until(
            lambda: all(self._owner_and_fault(arm).startswith(arm) for arm in self.address), 10.0
        )
        self.ledger.expect(received, "start on simulated robots", "arms are not in /diagnostics")
        self._switch("start on simulated robots")

    def run_fault(self, name: str, rng: random.Random) -> None:
        """Inject a fault into the left arm, and recover it.

        If the machine delays the loop meanwhile, both arms have another fault. The case is void.
        """
        kind = f"fault: {name}"
        self.ledger.count(kind)
        log_length, failures = len(self.node.log), len(self.ledger.broke[kind])
        self._run_fault(kind, name, rng)
        if LOOP_DELAYED in self.node.log[log_length:]:
            self.ledger.void(kind, failures)
            wait(self._recover_all, 30.0)

    def _recover_all(self) -> bool:
        recovered = self.client.trigger("error_recovery")
        switched = self.client.switch([f"{arm}/{CONTROLLET}" for arm in self.address])
        return bool(recovered and recovered.success and switched and switched.ok)

    def _run_fault(self, kind: str, name: str, rng: random.Random) -> None:
        self.stage.watcher.request("mark")
        time.sleep(rng.uniform(0.0, 0.2))
        if name in FAULTS:
            for command, arguments in FAULTS[name]:
                answer = inject(self.address["left"], command, **arguments)
                self.ledger.expect(answer.get("ok", False), kind, f"not injected: {answer}")
        else:
            self._signal(*SIGNALS[name])
        if name == "gripper SIGKILL":
            return self._check_gripper(kind)
        faulted = self._until(lambda: self._owner_and_fault("left").startswith("fault "), 15.0)
        self.ledger.expect(faulted, kind, "no fault in /diagnostics")
        self._recover(kind)

    def _recover(self, kind: str) -> None:
        for command in ("release", "heal"):
            inject(self.address["left"], command)
        if "reboot" in kind:
            wait(lambda: inject(self.address["left"], "stats").get("running"), 5.0)
        right = self._owner_and_fault("right")
        self.ledger.expect(right == f"right/{CONTROLLET}", kind, f"right: {right}")
        started, text, done = time.monotonic(), "", False
        while not done and time.monotonic() - started < RECOVERY:
            answer = self.client.trigger("left/error_recovery")
            text, done = (answer.message, answer.success) if answer else ("", False)
        if not self.ledger.expect(done, kind, f"no recovery: {text}"):
            return
        held = self._until(lambda: self._owner_and_fault("left") == "left/hold", 5.0)
        self.ledger.expect(held, kind, f"owner after recovery: {self._owner_and_fault('left')}")
        names = self.client.active("left")
        self.ledger.expect(names == {"left/hold"}, kind, f"active after recovery: {names}")
        moved = self.stage.watcher.request("moved")
        self.ledger.expect(max(moved.values()) < MAX_MOTION, kind, f"joints moved by {moved} rad")
        self._watch()
        self._switch(kind)
        self.stage.judge(kind, self.node)

    def _switch(self, kind: str) -> None:
        answer = self.client.switch([f"{arm}/{CONTROLLET}" for arm in self.address])
        self.ledger.expect(answer is not None and answer.ok, kind, f"switch after it: {answer}")

    def _signal(self, role: str, number: signal.Signals, seconds: float) -> None:
        robot = [self.robots["left"].process.pid]
        victims = robot if role == "robot" else self._processes_of_left(role)
        for pid in victims:
            os.kill(pid, number)
        time.sleep(seconds)
        if number == signal.SIGSTOP:
            for pid in victims:
                os.kill(pid, signal.SIGCONT)
        if role == "robot" and number == signal.SIGKILL:
            self.robots["left"].ended()
            self.robots["left"] = self._robot("left")

    def _check_gripper(self, kind: str) -> None:
        """Check that the gripper opens again, and that the owners of the arms did not change."""
        opened = self._until(lambda: self._opens(), 15.0)
        self.ledger.expect(opened, kind, "the gripper does not recover")
        for arm in self.address:
            owner = self._owner_and_fault(arm)
            self.ledger.expect(owner == f"{arm}/{CONTROLLET}", kind, f"{arm}: {owner}")
        self.stage.judge(kind, self.node)

    def _opens(self) -> bool:
        answer = self.client.trigger("left/gripper/open")
        return bool(answer and answer.success)

    def _robot(self, arm: str) -> Program:
        program = Program(self.stage, f"robot_{arm}", "multipanda_py.apps.cli", "fci-sim",
                          self.address[arm], "--lockstep")  # fmt: skip
        wait(lambda: self._mode(arm), 20.0)
        return program

    def _mode(self, arm: str) -> str:
        try:
            return str(inject(self.address[arm], "stats").get("mode", ""))
        except (OSError, ValueError):
            return ""

    def _processes_of_left(self, role: str) -> list[int]:
        """Return the ids of the driver of `left`, or of the processes of its gripper."""
        if role == "gripper":
            return self.stage.processes(f"franka.gripper_process {self.address['left']}")
        drivers = self.stage.processes("hardware.franka.driver")
        return [pid for pid in drivers if pid != self._driver_of_right]

    def _watch(self) -> None:
        """Send the watcher the processes that the states of each arm pass through."""
        loop = self.stage.processes("realtime.process")
        sources = {arm: [*loop, self.robots[arm].process.pid] for arm in self.address}
        self.stage.watcher.request("come_through", sources=sources)

    def _owner_and_fault(self, arm: str) -> str:
        status = self.stage.watcher.request("statuses").get(f"{self.stage.name}/{arm}")
        if status is None:
            return "not in /diagnostics yet"
        return f"fault {status['fault']}" if status["fault"] != "none" else status["owner"]

    def _until(self, condition: Any, timeout: float) -> bool:
        return self.client.until(condition, timeout)

    def end(self) -> None:
        """End the node, then the robots; check for remains."""
        kind = "end of a cell with simulated robots"
        self.node.send(signal.SIGTERM)
        self.ledger.expect(self.node.ended() == 0, kind, f"code {self.node.process.poll()}")
        for robot in self.robots.values():
            robot.send(signal.SIGINT)
            self.ledger.expect(robot.ended() == 0, kind, f"robot: {robot.log[-500:]}")
        self.stage.nothing_left(kind)
        self.stage.judge(kind, self.node, *self.robots.values())
        self.stage.watcher.request("forget")
