# SPDX-License-Identifier: Apache-2.0
"""A node that asks things of others, served by a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions

from multipanda_py.exceptions import NodeRefused
from multipanda_py.ros.running import make_executor

TURN = 0.05
"""Longest wait for an event before calls are looked at that may have to be sent again [s]."""
ANSWERS = QoSProfile(depth=100)
"""Fast DDS sends every answer of a service to all of its clients."""
ENDS = 10.0
"""For the thread to end [s]."""


class Call:
    """A request to a service, from its sending to its answer.

    Args:
        client: Of the service.
        request: What is asked.
        read: Makes of the response what :meth:`look` returns, which is not None; may refuse.
        patience: How long the answer may take [s].
        again: After so long without an answer it is sent again [s]; 0 for never.

    Thread: any.
    """

    def __init__(
        self,
        client: Any,
        request: Any,
        read: Callable[[Any], object],
        patience: float = 10.0,
        again: float = 0.0,
    ) -> None:
        self._client, self._request, self._read = client, request, read
        self._again, self._patience = again, patience
        self._due = time.monotonic() + (again or patience)
        self._deadline = time.monotonic() + patience
        self._futures = [client.call_async(request)]

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, or it is too late for one."""
        return time.monotonic() > self._deadline or any(one.done() for one in self._futures)

    def when_done(self, act: Callable[[], object]) -> None:
        """Have something done by the link's thread when the answer is there."""
        self._futures[0].add_done_callback(lambda _: act())

    def look(self) -> object | None:
        """Return what the answer says, or None while there is none.

        Raises:
            NodeRefused: If it is too late for one; else what the reading raises.
        """
        answer = next((one for one in list(self._futures) if one.done()), None)
        if answer is not None:
            return self._read(answer.result())
        if time.monotonic() > self._deadline:
            raise NodeRefused(
                f"{self._client.srv_name}: no answer within {self._patience:g} s; it may still "
                "be done"
            )
        return None

    def repeat_if_due(self) -> None:
        """Send it again if that is wanted and it is time. Thread: the link's."""
        if self._again and time.monotonic() > self._due:
            self._due += self._again
            self._futures.append(self._client.call_async(self._request))


class NodeLink:
    """A participant of the middleware, its node and the thread that serves it.

    Args:
        name: Of the node.

    Attributes:
        node: To subscribe and publish with.

    Thread: any, once it is made.
    """

    def __init__(self, name: str) -> None:
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node(
            name, context=self._context, enable_rosout=False, start_parameter_services=False,
            parameter_overrides=[Parameter("start_type_description_service", value=False)],
        )  # fmt: skip
        self._executor = make_executor(self._context)
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._open: list[Call] = []
        self._opening = threading.Lock()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to serve; everything of the node should be there."""
        self._thread.start()

    def offer(self, kind: Any, service: str) -> None:
        """Make ready to call a service."""
        self._clients[service] = self.node.create_client(kind, service, qos_profile=ANSWERS)

    def not_found(self) -> list[str]:
        """Return the services that nobody offers, as far as is known."""
        return [name for name, one in self._clients.items() if not one.service_is_ready()]

    def call(
        self,
        service: str,
        request: Any,
        read: Callable[[Any], object],
        patience: float = 10.0,
        again: float = 0.0,
    ) -> Call:
        """Call a service and return at once: see :class:`Call`."""
        call = Call(self._clients[service], request, read, patience, again)
        with self._opening:
            self._open = [*(one for one in self._open if not one.is_done), call]
        return call

    def close(self) -> None:
        """Give everything back."""
        self._ends = True
        if self._thread.is_alive():
            self._executor.wake()
            self._thread.join(ENDS)
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def _run(self) -> None:
        while not self._ends:
            self._executor.spin_once(TURN)
            for call in self._open:
                if not call.is_done:
                    call.repeat_if_due()
