# SPDX-License-Identifier: Apache-2.0
"""Managed life cycle of the node, with which a supervisor configures and activates a cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from lifecycle_msgs.msg import State, Transition, TransitionDescription, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetAvailableStates, GetAvailableTransitions, GetState

from multipanda_py.cell import Cell
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.exceptions import MultipandaError, shortened
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import BARE_NODE_ARGUMENTS, GuardedNode
from multipanda_py.ros.node.qos import DATA_QOS

UNCONFIGURED, INACTIVE, ACTIVE, FINALIZED = "unconfigured", "inactive", "active", "finalized"
_IDS = {
    "unknown": State.PRIMARY_STATE_UNKNOWN,
    UNCONFIGURED: State.PRIMARY_STATE_UNCONFIGURED,
    INACTIVE: State.PRIMARY_STATE_INACTIVE,
    ACTIVE: State.PRIMARY_STATE_ACTIVE,
    FINALIZED: State.PRIMARY_STATE_FINALIZED,
}


class _Transition(NamedTuple):
    number: int
    label: str
    start: str
    goal: str


SUBJECT = "the life cycle of the node"
TRANSITIONS = (
    _Transition(Transition.TRANSITION_CONFIGURE, "configure", UNCONFIGURED, INACTIVE),
    _Transition(Transition.TRANSITION_CLEANUP, "cleanup", INACTIVE, UNCONFIGURED),
    _Transition(Transition.TRANSITION_ACTIVATE, "activate", INACTIVE, ACTIVE),
    _Transition(Transition.TRANSITION_DEACTIVATE, "deactivate", ACTIVE, INACTIVE),
    _Transition(Transition.TRANSITION_UNCONFIGURED_SHUTDOWN, "shutdown", UNCONFIGURED, FINALIZED),
    _Transition(Transition.TRANSITION_INACTIVE_SHUTDOWN, "shutdown", INACTIVE, FINALIZED),
    _Transition(Transition.TRANSITION_ACTIVE_SHUTDOWN, "shutdown", ACTIVE, FINALIZED),
)


class LifeCycle:
    """Services of ``lifecycle_msgs``, as of a managed node in ROS 2.

    - Unconfigured: no loop, no arms, only these services.
    - Inactive: arms hold; controllets for them are rejected.
    - Active: arms accept controllets.

    During a transition, a request for the same one waits for its result. Other requests except a
    shutdown are rejected.

    Args:
        wants_cell: True to configure and activate a cell at once.

    Attributes:
        node: Node with the services, to be added to the executor.
        wants_cell: True if a cell has to run; the main thread polls it.
        ends: True if the process has to end.
        state: Primary state of the life cycle, such as inactive.

    Thread: executor.
    """

    def __init__(self, main: GuardedNode, wants_cell: bool) -> None:
        self.wants_cell, self.ends, self.state = wants_cell, False, UNCONFIGURED
        self._activates = wants_cell
        self._cell: Cell | None = None
        self._failure = self._transition = ""
        self._stopped_controllets: tuple[str, ...] = ()
        self._inactive_arms: set[str] = set()
        self.open(main)

    def open(self, main: GuardedNode) -> None:
        """Create the node and its services, also after ``main`` got a new DDS participant."""
        self._logger = main.get_logger()
        # A separate node outlives the cell. Its services have the name of the main node.
        self.node = GuardedNode(
            f"{main.get_name()}_life_cycle",
            namespace=main.get_namespace(),
            **BARE_NODE_ARGUMENTS,
        )
        owner = main.get_fully_qualified_name()
        self._events = self.node.create_publisher(
            TransitionEvent, f"{owner}/transition_event", DATA_QOS
        )
        self.node.serve(ChangeState, f"{owner}/change_state", self.change)
        for kind, name, answer in (
            (GetState, "get_state", self._get_state),
            (GetAvailableStates, "get_available_states", self._get_states),
            (GetAvailableTransitions, "get_available_transitions", self._get_transitions),
            (GetAvailableTransitions, "get_transition_graph", self._get_graph),
        ):
            self.node.create_service(kind, f"{owner}/{name}", answer)

    @property
    def begins(self) -> bool:
        """True while the process starts its first cell; a failure then ends the process."""
        return self._activates and self._cell is None

    def take_cell(self, cell: Cell) -> Work:
        """Store a started cell, and bring it to the requested state, active or inactive."""
        self._cell, self._stopped_controllets, self._inactive_arms = (
            cell,
            tuple(cell.active),
            set(),
        )
        if self._activates:
            self._arrive(ACTIVE)
            return
        yield from self._make_inactive(cell)
        self._arrive(INACTIVE)

    def drop_cell(self, failure: str = "") -> None:
        """Record that there is no cell any more, with the reason of a failure."""
        self._cell, self._failure, self.wants_cell = None, failure, False
        self._activates = False
        if self.state != UNCONFIGURED:
            self._arrive(UNCONFIGURED)

    def close(self) -> None:
        """Answer all waiting clients, and destroy the node."""
        self.node.answers.close("the node ends")
        self.node.destroy_node()

    def change(self, request: Any, response: Any) -> Work:
        """Execute a requested transition, and answer when cell and loop have finished it."""
        requested = request.transition.label or request.transition.id
        start = self.state
        transition = next(
            (
                transition
                for transition in TRANSITIONS
                if requested in transition[:2] and transition.start == start
            ),
            None,
        )
        if transition is None:
            allowed = ", ".join(transition.label for transition in self._transitions())
            self._logger.warning(
                f"life cycle: got {requested!r:.60} while {start}, allowed {allowed or 'nothing'}"
            )
            response.success = False
            return
        # A client may repeat a request before the answer. Both requests get the same result.
        if self._transition == transition.label:
            while self._transition == transition.label:
                yield
        elif self._transition and transition.goal != FINALIZED:
            self._logger.warning(
                f"life cycle: got {transition.label!r} while {self._transition} is in progress, "
                "allowed shutdown"
            )
        else:
            yield from self._execute_and_log_failure(transition)
        response.success = self.state == transition.goal

    def _execute_and_log_failure(self, transition: _Transition) -> Work:
        self._transition = transition.label
        try:
            yield from self._execute(transition)
        except MultipandaError as error:
            self._logger.warning(f"life cycle: {transition.label} failed: {shortened(str(error))}")
        finally:
            self._transition = ""

    def _execute(self, transition: _Transition) -> Work:
        if transition.label == "configure":
            self.wants_cell, self._activates, self._failure = True, False, ""
            while self.state == UNCONFIGURED and not self._failure:
                yield
        elif transition.label == "cleanup":
            self.wants_cell = False
            while self.state == INACTIVE:
                yield
        elif transition.label == "shutdown":
            self._arrive(FINALIZED)
            self.ends = True
        elif self._cell is not None:
            move = self._deactivate if transition.goal == INACTIVE else self._activate
            yield from move(self._cell)
            if self.state == transition.start:  # False after a shutdown.
                self._arrive(transition.goal)

    def _deactivate(self, cell: Cell) -> Work:
        # Keep the controllets that an earlier, failed attempt has stored: some of them are
        # inactive by now.
        if not self._inactive_arms:
            self._stopped_controllets = tuple(cell.active)
        yield from self._make_inactive(cell)

    def _make_inactive(self, cell: Cell) -> Work:
        self._inactive_arms |= {arm for arm in cell.arms if not cell.is_inactive(arm)}
        # Include inactive arms: after a timeout of an earlier request, their controllets may still
        # be active.
        pending = cell.request_inactive(*cell.arms, by=SUBJECT)
        while pending.poll() is None:
            yield

    def _activate(self, cell: Cell) -> Work:
        for arm in self._inactive_arms:
            cell.activate_arm(arm)
        try:
            pending = cell.request_switch(
                self._stopped_controllets, (), Strictness.AUTO, by=SUBJECT
            )
            while pending.poll() is None:
                yield
        except MultipandaError:
            yield from self._make_inactive(cell)
            raise
        self._inactive_arms = set()

    def _arrive(self, state: str) -> None:
        start, self.state = self.state, state
        event = TransitionEvent(start_state=_state(start), goal_state=_state(state))
        for transition in TRANSITIONS:
            if (transition.start, transition.goal) == (start, state):
                event.transition = Transition(id=transition.number, label=transition.label)
        event.timestamp = self.node.get_clock().now().nanoseconds
        self._events.publish(event)
        self._logger.info(f"life cycle: {state}")

    def _transitions(self) -> Iterator[_Transition]:
        return (transition for transition in TRANSITIONS if transition.start == self.state)

    def _get_state(self, request: Any, response: Any) -> Any:
        response.current_state = _state(self.state)
        return response

    def _get_states(self, request: Any, response: Any) -> Any:
        response.available_states = [_state(name) for name in _IDS]
        return response

    def _get_transitions(self, request: Any, response: Any) -> Any:
        response.available_transitions = [
            _described(transition) for transition in self._transitions()
        ]
        return response

    def _get_graph(self, request: Any, response: Any) -> Any:
        response.available_transitions = [_described(transition) for transition in TRANSITIONS]
        return response


def _state(name: str) -> State:
    return State(id=_IDS[name], label=name)


def _described(transition: _Transition) -> TransitionDescription:
    return TransitionDescription(
        transition=Transition(id=transition.number, label=transition.label),
        start_state=_state(transition.start),
        goal_state=_state(transition.goal),
    )
