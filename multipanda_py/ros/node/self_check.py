# SPDX-License-Identifier: Apache-2.0
"""Self-check of the node by requests to the participant that serves its clients."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.task import Future
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.config.parameter_file import SELF_CHECK_SUFFIX
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.participants import SeparateParticipant
from multipanda_py.ros.node.qos import DATA_QOS
from multipanda_py.ros.node.running import every

TIMEOUT = 2.0
"""Age of the newest callback or answer above which the node counts as unresponsive [s]."""
RESPONSE_TIMEOUT = 5.0
"""Age of the newest answer at which the participant is recreated, while callbacks run [s]."""
FIRST_RESPONSE_TIMEOUT = 20.0
"""Maximum time from a new participant to its first answer, which includes discovery [s]."""
MAX_STEP = 0.3
"""Maximum time by which an update increases an age [s]. If more has passed since the last update,
this process was suspended, and the rest does not count."""


class Responsiveness:
    """Time since the executor's newest callback, and since the newest answer to the self-check.

    Attributes:
        callback_age: Time since the newest callback [s].
        answer_age: Time since the newest answer, counted only while callbacks run [s].
        discovery_time: Time from the start to the first answer, counted while callbacks run [s].

    Thread: :meth:`answered` and :meth:`update` in one thread, all other methods in main.
    """

    def __init__(self) -> None:
        self.callback_age = self.answer_age = self.discovery_time = 0.0
        self._looked = 0.0
        self._callbacks, self._callback_count = 0, 0
        self._is_serving = False
        self._expects, self._has_answered = False, False

    @property
    def is_blocked(self) -> bool:
        """True if the newest callback is older than :data:`TIMEOUT`."""
        return self.callback_age > TIMEOUT

    @property
    def is_unanswered(self) -> bool:
        """True if the newest answer is older than :data:`TIMEOUT`."""
        return self.answer_age > TIMEOUT

    @property
    def is_undiscovered(self) -> bool:
        """True if the first answer takes longer than :data:`FIRST_RESPONSE_TIMEOUT`."""
        return self.discovery_time > FIRST_RESPONSE_TIMEOUT

    @property
    def has_answered(self) -> bool:
        """True if there is an answer since the start or :meth:`renew`."""
        return self._has_answered

    @property
    def is_lost(self) -> bool:
        """True if answers have been missing so long that the participant must be recreated."""
        return self.answer_age > (
            RESPONSE_TIMEOUT if self._has_answered else FIRST_RESPONSE_TIMEOUT
        )

    def served(self) -> None:
        """Register that the executor has run a callback."""
        self._callbacks += 1
        self._is_serving = True

    def pause(self) -> None:
        """Stop counting the time without a callback or answer, until the next callback."""
        self._is_serving = False

    def renew(self) -> None:
        """Treat a recreated participant as unresponsive until it answers its first check."""
        self._has_answered, self._expects = False, True
        self.answer_age = TIMEOUT + MAX_STEP

    def answered(self) -> None:
        """Set the age of the newest answer to zero."""
        self._has_answered = self._expects = True
        self.answer_age = 0.0

    def update(self, now: float) -> None:
        """Update the times since the newest callback and answer.

        Args:
            now: Present time, CLOCK_MONOTONIC [s].
        """
        step, self._looked = min(now - self._looked, MAX_STEP), now
        if self._callbacks != self._callback_count or not self._is_serving:
            self._callback_count = self._callbacks
            self.callback_age = 0.0
        else:
            self.callback_age += step
        # A callback that does not return delays answers, too.
        if not self._is_serving or self.callback_age:
            return
        # If discovery is disabled, no answer can ever arrive.
        if self._expects:
            self.answer_age += step
        else:
            self.discovery_time += step


SERVICE_NAME = "_self_check"
"""Name of the service, relative to the node; the underscore hides it from lists."""
REQUEST_PERIOD = 0.5
"""Time between two requests [s]."""
POLL_PERIOD = 0.1
"""Time between two evaluations [s]."""
MAX_PENDING = 4
"""Maximum number of requests that wait for an answer."""
PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])
"""Folder of this package."""


class SelfCheck:
    """Check of the node by requests on the path of its clients.

    While the node does not answer, the loop receives no heartbeat, so all arms hold, and
    ``/diagnostics`` has status ERROR.

    Args:
        args: Command line, which may have security options of the middleware.

    Thread: main for public methods, a separate one for the check.
    """

    def __init__(self, main: GuardedNode, cell: Cell, args: Sequence[str] | None = None) -> None:
        self._cell, self._guard, self._logger = cell, main.guard, main.get_logger()
        self._name, self._full_name = main.get_name(), main.get_fully_qualified_name()
        self._main_thread = threading.get_ident()
        self._service = main.resolve_service_name(f"~/{SERVICE_NAME}")
        self._state = Responsiveness()
        self._pending: list[Future] = []
        self._published = 0.0
        self._has_warned = False
        self._participant = SeparateParticipant(
            main, SELF_CHECK_SUFFIX, cell.config.realtime, args, self._fill
        )

    @property
    def is_lost(self) -> bool:
        """True if the participant that serves clients must be recreated."""
        return self._state.is_lost

    def serve(self, main: GuardedNode) -> None:
        """Create the service of the main node that answers the requests of this check."""
        main.create_service(Trigger, self._service, _answer)

    def beat(self) -> None:
        """Send a heartbeat to the loop if the node is responsive. Thread: executor."""
        self._state.served()
        if not self._guard.unresponsive:
            self._cell.send_heartbeat()

    def pause(self) -> None:
        """Suspend the check, because no callback runs until the next heartbeat."""
        self._state.pause()

    def renew(self) -> None:
        """Treat a recreated participant as unresponsive until it answers its first check."""
        self._state.renew()

    def close(self) -> None:
        """Stop the thread and destroy node and participant."""
        self._participant.close()

    def _fill(self, node: GuardedNode) -> None:
        self._client = node.create_client(Trigger, self._service)
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", DATA_QOS)
        self._clock = node.get_clock()
        every(node, REQUEST_PERIOD, self._request)
        every(node, POLL_PERIOD, self._poll)

    def _request(self) -> None:
        while len(self._pending) >= MAX_PENDING:
            self._client.remove_pending_request(self._pending.pop(0))
        future = self._client.call_async(Trigger.Request())
        self._pending.append(future)
        future.add_done_callback(self._take)

    def _take(self, future: Future) -> None:
        if future in self._pending:
            self._pending.remove(future)
            if not self._state.has_answered:
                self._logger.info("the node answers its clients")
            self._state.answered()

    def _poll(self) -> None:
        state, now = self._state, time.monotonic()
        state.update(now)
        if state.is_undiscovered and not self._has_warned:
            self._has_warned = True
            self._logger.warning(
                f"the node has not answered its self-check for {state.discovery_time:.0f} s since "
                "its start; clients may not find it. Check ROS_AUTOMATIC_DISCOVERY_RANGE and the "
                "network, or restart the node"
            )
        before = self._guard.unresponsive
        self._guard.unresponsive = reason = self._reason()
        if reason and not before:
            self._logger.error(f"{reason}; all arms hold{self._blocking_stack()}")
        elif before and not reason:
            self._logger.warning("the node answers its self-check again")
        period = 1.0 / self._cell.config.cell.diagnostics_rate
        if reason and (not before or now - self._published >= period):
            self._published = now
            self._publish_error(reason)

    def _reason(self) -> str:
        state = self._state
        if state.is_blocked:
            path = self._executed_line()
            return (
                f"a callback of the node has not returned for {state.callback_age:.1f} s: {path}"
            )
        if state.is_unanswered:
            return (
                "the participant that serves clients has not answered the self-check for "
                f"{state.answer_age:.1f} s; after {RESPONSE_TIMEOUT:g} s the node recreates it"
            )
        return ""

    def _main_thread_frames(self) -> traceback.StackSummary:
        frame = sys._current_frames().get(self._main_thread)
        return traceback.extract_stack(frame) if frame else traceback.StackSummary()

    def _executed_line(self) -> str:
        frames = [
            frame
            for frame in self._main_thread_frames()
            if frame.filename.startswith(PACKAGE_FOLDER)
        ]
        if not frames:
            return "an unknown function"
        last = frames[-1]
        return f"{last.name} ({Path(last.filename).relative_to(PACKAGE_FOLDER)}:{last.lineno})"

    def _blocking_stack(self) -> str:
        if not self._state.is_blocked:
            return ""
        return ":\n" + "".join(traceback.format_list(self._main_thread_frames())).rstrip()

    def _publish_error(self, reason: str) -> None:
        cell = self._cell.config.cell.name
        names = {"loop": cell}
        if self._state.is_blocked:
            names |= {arm: f"{cell}/{arm}" for arm in self._cell.arms}
        message = DiagnosticArray()
        message.header.stamp = self._clock.now().to_msg()
        message.status = [
            DiagnosticStatus(
                level=DiagnosticStatus.ERROR,
                name=f"{self._name}: {name}",
                message=reason,
                hardware_id=hardware,
                values=[
                    KeyValue(key="node", value=self._full_name),
                    KeyValue(key="reason", value=reason),
                ],
            )
            for name, hardware in names.items()
        ]
        self._publisher.publish(message)


def _answer(request: Any, response: Any) -> Any:
    response.success = True
    return response
