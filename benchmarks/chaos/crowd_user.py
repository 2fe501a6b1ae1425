# SPDX-License-Identifier: Apache-2.0
"""Some clients of a node, each with a participant of its own: they switch, set and ask at random.

Begins when its standard input says so, and writes what it found as JSON when the time is over.
Each client has a thread, which sleeps until its answer is there: whoever looked again and again
would take the time of those that answer.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rclpy
from controller_manager_msgs.srv import ListControllers, SwitchController
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client as ServiceClient
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions

ARMS = ("left", "right")
STIFFNESS = {
    "cartesian_impedance_controller": [400.0] * 3 + [20.0] * 3,
    "joint_impedance_controller": [600.0] * 4 + [250.0, 150.0, 50.0],
}
LAWS = tuple(STIFFNESS)
OF_ARMS = [f"{arm}/{law}" for arm in ARMS for law in LAWS]
BOTH = "dual_cartesian_impedance_controller"
LOST, AGAIN = 30.0, 2.0  # no answer at all, and when the first request is sent again [s]
PAUSE = 2.0  # between two requests of a client, at most [s]
# Each client of a service hears the answers to all of them: of more than so many that it has not
# looked at it loses the oldest, which may be its own.
PROFILE = QoSProfile(depth=1000)


class Client:
    """A node that waits for one answer, or for a moment, in a thread of its own.

    It switches and asks for the whole cell, and sets parameters of one law.

    Attributes:
        found: What it was told: answer times by kind [s], lists with when they were true, refusals
            by reason, and what nobody should be told.
    """

    def __init__(self, name: str, dice: random.Random) -> None:
        self._dice, context = dice, Context()
        rclpy.init(context=context, args=[], signal_handler_options=SignalHandlerOptions.NO)
        # As the `ros2` command's: nobody asks a client for its parameters.
        node = rclpy.create_node(
            name, context=context, enable_rosout=False, start_parameter_services=False
        )
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        manager, self._law = "/controller_manager", dice.choice(OF_ARMS)
        self._clients = {
            name: node.create_client(kind, service, qos_profile=PROFILE)
            for name, kind, service in [
                ("switch", SwitchController, f"{manager}/switch_controller"),
                ("list", ListControllers, f"{manager}/list_controllers"),
                ("set", SetParameters, f"/{self._law}/set_parameters"),
            ]
        }
        self.found: dict[str, Any] = {"times": {}, "lists": [], "wrong": [], "refused": Counter()}

    def meet(self) -> None:
        """Get a first answer of each: a server drops one if it does not know the client yet."""
        for name, client in self._clients.items():
            request = client.srv_type.Request()
            if name == "switch":  # of nothing
                request.strictness = SwitchController.Request.BEST_EFFORT
            while not client.wait_for_service(LOST) or self._ask(client, request, AGAIN) is None:
                pass

    def throw(self, until: float) -> None:
        """Ask at random until a time [s]."""
        while time.monotonic() < until:
            time.sleep(self._dice.uniform(0.0, PAUSE))
            kind = self._dice.choice(("switch", "list", "set"))
            if kind == "set":
                request, is_good = self._set(self._law.partition("/")[2])
            elif kind == "switch":
                request, is_good = self._switch()
            else:
                request, is_good = ListControllers.Request(), True
            begun = time.monotonic_ns()
            answer = self._ask(self._clients[kind], request, LOST)
            ended = time.monotonic_ns()
            if answer is None:
                self.found["wrong"].append(f"no answer of {kind} within {LOST:g} s")
                continue
            self.found["times"].setdefault(kind, []).append((ended - begun) * 1e-9)
            self._judge(kind, answer, is_good, begun, ended)

    def _ask(self, client: ServiceClient, request: Any, timeout: float) -> Any:
        """Return the answer, None if none has come in time."""
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, timeout)
        if not future.done():
            client.remove_pending_request(future)
        return future.result()

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
    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(Client.meet, clients))
        print("ready", flush=True)
        sys.stdin.readline()
        until = time.monotonic() + options.seconds
        list(threads.map(lambda client: client.throw(until), clients))
    print(json.dumps([client.found for client in clients]), flush=True)


if __name__ == "__main__":
    main()
