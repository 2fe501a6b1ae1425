# SPDX-License-Identifier: Apache-2.0
"""Answers that come later, without a task that waits.

A task that waits keeps some releases' executor by events busy, and a callback that waits keeps
it from everything else. Here goals and requests are begun by plain calls, and answered when
somebody who looks from time to time finds them done. Thread: executor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer
from rclpy.node import Node

Finish = Callable[[Any], bool]
"""Fill in a response and return True, or return False while there is nothing to say."""


class PlainActionServer(ActionServer):
    """An action server whose goals are no tasks: only their answers are."""

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:
        """Begin a goal that is accepted and in state executing; called by its handle."""
        self._execute_callback(goal_handle)

    def finish(self, handle: Any, how: str, result: Any) -> None:
        """End a goal by ``succeed``, ``abort`` or ``canceled``, and send its result."""

        def answer(handle: Any) -> Any:
            getattr(handle, how)()
            return result

        super().notify_execute(handle, answer)


class LateService:
    """A service that answers when what it was asked for is done.

    Args:
        node: Offers the service.
        kind: Its type.
        name: Its name.
        begin: Begins what is asked for; returns what finishes the response, which is asked
            again at every :meth:`look`.
    """

    def __init__(self, node: Node, kind: type, name: str, begin: Callable[[Any], Finish]) -> None:
        self._begin = begin
        self._begun: dict[int, Finish] = {}
        self._open: list[tuple[Finish, Any, Any]] = []
        self._service = node.create_service(kind, name, self._call)
        # Every executor answers through this method of the service.
        self._send = self._service.send_response
        self._service.send_response = self._keep

    def look(self) -> None:
        """Answer what is done."""
        still_open = []
        for finish, response, header in self._open:
            if finish(response):
                self._send(response, header)
            else:
                still_open.append((finish, response, header))
        self._open = still_open

    def _call(self, request: Any, response: Any) -> Any:
        self._begun[id(response)] = self._begin(request)
        return response

    def _keep(self, response: Any, header: Any) -> None:
        self._open.append((self._begun.pop(id(response)), response, header))
        self.look()
