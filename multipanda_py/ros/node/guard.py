# SPDX-License-Identifier: Apache-2.0
"""Node and action server whose callbacks may raise errors, and rate limits of log messages."""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters, SetParameters, SetParametersAtomically
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.logging import get_logger
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message

from multipanda_py.exceptions import LoopError, shortened
from multipanda_py.ros.node.bounded_messages import (
    MAX_MESSAGE_SIZE,
    MAX_REQUEST_SIZE,
    MessageSize,
    bounded_action,
    bounded_service,
    too_large,
)
from multipanda_py.ros.node.deferred_responses import DeferredResponses, Work, refuse
from multipanda_py.ros.node.parameter_requests import ParameterNode, set_work, value_of
from multipanda_py.ros.node.qos import REQUEST_QOS, QosMismatch

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:  # ROS 2 releases before Iron have this name.
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks


FATAL_ERRORS = (LoopError, MemoryError)
"""Errors that end the node: the loop has stopped, or no memory is left."""
PARAMETERS_KEY = "parameters"
"""Key under which rejected parameters are counted."""
BARE_NODE_ARGUMENTS: Mapping[str, Any] = {
    "use_global_arguments": False,
    "enable_rosout": False,
    "start_parameter_services": False,
    "parameter_overrides": [Parameter("start_type_description_service", value=False)],
}
"""Arguments of a node without log topic, parameter services and remappings."""


class Guard:
    """Handler of errors in callbacks, with counters for diagnostics.

    Attributes:
        failure: Reason why the node has to end, or an empty string.
        caught: Number of exceptions by origin.
        last: Message of the newest exception.
        refused: Number of rejected requests by service; all parameter services share one entry.
        mismatches: QoS mismatches that :class:`.GraphWatch` has not evaluated yet.
        qos_warnings: Warnings about endpoints with incompatible QoS, by topic.
        taken_twice: Names of this cell that another node also uses.
        unresponsive: Reason of a failed self-check of the node, or an empty string.

    Thread: executor.
    """

    def __init__(self, name: str) -> None:
        self.failure = ""
        self.caught: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.last = ""
        self.mismatches: list[QosMismatch] = []
        self.qos_warnings: dict[str, str] = {}
        self.taken_twice = ""
        self.unresponsive = ""
        self._logger = get_logger(name)
        self._reported: set[tuple[str, str, int]] = set()
        self._large: set[str] = set()

    def note(self, path: str, error: Exception) -> None:
        """Count an exception, and log its trace if it is the first of this origin.

        An error of :data:`FATAL_ERRORS` sets ``failure`` instead, which ends the node.

        Args:
            path: Name of the failed callback, such as its service or topic.
            error: Exception that the callback has raised.
        """
        text = shortened(f"{type(error).__name__}: {error}")
        if isinstance(error, FATAL_ERRORS):
            self.failure = self.failure or shortened(str(error)) or text
            return
        self.caught[path] += 1
        self.last = f"{path}: {text}"
        frames = traceback.extract_tb(error.__traceback__)
        source = (path, type(error).__name__, frames[-1].lineno or 0 if frames else 0)
        if source not in self._reported:
            self._reported.add(source)
            trace = shortened("".join(traceback.format_exception(error)))
            self._logger.error(f"{path} failed. The node continues; this is logged once:\n{trace}")

    def count(self, service: str, response: Any) -> None:
        """Count a response if it is a rejection."""
        if isinstance(response, SetParameters.Response):
            self.refused[PARAMETERS_KEY] += sum(not one.successful for one in response.results)
        elif isinstance(response, SetParametersAtomically.Response):
            self.refused[PARAMETERS_KEY] += not response.result.successful
        elif not getattr(response, "success", getattr(response, "ok", True)):
            self.refused[service.lstrip("/")] += 1

    def note_large(self, path: str, reason: str) -> None:
        """Log that a request, goal or message is too large, once for each service or topic.

        Args:
            path: Name of the service, action or topic.
            reason: Text with the size and its limit.
        """
        if path not in self._large:
            self._large.add(path)
            self._logger.warning(f"{path}: rejected: {reason}; this is logged once")

    def call(self, path: str, callback: Callable[..., Any], *args: Any) -> Any:
        """Call a callback and return its result, or :meth:`note` its error and return None.

        Args:
            path: Name of the callback for error messages, such as its service or topic.
            callback: Function to call.
            *args: Arguments of the callback.
        """
        try:
            return callback(*args)
        except Exception as error:
            self.note(path, error)
            return None


class GuardedNode(ParameterNode):
    """Node whose callbacks may raise errors, and whose services may answer late.

    Args:
        guard: Guard that is shared with another node; None creates a new one.
        answers: Deferred responses that are shared with another node; None creates new ones.

    Attributes:
        guard: Handler of errors in its callbacks.
        answers: Open requests of its services.
    """

    def __init__(
        self,
        name: str,
        *,
        guard: Guard | None = None,
        answers: DeferredResponses | None = None,
        **options: Any,
    ) -> None:
        self.guard = guard or Guard(name)
        self.answers = answers or DeferredResponses(
            self.guard.note, self.guard.count, self.guard.note_large
        )
        super().__init__(name, **options)
        if answers is None:
            self.answers.start(self)

    def serve(self, kind: type, name: str, work: Callable[[Any, Any], Work]) -> None:
        """Create a service that may answer later; see :meth:`.DeferredResponses.serve`."""
        create = partial(super().create_service, kind, name, qos_profile=REQUEST_QOS)
        self._with_size_limit(self.answers.serve(create, name, work), kind)

    def serve_waiting(self) -> None:
        """Serve the pending requests after this node was added to another executor.

        Thread: executor.
        """
        # An events executor learns of each request only once, when it arrives. Requests that
        # arrived before would stay unanswered forever.
        for service in list(self.services):
            while True:
                with service.handle:
                    taken = service.handle.service_take_request(service.srv_type.Request)
                if taken is None or taken[0] is None:
                    break
                response = service.callback(taken[0], service.srv_type.Response())
                service.send_response(response, taken[1])

    def create_service(
        self, srv_type: Any, srv_name: str, callback: Callable[..., Any], **options: Any
    ) -> Any:
        """Create a service that answers with the reason if its callback raises an error."""
        plain = super().create_service
        options.setdefault("qos_profile", REQUEST_QOS)
        if srv_type in (SetParameters, SetParametersAtomically):
            create = partial(plain, srv_type, srv_name, **options)
            work = partial(set_work, self)
            return self._with_size_limit(self.answers.serve(create, srv_name, work), srv_type)
        if srv_type is GetParameters:
            callback = partial(self._get_parameters, callback)

        def answer(request: Any, response: Any) -> Any:
            try:
                if reason := too_large(request):
                    self.guard.note_large(srv_name, reason)
                    answered = refuse(response, f"request: {reason}")
                else:
                    answered = callback(request, response)
            except Exception as error:
                self.guard.note(srv_name, error)
                answered = refuse(srv_type.Response(), str(error))
            self.guard.count(srv_name, answered)
            return answered

        return self._with_size_limit(plain(srv_type, srv_name, answer, **options), srv_type)

    def _with_size_limit(self, service: Any, kind: Any) -> Any:
        service.srv_type = bounded_service(kind)
        return service

    def _get_parameters(self, plain: Callable[..., Any], request: Any, response: Any) -> Any:
        names = self.other_names
        if names is None or not any(name for name in request.names if names.has(name)):
            return plain(request, response)
        response.values = [value_of(self, names, name) for name in request.names]
        return response

    def create_subscription(
        self,
        msg_type: Any,
        topic: str,
        callback: Callable[..., Any],
        qos_profile: Any,
        **options: Any,
    ) -> Any:
        """Subscribe to a topic; drop messages that are too large or whose callback fails."""
        is_raw, max_size = options.pop("raw", False), options.pop("max_size", MAX_MESSAGE_SIZE)

        def read(message: bytes) -> None:
            callback(message if is_raw else deserialize_message(message, msg_type))

        def take(message: bytes) -> None:
            if len(message) > max_size:
                reason = f"got a message of {len(message)} bytes, allowed {max_size}"
                self.guard.note_large(topic, reason)
                self.guard.refused[topic.lstrip("/")] += 1
            else:
                self.guard.call(topic, read, message)

        events = SubscriptionEventCallbacks(
            incompatible_qos=partial(self._mismatched, topic, qos_profile, False)
        )
        options.setdefault("event_callbacks", events)
        return super().create_subscription(msg_type, topic, take, qos_profile, raw=True, **options)

    def create_publisher(self, msg_type: Any, topic: str, qos_profile: Any, **options: Any) -> Any:
        """Create a publisher that records QoS mismatches with subscribers."""
        events = PublisherEventCallbacks(
            incompatible_qos=partial(self._mismatched, topic, qos_profile, True)
        )
        options.setdefault("event_callbacks", events)
        return super().create_publisher(msg_type, topic, qos_profile, **options)

    def _mismatched(self, topic: str, profile: Any, publishes: bool, event: Any) -> None:
        if isinstance(profile, int):
            profile = QoSProfile(depth=profile)
        self.guard.mismatches.append(QosMismatch(self, topic, profile, publishes))

    def destroy_node(self) -> None:
        """Destroy all entities, also action servers, which rclpy does not destroy."""
        for waitable in list(self.waitables):
            if isinstance(waitable, ActionServer):
                waitable.destroy()
        super().destroy_node()

    def create_timer(self, period: float, callback: Any, *args: Any, **options: Any) -> Any:
        """Create a timer that continues after an error of its callback."""
        name = getattr(callback, "__qualname__", "timer")

        def tick() -> None:
            self.guard.call(name, callback)

        return super().create_timer(period, tick, *args, **options)


REPEAT_PERIOD = 10.0
"""Time after which a repeated message is logged again [s]."""
MAX_TEXTS = 500
"""Number of stored messages above which all are forgotten."""
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")


class ThrottledLog:
    """Filter of repeated messages. Messages that differ only in numbers count as repeated.

    Args:
        now: Clock of the machine [s].

    Attributes:
        known: Time of the newest occurrence and number of suppressed ones, by message without its
            numbers.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.known: dict[str, tuple[float, int]] = {}

    def new_text(self, text: str) -> str:
        """Return a new text with the number of suppressed repetitions; "" for a repetition."""
        key, now = _NUMBER.sub("#", text), self._now()
        if len(self.known) > MAX_TEXTS:
            self.known.clear()
        last, unsaid = self.known.get(key, (-REPEAT_PERIOD, 0))
        if now - last < REPEAT_PERIOD:
            self.known[key] = now, unsaid + 1
            return ""
        self.known[key] = now, 0
        more = f" (and {unsaid} repetitions since the previous message)" if unsaid else ""
        return f"{text}{more}"


def refuse_goal(result: Any, reason: str) -> Any:
    """Fill the reason of an abort into the result of a goal, if its type has a field for it."""
    for field in ("error_string", "return_message", "error"):
        if hasattr(result, field):
            setattr(result, field, shortened(reason))
    if hasattr(result, "INVALID_GOAL"):
        result.error_code = result.INVALID_GOAL
    return result


class PlainActionServer(ActionServer):
    """Action server whose goals do not block the executor while they are in progress.

    ``execute_callback`` starts a goal and returns; :meth:`finish` ends it.

    Args:
        limit: Maximum size of a goal.
        callbacks: Callbacks of :class:`rclpy.action.ActionServer`.

    Attributes:
        unsent: Number of answers that the executor has not sent yet.
    """

    def __init__(
        self,
        node: GuardedNode,
        kind: Any,
        name: str,
        limit: MessageSize = MAX_REQUEST_SIZE,
        **callbacks: Any,
    ) -> None:
        self._guard, self._name, self._kind = node.guard, name, kind
        self.unsent = 0
        accept, cancel = callbacks["goal_callback"], callbacks["cancel_callback"]
        callbacks["goal_callback"] = lambda goal: (
            # A rejection cannot have a reason. A goal that is too large is therefore accepted, and
            # ``notify_execute`` aborts it with the reason.
            GoalResponse.ACCEPT
            if too_large(goal)
            else self._guard.call(name, accept, goal) or GoalResponse.REJECT
        )
        callbacks["cancel_callback"] = lambda handle: (
            self._guard.call(name, cancel, handle) or CancelResponse.REJECT
        )
        profiles = {
            f"{of}_service_qos_profile": REQUEST_QOS for of in ("goal", "result", "cancel")
        }
        super().__init__(node, kind, name, **callbacks, **profiles)
        self._action_type = bounded_action(kind, limit)

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:
        """Start an accepted goal. rclpy calls this when the goal is in state executing."""
        if reason := too_large(goal_handle.request):
            self._guard.note_large(self._name, reason)
            result = refuse_goal(self._kind.Result(), f"goal: {reason}")
            self.finish(goal_handle, "abort", result)
            return
        try:
            self._execute_callback(goal_handle)
        except Exception as error:
            self._guard.note(self._name, error)
            self.finish(goal_handle, "abort", self._kind.Result())

    def finish(self, handle: Any, method: str, result: Any) -> None:
        """End a goal by its method ``succeed``, ``abort`` or ``canceled``, and send the result."""

        def answer(handle: Any) -> Any:
            self.unsent -= 1  # The executor sends the result next.
            getattr(handle, method)()
            return result

        self.unsent += 1
        super().notify_execute(handle, answer)
