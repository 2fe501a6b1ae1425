# SPDX-License-Identifier: Apache-2.0
"""A node of one's own in a program that is no node: what it hears, and what it asks."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions

from multipanda_py.exceptions import TopicLost
from multipanda_py.machine.discovery import announce_without_types
from multipanda_py.ros.qos import TARGETS
from multipanda_py.ros.running import make_executor

AGAIN = 3.0
"""After which a first question is asked once more: a server that has not yet found who asks drops
its answer [s]."""
_TURN = 0.02
_numbers = itertools.count()


class HeardTopic:
    """The newest message of a topic, which is read when it is asked for.

    Args:
        node: Subscribes.
        kind: Type of the messages.
        topic: Name.
        stale: How old the newest may be [s].
        qos: Best effort by default, which every publisher matches.

    Attributes:
        name: In full.
        count: Messages so far.

    Thread: any.
    """

    def __init__(
        self, node: Any, kind: type, topic: str, stale: float, qos: QoSProfile = TARGETS
    ) -> None:
        self.name, self.stale, self.count = node.resolve_topic_name(topic), stale, 0
        self._kind, self._newest, self._read = kind, (b"", -1e9), (b"", None)
        node.create_subscription(kind, topic, self._take, qos, raw=True)

    def _take(self, raw: bytes) -> None:
        self._newest, self.count = (raw, time.monotonic()), self.count + 1

    @property
    def heard(self) -> float:
        """When the newest message came, by the monotonic clock [s]."""
        return self._newest[1]

    @property
    def is_new(self) -> bool:
        """Whether the newest message is new enough."""
        return bool(self.count) and time.monotonic() - self.heard <= self.stale

    def check(self) -> None:
        """Raise if there is nothing new enough.

        Raises:
            TopicLost: With the name of the topic.
        """
        if not self.count:
            raise TopicLost(f"{self.name}: nothing heard yet")
        if (silence := time.monotonic() - self.heard) > self.stale:
            raise TopicLost(
                f"{self.name}: nothing heard for {silence:.2f} s, allowed {self.stale:g} s"
            )

    def message(self) -> Any:
        """Return the newest message.

        Raises:
            TopicLost: If it is too old, or none has come, or it cannot be read.
        """
        self.check()
        raw = self._newest[0]
        if raw is not self._read[0]:
            try:
                self._read = raw, deserialize_message(raw, self._kind)
            except RuntimeError as error:  # RMWError, which has no public name
                raise TopicLost(f"{self.name}: got no readable message ({error})") from None
        return self._read[1]


class ClientLink:
    """A node in a context of its own, so that the program's rclpy, if it has one, is left alone.

    Topics, clients and publishers are made before :meth:`start`; from then on a thread serves.

    Args:
        name: Of the node, before a number.

    Attributes:
        node: The node.
    """

    def __init__(self, name: str) -> None:
        announce_without_types()
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node: Any = rclpy.create_node(
            f"{name}_{os.getpid()}_{next(_numbers)}", context=self._context, enable_rosout=False,
            start_parameter_services=False,
        )  # fmt: skip
        self._executor = make_executor(self._context)
        self._executor.add_node(self.node)
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._clients: dict[str, Any] = {}
        self._known: set[str] = set()

    def start(self) -> None:
        """Serve in a thread from now on; again is the same."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True, name="ros")
            self._thread.start()

    def hear(self, kind: type, topic: str, stale: float, qos: QoSProfile = TARGETS) -> HeardTopic:
        """Subscribe."""
        return HeardTopic(self.node, kind, topic, stale, qos)

    def client(self, kind: Any, name: str) -> None:
        """Make a client of a service, to be asked by :meth:`call`."""
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)

    def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait for a condition, and return whether it holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                return False
            if self._thread is None:
                self._executor.spin_once(timeout_sec=_TURN)
            else:
                time.sleep(_TURN / 4)
        return True

    def call(self, name: str, request: Any, timeout: float) -> Any:
        """Ask a service, whose request may be made twice.

        Raises:
            TopicLost: If it is not there, or does not answer in time.
        """
        client = self._clients[name]
        if not self.until(client.service_is_ready, timeout):
            raise TopicLost(f"service {name}: not there within {timeout:g} s")
        future = client.call_async(request)
        if name not in self._known:
            self._known.add(name)
            if not self.until(future.done, min(AGAIN, timeout)):
                future = client.call_async(request)
        if not self.until(future.done, timeout):
            client.remove_pending_request(future)
            raise TopicLost(f"service {name}: no answer within {timeout:g} s")
        return future.result()

    def close(self) -> None:
        """Leave the network; safe to call twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._executor.spin_once(timeout_sec=0.1)
