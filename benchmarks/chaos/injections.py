# SPDX-License-Identifier: Apache-2.0
"""Faults of real arms: injected into simulated robots, and signals to drivers and robots."""

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
LAW = "cartesian_impedance_controller"
RECOVERY = 30.0  # until an arm holds again, with a new driver, on a busy machine [s]
STARVED = "the loop has not run for"
JUMP = 0.05  # that no joint may exceed over a fault and a recovery [rad]

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
    """Send a line to a simulated robot's back door and return its answer."""
    with socket.create_connection((address, PORT), timeout=5.0) as door:
        door.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(door.makefile().readline())
    return answer


class Robots:
    """Two simulated robots, each in a process of its own, and a node on them."""

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
            raise RuntimeError(f"no start: {self.node.log[-2000:]}")
        topics = {arm: f"/{arm}/joint_states" for arm in self.address}
        stage.outsider.ask("arms", topics=topics, sources={})
        self._watch()
        self._driver_of_right = max(stage.processes("hardware.franka.driver"))
        ready = wait(lambda: all(self._mode(arm) == "move" for arm in self.address), 20.0)
        self.ledger.expect(ready, "start on simulated robots", "no torque control")
        received = self._until(
            lambda: all(self._owner_and_fault(arm).startswith(arm) for arm in self.address), 10.0
        )
        self.ledger.expect(received, "start on simulated robots", "not in /diagnostics")
        self._take("start on simulated robots")

    def strike(self, name: str, dice: random.Random) -> None:
        """Let a fault happen to the left arm, and recover it.

        Where the machine kept the loop from running meanwhile, which is a fault of its own of both
        arms, nothing is judged.
        """
        kind = f"fault: {name}"
        self.ledger.throw(kind)
        reported, broken = len(self.node.log), len(self.ledger.broke[kind])
        self._strike(kind, name, dice)
        if STARVED in self.node.log[reported:]:
            self.ledger.spoil(kind, broken)
            wait(self._all_back, 30.0)

    def _all_back(self) -> bool:
        recovered = self.client.trigger("error_recovery")
        taken = self.client.switch([f"{arm}/{LAW}" for arm in self.address])
        return bool(recovered and recovered.success and taken and taken.ok)

    def _strike(self, kind: str, name: str, dice: random.Random) -> None:
        self.stage.outsider.ask("mark")
        time.sleep(dice.uniform(0.0, 0.2))
        if name in FAULTS:
            for command, arguments in FAULTS[name]:
                answer = inject(self.address["left"], command, **arguments)
                self.ledger.expect(answer.get("ok", False), kind, f"not injected: {answer}")
        else:
            self._signal(*SIGNALS[name])
        if name == "gripper SIGKILL":
            return self._gripper(kind)
        faulted = self._until(lambda: self._owner_and_fault("left").startswith("fault "), 15.0)
        self.ledger.expect(faulted, kind, "no fault in /diagnostics")
        self._recover(kind)

    def _recover(self, kind: str) -> None:
        for command in ("release", "heal"):
            inject(self.address["left"], command)
        if "reboot" in kind:
            wait(lambda: inject(self.address["left"], "stats").get("running"), 5.0)
        right = self._owner_and_fault("right")
        self.ledger.expect(right == f"right/{LAW}", kind, f"right: {right}")
        begun, text, done = time.monotonic(), "", False
        while not done and time.monotonic() - begun < RECOVERY:
            answer = self.client.trigger("left/error_recovery")
            text, done = (answer.message, answer.success) if answer else ("", False)
        if not self.ledger.expect(done, kind, f"no recovery: {text}"):
            return
        held = self._until(lambda: self._owner_and_fault("left") == "left/hold", 5.0)
        self.ledger.expect(held, kind, f"recovered, then {self._owner_and_fault('left')}")
        names = self.client.active("left")
        self.ledger.expect(names == {"left/hold"}, kind, f"recovered, {names} active")
        moved = self.stage.outsider.ask("moved")
        self.ledger.expect(max(moved.values()) < JUMP, kind, f"joints moved by {moved} rad")
        self._watch()
        self._take(kind)
        self.stage.judge(kind, self.node)

    def _take(self, kind: str) -> None:
        answer = self.client.switch([f"{arm}/{LAW}" for arm in self.address])
        self.ledger.expect(answer is not None and answer.ok, kind, f"switch then: {answer}")

    def _signal(self, who: str, number: signal.Signals, seconds: float) -> None:
        robot = [self.robots["left"].process.pid]
        victims = robot if who == "robot" else self._of_left(who)
        for pid in victims:
            os.kill(pid, number)
        time.sleep(seconds)
        if number == signal.SIGSTOP:
            for pid in victims:
                os.kill(pid, signal.SIGCONT)
        if who == "robot" and number == signal.SIGKILL:
            self.robots["left"].ended()
            self.robots["left"] = self._robot("left")

    def _gripper(self, kind: str) -> None:
        """Expect that the hand is back in a while, and that the arms never noticed."""
        opened = self._until(lambda: self._opens(), 15.0)
        self.ledger.expect(opened, kind, "the hand does not come back")
        for arm in self.address:
            owner = self._owner_and_fault(arm)
            self.ledger.expect(owner == f"{arm}/{LAW}", kind, f"{arm}: {owner}")
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

    def _of_left(self, what: str) -> list[int]:
        """Return the driver of left, or the processes of its gripper."""
        if what == "gripper":
            return self.stage.processes(f"franka.gripper_process {self.address['left']}")
        drivers = self.stage.processes("hardware.franka.driver")
        return [pid for pid in drivers if pid != self._driver_of_right]

    def _watch(self) -> None:
        """Tell the watcher through which processes states come."""
        loop = self.stage.processes("realtime.process")
        sources = {arm: [*loop, self.robots[arm].process.pid] for arm in self.address}
        self.stage.outsider.ask("come_through", sources=sources)

    def _owner_and_fault(self, arm: str) -> str:
        status = self.stage.outsider.ask("statuses").get(f"{self.stage.name}/{arm}")
        if status is None:
            return "not in /diagnostics yet"
        return f"fault {status['fault']}" if status["fault"] != "none" else status["owner"]

    def _until(self, condition: Any, timeout: float) -> bool:
        return self.client.until(condition, timeout)

    def end(self) -> None:
        """End the node, then the robots."""
        kind = "end of a cell with simulated robots"
        self.node.send(signal.SIGTERM)
        self.ledger.expect(self.node.ended() == 0, kind, f"code {self.node.process.poll()}")
        for robot in self.robots.values():
            robot.send(signal.SIGINT)
            self.ledger.expect(robot.ended() == 0, kind, f"robot: {robot.log[-500:]}")
        self.stage.nothing_left(kind)
        self.stage.judge(kind, self.node, *self.robots.values())
        self.stage.outsider.ask("forget")
