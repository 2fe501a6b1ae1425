# SPDX-License-Identifier: Apache-2.0
"""Some clients of a node, each with a participant of its own: they switch, set and ask at random.

Begins when its standard input says so, and writes what it found as JSON when the time is over.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import rclpy
from controller_manager_msgs.srv import ListControllers, SwitchController
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor

ARMS = ("left", "right")
STIFFNESS = {
    "cartesian_impedance_controller": [400.0] * 3 + [20.0] * 3,
    "joint_impedance_controller": [600.0] * 4 + [250.0, 150.0, 50.0],
}
LAWS = tuple(STIFFNESS)
BOTH = "dual_cartesian_impedance_controller"
LOST, AGAIN = 30.0, 3.0  # no answer at all, and when the first request is sent again [s]
PAUSE = 0.1  # between two requests of a client, at most [s]


class Client:
    """A node that always waits for one answer, or for a moment.

    Attributes:
        found: What it was told: answer times by kind [s], lists with when they were true, refusals
            by reason, and what nobody should be told.
    """

    def __init__(self, name: str, dice: random.Random) -> None:
        self._dice, context = dice, Context()
        rclpy.init(context=context, args=[])
        node = rclpy.create_node(name, context=context, enable_rosout=False)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        manager = "/controller_manager"
        self._clients = {
            "switch": node.create_client(SwitchController, f"{manager}/switch_controller"),
            "list": node.create_client(ListControllers, f"{manager}/list_controllers"),
        } | {
            f"{arm}/{law}": node.create_client(SetParameters, f"/{arm}/{law}/set_parameters")
            for arm in ARMS for law in LAWS
        }  # fmt: skip
        self.found: dict[str, Any] = {"times": {}, "lists": [], "wrong": [], "refused": Counter()}
        self._steps = self._meet()
        self.is_ready = False

    def turn(self) -> None:
        """Serve what has come, and go one step further."""
        self._executor.spin_once(timeout_sec=0.0)
        next(self._steps)

    def begin(self) -> None:
        """Throw from now on."""
        self._steps = self._throw()

    def _meet(self) -> Iterator[None]:
        """Get a first answer of each: a server drops one if it does not know the client yet."""
        for name, client in self._clients.items():
            request = client.srv_type.Request()
            future, due = None, 0.0
            while future is None or not future.done():
                if time.monotonic() > due and client.service_is_ready():
                    if name == "switch":  # of nothing
                        request.strictness = SwitchController.Request.BEST_EFFORT
                    future, due = client.call_async(request), time.monotonic() + AGAIN
                yield
        self.is_ready = True
        while True:
            yield

    def _throw(self) -> Iterator[None]:
        while True:
            until = time.monotonic() + self._dice.uniform(0.0, PAUSE)
            while time.monotonic() < until:
                yield
            kind = name = self._dice.choice(("switch", "list", "set"))
            if kind == "set":
                name = f"{self._dice.choice(ARMS)}/{(law := self._dice.choice(LAWS))}"
                request, is_good = self._set(law)
            elif kind == "switch":
                request, is_good = self._switch()
            else:
                request, is_good = ListControllers.Request(), True
            begun = time.monotonic_ns()
            future = self._clients[name].call_async(request)
            while not future.done():
                if time.monotonic_ns() - begun > LOST * 1e9:
                    self.found["wrong"].append(f"no answer of {name} within {LOST:g} s")
                    break
                yield
            else:
                ended = time.monotonic_ns()
                self.found["times"].setdefault(kind, []).append((ended - begun) * 1e-9)
                self._judge(kind, future.result(), is_good, begun, ended)

    def _switch(self) -> tuple[Any, bool]:
        """Return a request to switch an arm, or both, and whether it can be meant."""
        dice = self._dice
        names = [f"{arm}/{dice.choice(LAWS)}" for arm in ARMS if dice.random() < 0.6]
        if dice.random() < 0.2:
            names = [BOTH]
        is_good = dice.random() > 0.05
        if not is_good:
            names = [*names, "left/nobody"]
        return SwitchController.Request(
            activate_controllers=names, strictness=dice.randint(1, 4)
        ), is_good

    def _set(self, law: str) -> tuple[Any, bool]:
        """Return a request for a stiffness, and whether it may be had."""
        is_good = self._dice.random() > 0.1
        factor = self._dice.uniform(0.75, 1.25) if is_good else float("nan")
        value = ParameterValue(
            type=ParameterType.PARAMETER_DOUBLE_ARRAY,
            double_array_value=[factor * number for number in STIFFNESS[law]],
        )
        return SetParameters.Request(
            parameters=[Parameter(name="stiffness", value=value)]
        ), is_good

    def _judge(self, kind: str, answer: Any, is_good: bool, begun: int, ended: int) -> None:
        found = self.found
        if kind == "list":
            active = sorted(one.name for one in answer.controller if one.state == "active")
            found["lists"].append((begun, ended, active))
            return
        one = answer if kind == "switch" else answer.results[0]
        is_done = one.ok if kind == "switch" else one.successful
        words = one.message if kind == "switch" else one.reason
        if not is_good and is_done:
            found["wrong"].append(f"{kind}: what cannot be was done: {words}")
        if not is_done and not words:
            found["wrong"].append(f"{kind}: refused without a word")
        found["refused"][kind] += not is_done


def main() -> None:
    """Be some clients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    name = f"crowd_{options.seed}"
    clients = [Client(f"{name}_{n}", random.Random(dice.random())) for n in range(options.clients)]
    while not all(client.is_ready for client in clients):
        turn(clients)
    print("ready", flush=True)
    sys.stdin.readline()
    for client in clients:
        client.begin()
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        turn(clients)
    print(json.dumps([client.found for client in clients]), flush=True)


def turn(clients: list[Client]) -> None:
    """Let each client take its turn."""
    for client in clients:
        client.turn()
    time.sleep(1e-3)


if __name__ == "__main__":
    main()
