# SPDX-License-Identifier: Apache-2.0
"""ROS node of a client program, which serves subscriptions and service calls in a thread."""

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
from typing import Any, Generic, Protocol, TypeVar, cast

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions

from multipanda_py.exceptions import MultipandaError, TargetRejected, TopicLost
from multipanda_py.realtime.system.dds import announce_without_types, check_domain
from multipanda_py.ros.node.conversions import read_message
from multipanda_py.ros.node.qos import TARGET_QOS
from multipanda_py.ros.node.running import make_executor

Answer = TypeVar("Answer")
SPIN_TIMEOUT = 0.05
"""Maximum wait for a message, so that service calls are repeated in time [s]."""
REPEAT_PERIOD = 3.0
"""Period of repeated calls [s]. A server may drop its first answer to a new client."""
RESPONSE_QOS = QoSProfile(depth=100)
"""QoS profile of answers. The queue is long: Fast DDS sends each answer to all clients."""
END_TIMEOUT = 10.0
"""Timeout for the end of a link's thread [s]."""
_POLL_PERIOD = 0.005  # Pause between two checks of a condition [s].
_numbers = itertools.count()


class Call(Generic[Answer]):
    """Pending request to a service, which the caller polls for the answer.

    Args:
        read: Function that converts the response to the result of :meth:`poll`, never to None.
        timeout: Timeout of the answer [s].
        repeat_period: Period of repeated requests [s]; 0 for no repetition.
        max_repeats: Maximum number of repetitions.

    Thread: any.
    """

    def __init__(
        self,
        client: Any,
        request: Any,
        read: Callable[[Any], Answer],
        timeout: float = 10.0,
        repeat_period: float = 0.0,
        max_repeats: float = math.inf,
    ) -> None:
        self._client, self._request, self._read = client, request, read
        self._repeat_period, self._left, self._timeout = (
            repeat_period,
            max_repeats if repeat_period else 0,
            timeout,
        )
        self._next_call_time = time.monotonic() + repeat_period
        self._deadline = time.monotonic() + timeout
        self._futures = [client.call_async(request)]

    @property
    def is_done(self) -> bool:
        """True if there is an answer, or the timeout has passed."""
        return time.monotonic() > self._deadline or any(one.done() for one in self._futures)

    def add_done_callback(self, act: Callable[[], object]) -> None:
        """Call a function when the first request is answered, in the thread of :class:`NodeLink`.

        The answer to a repeated request does not count.
        """
        self._futures[0].add_done_callback(lambda _: act())

    def poll(self) -> Answer | None:
        """Return the result, or None while there is no answer.

        Raises:
            TopicLost: If the timeout has passed. Errors of ``read`` are raised, too.
        """
        answer = next((one for one in list(self._futures) if one.done()), None)
        if answer is not None:
            return self._read(answer.result())
        if time.monotonic() > self._deadline:
            raise TopicLost(
                f"service {self._client.srv_name}: no answer within {self._timeout:g} s; the "
                "request may still be executed"
            )
        return None

    def repeat_if_due(self) -> None:
        """Send the request again if it is due. Thread: that of :class:`NodeLink`."""
        if self._left and time.monotonic() > self._next_call_time and not self.is_done:
            self._next_call_time += self._repeat_period
            self._left -= 1
            self._futures.append(self._client.call_async(self._request))

    def forget(self) -> None:
        """Discard answers that arrive from now on."""
        for future in self._futures:
            self._client.remove_pending_request(future)


class Pending(Protocol):
    """Request without an answer yet; see :class:`.Call`."""

    def poll(self) -> object | None:
        """Return the answer, or None while it is pending; raises the reason of a failure."""


class RequestChain:
    """Two requests, of which the second depends on the answer to the first.

    Args:
        first: First request.
        make_second: Function that creates the second request from the first answer, in the thread
            of :meth:`poll` or of :class:`NodeLink`.

    Thread: any.
    """

    def __init__(self, first: Call[Any], make_second: Callable[[Any], Pending]) -> None:
        self._first, self._make_second = first, make_second
        self._second: Pending | None = None
        self._second_lock = threading.Lock()
        first.add_done_callback(self._take)

    def poll(self) -> object | None:
        """Return the answer to the second request, or None; raises the errors of both requests."""
        if self._second is None:
            # The callback ``_take`` is not called for the answer to a repeated request, so check
            # here.
            if self._first.poll() is not None:
                self._take()
            return None
        return self._second.poll()

    def _take(self) -> None:
        with self._second_lock:
            if self._second is not None:
                return
            try:
                response = self._first.poll()
            except MultipandaError:  # ``poll`` of this chain raises the same error.
                return
            if response is not None:
                self._second = self._make_second(response)


class LatestMessage:
    """Newest message of a topic, decoded on demand.

    Args:
        max_age: Maximum age of the newest message [s].
        read: Function that decodes a message for :meth:`message`; may raise TargetRejected.
        qos: QoS profile; by default best effort, which matches every publisher.

    Attributes:
        name: Full name of the topic.
        count: Number of messages so far.

    Thread: any.
    """

    def __init__(
        self,
        node: Any,
        kind: type,
        topic: str,
        max_age: float = math.inf,
        read: Callable[[bytes], Any] | None = None,
        qos: QoSProfile = TARGET_QOS,
    ) -> None:
        self.name, self.max_age, self.count = node.resolve_topic_name(topic), max_age, 0
        self._newest, self._last = (b"", -1e9), (b"", None)
        self._read = read or partial(read_message, kind)
        node.create_subscription(kind, topic, self._take, qos, raw=True)

    def _take(self, raw: bytes) -> None:
        self._newest, self.count = (raw, time.monotonic()), self.count + 1

    @property
    def received_at(self) -> float:
        """Arrival time of the newest message, CLOCK_MONOTONIC [s]."""
        return self._newest[1]

    @property
    def is_new(self) -> bool:
        """True if the newest message is not too old."""
        return bool(self.count) and time.monotonic() - self.received_at <= self.max_age

    def check(self) -> None:
        """Check that there is a recent message.

        Raises:
            TopicLost: If there is no message, or it is too old; the error names the topic.
        """
        if not self.count:
            raise TopicLost(
                f"{self.name}: no message received yet. Check that the node is running"
            )
        if (age := time.monotonic() - self.received_at) > self.max_age:
            raise TopicLost(f"{self.name}: no message for {age:.2f} s, allowed {self.max_age:g} s")

    def message(self) -> Any:
        """Return the newest message.

        Raises:
            TopicLost: If there is no message, or it is too old or not valid.
        """
        self.check()
        raw = self._newest[0]
        if raw is not self._last[0]:
            try:
                self._last = raw, self._read(raw)
            except TargetRejected as error:
                raise TopicLost(f"{self.name}: {error}") from None
        return self._last[1]


def unique_node_name(name: str) -> str:
    """Return ``name`` with process ID and a number, a node name that is unique on this machine."""
    return f"{name}_{os.getpid()}_{next(_numbers)}"


class NodeLink:
    """ROS node in a separate DDS participant and rclpy context, and the thread that serves it.

    Create subscriptions, publishers and clients before :meth:`start`.

    Attributes:
        node: Node to subscribe and publish with.

    Thread: any after the start, one before it.
    """

    def __init__(self, name: str) -> None:
        check_domain()
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
        """Start the thread; further calls have no effect."""
        if self._thread.ident is None:
            # Python would abort at its exit if the thread still waited in the middleware.
            atexit.register(self.close)
            self._thread.start()

    def hear(
        self,
        kind: type,
        topic: str,
        max_age: float = math.inf,
        read: Callable[[bytes], Any] | None = None,
        qos: QoSProfile = TARGET_QOS,
    ) -> LatestMessage:
        """Subscribe to a topic. The result has its newest message.

        Args:
            kind: Class of the message.
            topic: Name of the topic.
            max_age: Age above which a message counts as missing [s].
            read: Function that decodes a serialized message; None for the one of rclpy.
            qos: QoS profile; by default best effort, which matches every publisher.
        """
        return LatestMessage(self.node, kind, topic, max_age, read, qos)

    def offer(self, kind: Any, service: str) -> None:
        """Create the client of a service, for :meth:`call`."""
        self._clients[service] = self.node.create_client(kind, service, qos_profile=RESPONSE_QOS)

    def not_found(self) -> list[str]:
        """Return the services of :meth:`offer` that have not been found yet."""
        return [name for name, one in self._clients.items() if not one.service_is_ready()]

    def is_discovered(self, service: str) -> bool:
        """Return True if a service has been found."""
        return bool(self._clients[service].service_is_ready())

    def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait for a condition; return True once it is met, False after the timeout.

        Args:
            condition: Function that returns True when the condition is met.
            timeout: Maximum waiting time [s].
        """
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                return False
            if self._thread.ident is None:
                self._spin_and_repeat_calls(_POLL_PERIOD)
            else:
                time.sleep(_POLL_PERIOD)
        return True

    def need(
        self, missing: Callable[[], list[str]], timeout: float, description: str, hint: str = ""
    ) -> None:
        """Wait until no service or topic is missing.

        Args:
            missing: Function that returns the names of missing services or topics.
            timeout: Maximum waiting time [s].
            description: Text of the error after the names, such as "not found".
            hint: Text at the end of the error.

        Raises:
            TopicLost: If something is still missing after the timeout; the message has the names.
        """
        if not self.until(lambda: not missing(), timeout):
            raise TopicLost(f"{', '.join(missing())}: {description} within {timeout:g} s{hint}")

    def call(
        self,
        service: str,
        request: Any,
        read: Callable[[Any], Answer],
        timeout: float = 10.0,
        repeat_period: float = 0.0,
        max_repeats: float = math.inf,
    ) -> Call[Answer]:
        """Call a service without waiting for the answer.

        Args:
            service: Name of a service passed to :meth:`offer`.
            request: Request message.
            read: Function that converts the response to the result of :meth:`.Call.poll`.
            timeout: Timeout of the answer [s].
            repeat_period: Period of repetitions of an unanswered request [s]; 0 for none.
            max_repeats: Maximum number of repetitions.
        """
        call = Call(self._clients[service], request, read, timeout, repeat_period, max_repeats)
        with self._opening:
            self._open = [*(one for one in self._open if not one.is_done), call]
        return call

    def answer(self, call: Call[Answer]) -> Answer:
        """Wait for an answer and return it; raises as :meth:`.Call.poll`."""
        self.until(lambda: call.is_done, math.inf)
        try:
            return cast("Answer", call.poll())
        finally:
            call.forget()

    def ask(self, service: str, request: Any, timeout: float) -> Any:
        """Call a service, wait for its response up to a timeout [s], and return it.

        The first request to a service is repeated if its answer takes long.

        Raises:
            TopicLost: If the service is not found, or does not answer in time.
        """
        self.need(
            lambda: [] if self.is_discovered(service) else [f"service {service}"],
            timeout, "not found",
        )  # fmt: skip
        max_repeats = 0 if service in self._known else 1
        self._known.add(service)
        return self.answer(
            self.call(service, request, _unchanged, timeout, REPEAT_PERIOD, max_repeats)
        )

    def check(self) -> None:
        """Check that ROS is not shut down in this program.

        Raises:
            TopicLost: If ROS was shut down, for example by signal handlers of the program.
        """
        if not self._context.ok():
            raise TopicLost(
                "ROS was shut down in this program, possibly by a signal. Restart the program"
            )

    def close(self) -> None:
        """Stop the thread and destroy the node; further calls have no effect."""
        if self._ends:
            return
        self._ends = True
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._executor.wake()
            self._thread.join(END_TIMEOUT)
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def _run(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not self._ends:
                self._spin_and_repeat_calls(SPIN_TIMEOUT)

    def _spin_and_repeat_calls(self, timeout: float) -> None:
        self._executor.spin_once(timeout)
        for call in self._open:
            call.repeat_if_due()


def _unchanged(response: Any) -> Any:
    return response
