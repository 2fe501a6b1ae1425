# SPDX-License-Identifier: Apache-2.0
"""A client of a running cell, as any user may write one; it times every answer."""

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
"""Longest wait for an answer: a switch may take ten seconds if asked to, and is then late [s]."""


class Client:
    """Calls, messages and actions for one cell.

    Args:
        ledger: Answers that do not come are noted there.
        space: Namespace of the cell.

    Attributes:
        refused: Answers that were a no, by service, as the node should have counted them.
    """

    def __init__(self, ledger: Ledger, space: str = "") -> None:
        if not rclpy.ok():
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # they end the campaign
        self.ledger, self.space = ledger, space
        self.node = rclpy.create_node("chaos_client")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._publishers: dict[str, Any] = {}
        self._latest: dict[str, Any] = {}
        self.refused: Counter[str] = Counter()

    def close(self) -> None:
        """Go away."""
        self.executor.shutdown()
        self.node.destroy_node()

    def forget(self) -> None:
        """Create clients anew: the next node drops answers to those it does not know yet."""
        for client in self._clients.values():
            self.node.destroy_client(client)
        self._clients.clear()
        self.refused.clear()

    def until(self, condition: Callable[[], Any], timeout: float = ANSWER) -> bool:
        """Serve callbacks until a condition holds; return whether it does."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.executor.spin_once(timeout_sec=0.01)
        return True

    def ask(self, kind: Any, name: str, request: Any, what: str = "") -> Any:
        """Return the answer of a service, or None if none comes in time, which is noted."""
        name = f"{self.space}/{name}"
        if name not in self._clients:
            self._clients[name] = client = self.node.create_client(kind, name)
            if not self.until(client.service_is_ready, 20.0):
                self.ledger.fail(what or name, "there is no such service")
                return None
            self.until(lambda: False, 0.5)  # for the server to know this end, too
        begun = time.monotonic()
        future = self._clients[name].call_async(request)
        if not self.until(future.done):
            self.ledger.fail(what or name, f"no answer within {ANSWER:g} s to {request}")
            return None
        self.ledger.times[what or kind.__name__].append(time.monotonic() - begun)
        self._count(name, future.result())
        return future.result()

    def _count(self, name: str, answer: Any) -> None:
        if hasattr(answer, "results") or hasattr(answer, "result"):
            results = answer.results if hasattr(answer, "results") else [answer.result]
            self.refused["parameters"] += sum(not one.successful for one in results)
        elif not getattr(answer, "success", getattr(answer, "ok", True)):
            self.refused[name.lstrip("/")] += 1

    def trigger(self, name: str, what: str = "") -> Any:
        """Call a service without arguments."""
        return self.ask(Trigger, name, Trigger.Request(), what or name.rpartition("/")[2])

    def switch(self, activate: Any, deactivate: Any = (), strictness: int = 4) -> Any:
        """Switch controllets."""
        request = SwitchController.Request(
            activate_controllers=list(activate),
            deactivate_controllers=list(deactivate),
            strictness=strictness,
        )
        return self.ask(SwitchController, "controller_manager/switch_controller", request)

    def active(self, arm: str = "") -> set[str]:
        """Return the full names of what list_controllers calls active."""
        prefix = f"{arm}/" if arm else ""
        name = f"{prefix}controller_manager/list_controllers"
        answer = self.ask(ListControllers, name, ListControllers.Request())
        found = answer.controller if answer is not None else []
        names_only = ("joint_state_broadcaster", "gripper")
        laws = (item for item in found if item.name.rpartition("/")[2] not in names_only)
        return {prefix + item.name for item in laws if item.state == "active"}

    def publisher(self, kind: Any, topic: str) -> Any:
        """Return a publisher that has been matched."""
        name = f"{self.space}/{topic}"
        if name not in self._publishers:
            made = self.node.create_publisher(kind, name, QoSProfile(depth=100))
            self._publishers[name] = made
            if not self.until(made.get_subscription_count, 10.0):
                self.ledger.fail(topic, "nobody listens")
        return self._publishers[name]

    def newest(self, kind: Any, topic: str, timeout: float = 5.0) -> Any:
        """Return the next message of a topic, or None."""
        name = f"{self.space}/{topic}"
        box = self._latest.get(name)
        if box is None:
            box = self._latest[name] = []

            def keep(message: Any) -> None:
                box[:] = [message]

            self.node.create_subscription(kind, name, keep, QoSProfile(depth=1))
        box.clear()
        self.until(lambda: box, timeout)
        return box[0] if box else None
