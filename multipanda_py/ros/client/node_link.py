# SPDX-License-Identifier: Apache-2.0
"""A node of one's own in a program that is no node: it hears others, and asks things of them."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions

from multipanda_py.exceptions import TargetRejected, TopicLost
from multipanda_py.realtime.system.dds import announce_without_types, refuse_domain
from multipanda_py.ros.client.service_call import Answer, Call
from multipanda_py.ros.node.conversions import read_message
from multipanda_py.ros.node.qos import TARGETS
from multipanda_py.ros.node.running import make_executor


class HeardTopic:
    """The newest message of a topic, which is read when it is asked for.

    Args:
        node: Subscribes.
        kind: Type of the messages.
        topic: Name.
        stale: How old the newest may be [s].
        read: Makes of a message what :meth:`message` returns; may refuse it.
        qos: Best effort by default, which every publisher matches.

    Attributes:
        name: In full.
        count: Messages so far.

    Thread: any.
    """

    def __init__(
        self,
        node: Any,
        kind: type,
        topic: str,
        stale: float = math.inf,
        read: Callable[[bytes], Any] | None = None,
        qos: QoSProfile = TARGETS,
    ) -> None:
        self.name, self.stale, self.count = node.resolve_topic_name(topic), stale, 0
        self._newest, self._last = (b"", -1e9), (b"", None)
        self._read = read or partial(read_message, kind)
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
        if raw is not self._last[0]:
            try:
                self._last = raw, self._read(raw)
            except TargetRejected as error:
                raise TopicLost(f"{self.name}: {error}") from None
        return self._last[1]


TURN = 0.05
"""Longest wait for an event before calls are looked at that may have to be sent again [s]."""
AGAIN = 3.0
"""A server may drop its first answer to somebody whom it does not know yet [s]."""
ANSWERS = QoSProfile(depth=100)
"""Fast DDS sends every answer of a service to all of its clients."""
ENDS = 10.0
"""For the thread to end [s]."""
_LOOK = 0.005
_numbers = itertools.count()


def name_of_own(name: str) -> str:
    """Return a name for a node that no other one of this machine has."""
    return f"{name}_{os.getpid()}_{next(_numbers)}"


class NodeLink:
    """A participant of the middleware, its node and the thread that serves it.

    It has a context of its own, so that the program's rclpy, if it has one, is left alone.
    Subscriptions, publishers and clients are made before :meth:`start`.

    Args:
        name: Of the node.

    Attributes:
        node: To subscribe and publish with.

    Thread: any, once it serves; before, one.
    """

    def __init__(self, name: str) -> None:
        refuse_domain()
        announce_without_types()
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node(
            name, context=self._context, enable_rosout=False, start_parameter_services=False,
            parameter_overrides=[Parameter("start_type_description_service", value=False)],
        )  # fmt: skip
        self._executor = make_executor(self._context)
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._known: set[str] = set()
        self._open: list[Call[Any]] = []
        self._opening = threading.Lock()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Serve in a thread from now on; again is the same."""
        if self._thread.ident is None:
            # A thread that waits within the middleware has Python abort at the program's end.
            atexit.register(self.close)
            self._thread.start()

    def hear(
        self,
        kind: type,
        topic: str,
        stale: float = math.inf,
        read: Callable[[bytes], Any] | None = None,
        qos: QoSProfile = TARGETS,
    ) -> HeardTopic:
        """Subscribe: see :class:`.HeardTopic`."""
        return HeardTopic(self.node, kind, topic, stale, read, qos)

    def offer(self, kind: Any, service: str) -> None:
        """Make ready to call a service."""
        self._clients[service] = self.node.create_client(kind, service, qos_profile=ANSWERS)

    def not_found(self) -> list[str]:
        """Return the services that nobody offers, as far as is known."""
        return [name for name, one in self._clients.items() if not one.service_is_ready()]

    def is_found(self, service: str) -> bool:
        """Return whether somebody offers a service."""
        return bool(self._clients[service].service_is_ready())

    def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait for a condition, and return whether it holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                return False
            if self._thread.ident is None:
                self._serve(_LOOK)
            else:
                time.sleep(_LOOK)
        return True

    def need(
        self, missing: Callable[[], list[str]], patience: float, what: str, hint: str = ""
    ) -> None:
        """Wait until nothing is missing.

        Raises:
            TopicLost: With what is, and the words.
        """
        if not self.until(lambda: not missing(), patience):
            raise TopicLost(f"{', '.join(missing())}: {what} within {patience:g} s{hint}")

    def call(
        self,
        service: str,
        request: Any,
        read: Callable[[Any], Answer],
        patience: float = 10.0,
        again: float = 0.0,
        most: float = math.inf,
    ) -> Call[Answer]:
        """Call a service and return at once: see :class:`.Call`."""
        call = Call(self._clients[service], request, read, patience, again, most)
        with self._opening:
            self._open = [*(one for one in self._open if not one.is_done), call]
        return call

    def answer(self, call: Call[Answer]) -> Answer:
        """Wait for an answer, and return it; raises as :meth:`.Call.look`."""
        self.until(lambda: call.is_done, math.inf)
        try:
            return cast("Answer", call.look())
        finally:
            call.forget()

    def ask(self, service: str, request: Any, patience: float) -> Any:
        """Call a service and wait; of a service's first request it may be made twice.

        Raises:
            TopicLost: If it is not there, or does not answer in time.
        """
        self.need(
            lambda: [] if self.is_found(service) else [f"service {service}"],
            patience, "not there",
        )  # fmt: skip
        most = 0 if service in self._known else 1
        self._known.add(service)
        return self.answer(self.call(service, request, _as_it_is, patience, AGAIN, most))

    def check(self) -> None:
        """Raise if nothing can be sent any more.

        Raises:
            TopicLost: If ROS was shut down in this program: its handlers of signals do so.
        """
        if not self._context.ok():
            raise TopicLost("ROS was shut down in this program, by a signal perhaps")

    def close(self) -> None:
        """Give everything back; again is the same."""
        if self._ends:
            return
        self._ends = True
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._executor.wake()
            self._thread.join(ENDS)
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def _run(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not self._ends:
                self._serve(TURN)

    def _serve(self, timeout: float) -> None:
        """Do what has come, and send again what is due."""
        self._executor.spin_once(timeout)
        for call in self._open:
            call.repeat_if_due()


def _as_it_is(said: Any) -> Any:
    return said
