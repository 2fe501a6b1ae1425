# SPDX-License-Identifier: Apache-2.0
"""Deferred responses of services, which do not block the executor.

A callback that waits would block the executor, and with it the stop service. A coroutine that
waits keeps the events executor of some ROS releases busy. Here, a request therefore becomes a
generator, its *work*: it yields while it waits, and returns when the response is filled in. One
timer advances all open requests.

Thread: executor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.cell.arm_request import LOOP_TIMEOUT
from multipanda_py.exceptions import LoopTimeout, shortened
from multipanda_py.ros.node.bounded_messages import too_large

Work = Generator[None, None, None]
"""Generator that yields until a response is filled in."""
PERIOD = 2e-3
"""Period at which open requests are advanced [s]. The timer stops when all are answered."""
_Result = TypeVar("_Result")


class _Open(NamedTuple):
    name: str
    work: Work
    response: Any
    header: Any
    send: Callable[[Any, Any], None]


class DeferredResponses:
    """Requests of services that are not answered yet.

    Args:
        note: Function that receives the name of a service and an exception of its generator.
        count: Function that receives the name of a service and each response, to count rejections.
        note_large: Function that receives the name of a service and why its request is too large.
    """

    def __init__(
        self,
        note: Callable[[str, Exception], None],
        count: Callable[[str, Any], None],
        note_large: Callable[[str, str], None],
    ) -> None:
        self._note, self._count, self._note_large = note, count, note_large
        self._open: list[_Open] = []
        self._timer: Any = None

    def start(self, node: Node) -> None:
        """Create the timer of a node that advances open requests."""
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(PERIOD, self._poll, clock=clock)
        self._timer.cancel()

    def serve(
        self, create: Callable[[Any], Any], name: str, work: Callable[[Any, Any], Work]
    ) -> Any:
        """Create a service that answers when the generator of its request returns.

        Args:
            create: Function that creates the service from its callback.
            name: Name of the service.
            work: Function that creates the generator from a request and its response.
        """
        started: dict[int, Work] = {}

        def refuse_large(response: Any, reason: str) -> Work:
            self._note_large(name, reason)
            refuse(response, f"request: {reason}")
            yield from ()

        def call(request: Any, response: Any) -> Any:
            if reason := too_large(request):
                started[id(response)] = refuse_large(response, reason)
            else:
                started[id(response)] = work(request, response)
            return response

        service = create(call)
        # Executors send a response by ``send_response``. Here ``keep`` replaces it and sends
        # later.
        send = service.send_response

        def keep(response: Any, header: Any) -> None:
            item = _Open(name, started.pop(id(response)), response, header, send)
            if not self._advance(item):
                self._open.append(item)
                if self._timer is not None:
                    self._timer.reset()

        service.send_response = keep
        return service

    def close(self, reason: str) -> None:
        """Answer all open requests as failed, with a reason."""
        for item in self._open:
            item.work.close()
            self._send(item._replace(response=refuse(item.response, reason)))
        self._open = []

    def _poll(self) -> None:
        self._open = [item for item in self._open if not self._advance(item)]
        if not self._open:
            self._timer.cancel()

    def _advance(self, item: _Open) -> bool:
        """Advance one request; return True if it is answered."""
        try:
            next(item.work)
            return False
        except StopIteration:
            self._send(item)
        except Exception as error:
            self._note(item.name, error)
            self._send(item._replace(response=refuse(item.response, str(error))))
        return True

    def _send(self, item: _Open) -> None:
        self._count(item.name, item.response)
        try:
            item.send(item.response, item.header)
        except Exception as error:  # The client may have ended.
            self._note(item.name, error)


def until(
    cell: Cell,
    poll: Callable[[], _Result | None],
    description: str,
    timeout: float,
    give_up: Callable[[], str],
) -> Generator[None, None, _Result]:
    """Yield until the loop answers a request, then return the answer.

    Args:
        cell: Cell of the loop.
        poll: Function that returns the answer, or None while it is pending.
        description: Name of the request, for the message.
        timeout: Timeout [s].
        give_up: Function that cancels the request and returns a message about its state.

    Raises:
        LoopTimeout: If no answer arrives in time, or the loop does not run.
    """
    since = time.monotonic()
    while (result := poll()) is None:
        waited = time.monotonic() - since
        if waited > timeout or (waited > LOOP_TIMEOUT and cell.cycle_age() > LOOP_TIMEOUT):
            stall_reason = cell.stall_reason()
            reason = f" ({stall_reason})" if stall_reason else ""
            raise LoopTimeout(
                f"no answer to {description} within {waited:.1f} s{reason}; {give_up()}"
            )
        yield
    return result


def refuse(response: Any, reason: str) -> Any:
    """Mark a response as failed and fill in the reason, in the fields that its type has."""
    for field in ("success", "ok"):
        if hasattr(response, field):
            setattr(response, field, False)
    for field in ("message", "error"):  # franka_msgs has the field error.
        if hasattr(response, field):
            setattr(response, field, shortened(reason))
    result: Any = getattr(response, "result", None)
    if hasattr(result, "error_message"):  # simulation_interfaces has this field.
        result.result = result.RESULT_OPERATION_FAILED
        result.error_message = shortened(reason)
    if isinstance(response, SetParameters.Response):
        response.results = [SetParametersResult(successful=False, reason=shortened(reason))]
    elif isinstance(result, SetParametersResult):
        result.successful, result.reason = False, shortened(reason)
    return response


class TimeSlice:
    """Time slice of a long task, which lets other callbacks run.

    Args:
        length: Maximum time without a break [s].
    """

    def __init__(self, length: float = 10e-3) -> None:
        self._length = length
        self._end = time.monotonic() + length

    def rest(self) -> Work:
        """Yield once and start a new time slice, if the present one has ended."""
        if time.monotonic() > self._end:
            yield
            self._end = time.monotonic() + self._length
