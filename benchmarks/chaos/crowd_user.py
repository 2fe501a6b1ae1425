# SPDX-License-Identifier: Apache-2.0
"""Group of clients that switch and list controllets and set parameters at random.

Each client has its own participant and thread. The process starts requests after a line on
standard input, and prints the results as JSON. Threads sleep until answers arrive; polling would
take processor time from the node.
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
CONTROLLETS = tuple(STIFFNESS)
ARM_CONTROLLETS = [f"{arm}/{controllet}" for arm in ARMS for controllet in CONTROLLETS]
BOTH = "dual_cartesian_impedance_controller"
TIMEOUT, RETRY = 30.0, 2.0  # of an answer; of one to the first request, then it repeats [s]
MAX_PAUSE = 2.0  # between two requests of a client [s]
# Each client receives the answers to all clients of a service. A shorter queue could drop its own.
PROFILE = QoSProfile(depth=1000)


class Client:
    """Client that switches and lists controllets of the cell, and sets parameters of one.

    Args:
        name: Name of its ROS node.
        rng: Random generator of its requests.

    Attributes:
        found: Results: response times by request [s]; lists of active controllets with times of
            request and answer [ns]; number of rejected requests; failures.
    """

    def __init__(self, name: str, rng: random.Random) -> None:
        self._rng, context = rng, Context()
        rclpy.init(context=context, args=[], signal_handler_options=SignalHandlerOptions.NO)
        # As the `ros2` command does, without parameter services, to have fewer topics.
        node = rclpy.create_node(
            name, context=context, enable_rosout=False, start_parameter_services=False
        )
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        manager, self._controllet = "/controller_manager", rng.choice(ARM_CONTROLLETS)
        self._clients = {
            name: node.create_client(kind, service, qos_profile=PROFILE)
            for name, kind, service in [
                ("switch", SwitchController, f"{manager}/switch_controller"),
                ("list", ListControllers, f"{manager}/list_controllers"),
                ("set", SetParameters, f"/{self._controllet}/set_parameters"),
            ]
        }
        self.found: dict[str, Any] = {"times": {}, "lists": [], "wrong": [], "refused": Counter()}

    def connect(self) -> None:
        """Get a first answer of each service. Until discovery ends, servers drop answers."""
        for name, client in self._clients.items():
            request = client.srv_type.Request()
            if name == "switch":  # an empty switch
                request.strictness = SwitchController.Request.BEST_EFFORT
            while (
                not client.wait_for_service(TIMEOUT) or self._call(client, request, RETRY) is None
            ):
                pass

    def run(self, until: float) -> None:
        """Send random requests until a time (monotonic clock) [s]."""
        while time.monotonic() < until:
            time.sleep(self._rng.uniform(0.0, MAX_PAUSE))
            kind = self._rng.choice(("switch", "list", "set"))
            if kind == "set":
                request, is_valid = self._set(self._controllet.partition("/")[2])
            elif kind == "switch":
                request, is_valid = self._switch()
            else:
                request, is_valid = ListControllers.Request(), True
            started = time.monotonic_ns()
            answer = self._call(self._clients[kind], request, TIMEOUT)
            ended = time.monotonic_ns()
            if answer is None:
                self.found["wrong"].append(f"{kind}: no answer within {TIMEOUT:g} s")
                continue
            self.found["times"].setdefault(kind, []).append((ended - started) * 1e-9)
            self._check(kind, answer, is_valid, started, ended)

    def _call(self, client: ServiceClient, request: Any, timeout: float) -> Any:
        """Return the answer, or None after the timeout."""
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, timeout)
        if not future.done():
            client.remove_pending_request(future)
        return future.result()

    def _switch(self) -> tuple[Any, bool]:
        """Return a switch request, and True if it is valid."""
        rng = self._rng
        names = [f"{arm}/{rng.choice(CONTROLLETS)}" for arm in ARMS if rng.random() < 0.6]
        if rng.random() < 0.2:
            names = [BOTH]
        is_valid = rng.random() > 0.05
        if not is_valid:
            names = [*names, "left/nobody"]
        return SwitchController.Request(
            activate_controllers=names, strictness=rng.randint(1, 4)
        ), is_valid

    def _set(self, controllet: str) -> tuple[Any, bool]:
        """Return a request to set a stiffness, and True if it is valid."""
        is_valid = self._rng.random() > 0.1
        factor = self._rng.uniform(0.75, 1.25) if is_valid else float("nan")
        value = ParameterValue(
            type=ParameterType.PARAMETER_DOUBLE_ARRAY,
            double_array_value=[factor * number for number in STIFFNESS[controllet]],
        )
        return SetParameters.Request(
            parameters=[Parameter(name="stiffness", value=value)]
        ), is_valid

    def _check(self, kind: str, answer: Any, is_valid: bool, started: int, ended: int) -> None:
        found = self.found
        if kind == "list":
            active = sorted(item.name for item in answer.controller if item.state == "active")
            found["lists"].append((started, ended, active))
            return
        result = answer if kind == "switch" else answer.results[0]
        is_accepted = result.ok if kind == "switch" else result.successful
        reason = result.message if kind == "switch" else result.reason
        if not is_valid and is_accepted:
            found["wrong"].append(f"{kind}: invalid request accepted: {reason}")
        if not is_accepted and not reason:
            found["wrong"].append(f"{kind}: rejected without reason")
        found["refused"][kind] += not is_accepted


def main() -> None:
    """Run a group of clients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    name = f"crowd_{options.seed}"
    clients = [Client(f"{name}_{n}", random.Random(rng.random())) for n in range(options.clients)]
    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(Client.connect, clients))
        print("ready", flush=True)
        sys.stdin.readline()
        until = time.monotonic() + options.seconds
        list(threads.map(lambda client: client.run(until), clients))
    print(json.dumps([client.found for client in clients]), flush=True)


if __name__ == "__main__":
    main()
