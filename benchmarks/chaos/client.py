# SPDX-License-Identifier: Apache-2.0
"""Client of a running cell that measures all response times."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import rclpy
from controller_manager_msgs.srv import ListControllers, SwitchController
from ledger import Ledger
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

ANSWER = 12.0
"""Timeout of an answer [s]. A switch may request a timeout of up to 10 s."""


class Client:
    """Client of the services and topics of one cell.

    Args:
        ledger: Ledger of response times and missing answers.
        space: Namespace of the cell.

    Attributes:
        refused: Number of rejected requests by service, to compare with the count of the node.
    """

    def __init__(self, ledger: Ledger, space: str = "") -> None:
        if not rclpy.ok():
            # The handlers of run.py end the campaign.
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self.ledger, self.space = ledger, space
        self.node = rclpy.create_node("chaos_client")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._publishers: dict[str, Any] = {}
        self._latest: dict[str, Any] = {}
        self.refused: Counter[str] = Counter()

    def close(self) -> None:
        """Destroy the ROS node of the client."""
        self.executor.shutdown()
        self.node.destroy_node()

    def forget(self) -> None:
        """Destroy all service clients: a new node drops answers to undiscovered ones."""
        for client in self._clients.values():
            self.node.destroy_client(client)
        self._clients.clear()
        self.refused.clear()

    def until(self, condition: Callable[[], Any], timeout: float = ANSWER) -> bool:
        """Run callbacks until a condition holds; return False after the timeout."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.executor.spin_once(timeout_sec=0.01)
        return True

    def call(self, kind: Any, name: str, request: Any, label: str = "") -> Any:
        """Return the answer of a service. Without answer, record a failure and return None."""
        name = f"{self.space}/{name}"
        if name not in self._clients:
            self._clients[name] = client = self.node.create_client(kind, name)
            if not self.until(client.service_is_ready, 20.0):
                self.ledger.fail(label or name, "no such service")
                return None
            self.until(lambda: False, 0.5)  # the server must also discover this client
        started = time.monotonic()
        future = self._clients[name].call_async(request)
        if not self.until(future.done):
            self.ledger.fail(label or name, f"no answer within {ANSWER:g} s to {request}")
            return None
        self.ledger.times[label or kind.__name__].append(time.monotonic() - started)
        self._count(name, future.result())
        return future.result()

    def _count(self, name: str, answer: Any) -> None:
        if hasattr(answer, "results") or hasattr(answer, "result"):
            results = answer.results if hasattr(answer, "results") else [answer.result]
            self.refused["parameters"] += sum(not result.successful for result in results)
        elif not getattr(answer, "success", getattr(answer, "ok", True)):
            self.refused[name.lstrip("/")] += 1

    def trigger(self, name: str, label: str = "") -> Any:
        """Call a service without arguments."""
        return self.call(Trigger, name, Trigger.Request(), label or name.rpartition("/")[2])

    def switch(self, activate: Any, deactivate: Any = (), strictness: int = 4) -> Any:
        """Switch controllets."""
        request = SwitchController.Request(
            activate_controllers=list(activate),
            deactivate_controllers=list(deactivate),
            strictness=strictness,
        )
        return self.call(SwitchController, "controller_manager/switch_controller", request)

    def active(self, arm: str = "") -> set[str]:
        """Return the full names of the controllets that list_controllers lists as active."""
        prefix = f"{arm}/" if arm else ""
        name = f"{prefix}controller_manager/list_controllers"
        answer = self.call(ListControllers, name, ListControllers.Request())
        found = answer.controller if answer is not None else []
        others = ("joint_state_broadcaster", "gripper")
        controllets = (item for item in found if item.name.rpartition("/")[2] not in others)
        return {prefix + item.name for item in controllets if item.state == "active"}

    def publisher(self, kind: Any, topic: str) -> Any:
        """Return a publisher that has a subscriber."""
        name = f"{self.space}/{topic}"
        if name not in self._publishers:
            publisher = self.node.create_publisher(kind, name, QoSProfile(depth=100))
            self._publishers[name] = publisher
            if not self.until(publisher.get_subscription_count, 10.0):
                self.ledger.fail(topic, "no subscriber")
        return self._publishers[name]

    def newest(self, kind: Any, topic: str, timeout: float = 5.0) -> Any:
        """Return the next message of a topic, or None after the timeout."""
        name = f"{self.space}/{topic}"
        latest = self._latest.get(name)
        if latest is None:
            latest = self._latest[name] = []

            def receive(message: Any) -> None:
                latest[:] = [message]

            self.node.create_subscription(kind, name, receive, QoSProfile(depth=1))
        latest.clear()
        self.until(lambda: latest, timeout)
        return latest[0] if latest else None
