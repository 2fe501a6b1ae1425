# SPDX-License-Identifier: Apache-2.0
"""Client with which the panel shows and commands the cell of a running node."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from controller_manager_msgs.srv import ListControllers, SwitchController
from numpy.typing import NDArray
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from multipanda_py.cell.goals import Frames
from multipanda_py.cell.switch_planning import Strictness, SwitchResult
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.instance_spec import InstanceSpec, instance_specs
from multipanda_py.config.parameter_file import NODE
from multipanda_py.exceptions import (
    ConfigurationError,
    LoopError,
    NodeRejected,
    ParameterRejected,
    SwitchRejected,
    TargetRejected,
    TopicLost,
)
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.realtime.system.dds import discovery_hint
from multipanda_py.realtime.timing import LoopStatistics
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client.arm import NodeHand
from multipanda_py.ros.client.cell_state import CellStateSubscriber
from multipanda_py.ros.client.node_link import Call, NodeLink, Pending, RequestChain
from multipanda_py.ros.client.target_publisher import TargetPublisher
from multipanda_py.ros.node.settings import ask_for_cell, parameters_of
from multipanda_py.ros.services.arms import RECOVERY_RESPONSE_TIMEOUT
from multipanda_py.state import ArmSnapshot

TIMEOUT = 30.0
"""Timeout for the discovery of the node and for its configuration [s]."""
NODE_TIMEOUT = 10.0
"""Time without a message after which the node is considered ended [s]."""
STATE_TIMEOUT = 0.5
"""Time without a message after which targets are rejected until messages arrive again [s]."""
WARNING_TIME = 1.5
"""Time without a message after which the panel shows a warning [s]."""
MAX_CACHE_AGE = 1.0
"""Age of cached parameters from which they are requested again [s]."""
STOP_REPEAT_PERIOD = 0.25
"""Period at which an unanswered stop request is repeated [s]."""
MAX_LISTED_NAMES = 3
"""Maximum number of missing names in a message."""


class NodeCell(Closeable):
    """Client of a running node for the panel. Only the constructor waits.

    Args:
        namespace: Namespace of the cell.
        config: Configuration of the cell; by default that of the node's parameters.

    Raises:
        TopicLost: If there is no such node, or it does not answer.
        ConfigurationError: If the configuration is not valid on this machine.

    Attributes:
        config: Configuration of the cell.
        link: Node that subscribes and calls services.
        states: States that are received from the node.

    Thread: one; :meth:`request_hold` any.
    """

    def __init__(self, namespace: str = "", config: CellConfig | None = None) -> None:
        self._root = f"/{namespace.strip('/')}".rstrip("/")
        name = f"multipanda_panel_{os.getpid()}"
        # Stop requests have a separate participant, so that they never queue behind others.
        self.link, self._stop = NodeLink(name), NodeLink(f"{name}_stop")
        try:
            self._stop.offer(Trigger, f"{self._root}/stop")
            self._stop.start()
            self._start(config)
        except BaseException:
            self.link.close()
            self._stop.close()
            raise

    def _start(self, config: CellConfig | None) -> None:
        root, link = self._root, self.link
        if not (from_file := config is not None):
            config = ask_for_cell(link, root, TIMEOUT)
        self.config = config
        self.descriptions: Mapping[str, ArmDescription] = {
            arm.name: arm for arm in describe_arms(config)
        }
        self.specs = instance_specs(config)
        self._by_name = {spec.name: spec for spec in self.specs}
        self.frames = Frames(config)
        self.states = CellStateSubscriber(link, root, config)
        self._manager = f"{root}/controller_manager"
        link.offer(SwitchController, f"{self._manager}/switch_controller")
        link.offer(ListControllers, f"{self._manager}/list_controllers")
        for arm in self.arms:
            link.offer(Trigger, f"{root}/{arm}/error_recovery")
        for spec in self._laws():
            link.offer(GetParameters, f"{root}/{spec.name}/get_parameters")
            link.offer(SetParameters, f"{root}/{spec.name}/set_parameters")
        self._hands = {
            arm: NodeHand(link, root, arm, described.gripper)
            for arm, described in self.descriptions.items()
            if described.gripper is not None
        }
        self._targets = TargetPublisher(
            link, root, config, self.frames, lambda: self.states.status.has_system_time
        )
        self._switches: list[Call[SwitchResult]] = []
        self._activations = dict.fromkeys(self.arms, -1)
        link.start()
        self._wait_for_services(from_file)
        link.need(self.states.silent, TIMEOUT, "no message", discovery_hint())
        pending_requests = {spec.name: self._request_parameters(spec) for spec in self._laws()}
        self._values = {name: link.answer(call) for name, call in pending_requests.items()}
        self._requested_at = dict.fromkeys(self._values, time.monotonic())

    def _wait_for_services(self, from_file: bool) -> None:
        def missing() -> list[str]:
            return [*self._stop.not_found(), *self.link.not_found()]

        if self.link.until(lambda: not missing(), TIMEOUT):
            return
        names = missing()
        text = ", ".join(names[:MAX_LISTED_NAMES])
        if len(names) > MAX_LISTED_NAMES:
            text += f" and {len(names) - MAX_LISTED_NAMES} more"
        if from_file and not self._stop.not_found():
            raise ConfigurationError(
                f"{self._root}/{NODE}: has no {text}. Check that the node runs the cell of this "
                "file"
            )
        raise TopicLost(f"{text}: not found within {TIMEOUT:g} s{discovery_hint()}")

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(self.config.arms)

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active controllets, as last reported."""
        return self.states.status.active

    def activation_count(self, arm: str) -> int:
        """Return the number of controllet activations on an arm, as last reported."""
        return self.states.status.arms[arm].activation_count

    def stall_reason(self) -> str:
        """Return a message if the node has sent nothing for ``WARNING_TIME``, else ""."""
        since = max(
            self.states.status.received_at, *(self.states.last_received(arm) for arm in self.arms)
        )
        age = time.monotonic() - since
        if age < max(WARNING_TIME, 5.0 / self.config.cell.joint_state_rate):
            return ""
        return f"no message from the node for {age:.0f} s"

    def check(self) -> None:
        """Send the panel's heartbeat, and check that the node sends diagnostics.

        Call this method continuously.

        Raises:
            LoopError: If the node has sent nothing for ``NODE_TIMEOUT``.
        """
        self._targets.publish_heartbeat()
        for arm in self.arms:
            self._stop_after_switch(arm)
        if time.monotonic() - self.states.status.received_at > max(
            NODE_TIMEOUT, 3.0 / self.config.cell.diagnostics_rate
        ):
            raise LoopError(
                f"no message from the node for {NODE_TIMEOUT:g} s. Check that it still runs"
            )

    def latest_record(self) -> NDArray[np.void]:
        """Return a record of the newest joint and object positions for :meth:`.SceneView.show`."""
        return self.states.latest_record()

    def state(self, arm: str) -> ArmSnapshot:
        """Return the newest state of an arm. Its ``tau`` is the measured torque, not the command.

        Fields that the node does not send, such as ``tau_ext``, are NaN.
        """
        return self.states.state(arm)

    def pose(self, arm: str) -> Pose:
        """Return the pose of the tool in the base of the arm."""
        state = self.state(arm)
        return Pose(state.position_ee_in_base, state.rotation_ee_in_base)

    def statistics(self, cycles: int = 1000) -> LoopStatistics:
        """Return the timing of the loop from diagnostics; ``cycles`` is ignored."""
        return self.states.status.statistics()

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events after the first ``count``."""
        return self.states.status.events_since(count)

    def parameters(self, name: str) -> dict[str, Any]:
        """Return the parameters of a controllet, read at most ``MAX_CACHE_AGE`` ago."""
        if name not in self._values:
            return self._by_name[name].initial_values()
        now = time.monotonic()
        if now > self._requested_at[name] + MAX_CACHE_AGE:
            self._requested_at[name] = now
            call = self._request_parameters(self._by_name[name])
            call.add_done_callback(lambda: self._values.__setitem__(name, call.poll() or {}))
        return dict(self._values[name])

    def set_parameters(self, name: str, values: Mapping[str, object]) -> Pending:
        """Request a change of parameters of a controllet.

        Args:
            name: Name of the controllet.
            values: New values by name. In a vector, only elements that differ from
                :meth:`parameters` are changed.

        Raises:
            ParameterRejected: If a value is not allowed.
        """
        accepted, known = self._by_name[name].checked(values), dict(self._values[name])
        vectors = [key for key, one in accepted.items() if isinstance(one, np.ndarray)]
        if not vectors:
            return self._set(name, accepted)
        newest = parameters_of(self.link, f"{self._root}/{name}", vectors, TIMEOUT)

        def merge_and_set(response: Mapping[str, Any]) -> Pending:
            changed = {key: accepted[key] != np.array(known[key]) for key in vectors}
            merged = {key: np.where(changed[key], accepted[key], response[key]) for key in vectors}
            return self._set(name, accepted | merged)

        return RequestChain(newest, merge_and_set)

    def _set(self, name: str, accepted: dict[str, Any]) -> Call[object]:
        def read(response: Any) -> object:
            if reasons := [one.reason for one in response.results if not one.successful]:
                raise ParameterRejected("; ".join(reasons))
            self._values[name] |= accepted
            return response

        parameters = [
            Parameter(key, value=_plain(value)).to_parameter_msg()
            for key, value in accepted.items()
        ]
        request = SetParameters.Request(parameters=parameters)
        return self.link.call(f"{self._root}/{name}/set_parameters", request, read)

    def set_target(self, arm: str, pose: Pose | None = None, *, frame: str = "") -> None:
        """Send a tool pose to the controllet of an arm. A rejection by the node becomes an event.

        Args:
            arm: Name of the arm.
            pose: Pose of the tool; None to send nothing.
            frame: Frame of the pose, such as ``world``; by default the base of the arm.

        Raises:
            TargetRejected: If the target is beyond the gate, or the newest message of the node is
                too old.
        """
        age = self.states.message_age(arm)
        if age > max(STATE_TIMEOUT, 5.0 / self.config.cell.joint_state_rate):
            raise TargetRejected(
                f"{arm}: target: no message from the node for {age:.1f} s. Try again"
            )
        if pose is not None:
            self._targets.publish(self.state(arm), pose, frame)

    def request_switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: str = "strict",
        timeout: float = 1.0,
        by: str = "",
    ) -> Call[SwitchResult]:
        """Request a change of the active controllets.

        Args:
            activate: Names of controllets to activate.
            deactivate: Names of controllets to deactivate. Arms without a controllet hold.
            strictness: Name of a :class:`.Strictness` in lower case, such as ``best_effort``.
            timeout: Maximum time that the node takes for the switch [s].
            by: Ignored name of the requesting client.
        """

        def read(response: Any) -> SwitchResult:
            # The response of some ROS distributions has no field ``message``.
            message = getattr(response, "message", "")
            if not response.ok:
                raise SwitchRejected(message or "the node has rejected the switch")
            self._request_active()
            return SwitchResult(tuple(activate), tuple(deactivate), (), (), 0.0, (message,))

        request = SwitchController.Request(
            activate_controllers=list(activate), deactivate_controllers=list(deactivate),
            strictness=int(Strictness[strictness.upper()]),
            timeout=Duration(sec=int(timeout), nanosec=int(timeout % 1.0 * 1e9)),
        )  # fmt: skip
        service = f"{self._manager}/switch_controller"
        call = self.link.call(service, request, read, timeout + 10.0)
        self._switches = [one for one in self._switches if not one.is_done] + [call]
        return call

    def request_hold(self, *, by: str = "") -> Call[object]:
        """Request a hold of all arms, and repeat the request until it is answered.

        Args:
            by: Ignored name of the requesting client.
        """
        call = self._stop_now()
        for switch in self._switches:
            # A switch that reaches the node after the stop ends the hold, so stop again.
            if not switch.is_done:
                switch.add_done_callback(self._stop_now)
        return call

    def request_recovery(self, arms: Sequence[str] | None = None) -> Call[object]:
        """Request that the faults of one arm or of all arms are cleared.

        Args:
            arms: Name of one arm, in a sequence; further names are ignored. None for all arms.
        """
        path = "error_recovery" if arms is None else f"{next(iter(arms))}/error_recovery"
        service = f"{self._root}/{path}"
        return self.link.call(
            service, Trigger.Request(), _check_success, RECOVERY_RESPONSE_TIMEOUT
        )

    def gripper(self, arm: str) -> NodeHand:
        """Return the gripper of an arm that has one."""
        return self._hands[arm]

    def close(self) -> None:
        """Stop arms that move to targets of this panel, and disconnect."""
        self._targets.close(self.state)
        self.link.close()
        self._stop.close()

    def _stop_after_switch(self, arm: str) -> None:
        status = self.states.status.arms[arm]
        # The target was meant for the previous controllet, but the new one may have received it.
        before, self._activations[arm] = self._activations[arm], status.activation_count
        law = self._by_name.get(status.owner)
        if before == status.activation_count or law is None or "pose" not in law.channel_table:
            return
        if self._targets.has_just_published(arm):
            with contextlib.suppress(TargetRejected):
                self.set_target(arm, self.pose(arm))

    def _laws(self) -> list[InstanceSpec]:
        return [spec for spec in self.specs if not spec.is_hold]

    def _request_parameters(self, spec: InstanceSpec) -> Call[dict[str, Any]]:
        names = [one.name for one in spec.parameter_specs]
        return parameters_of(self.link, f"{self._root}/{spec.name}", names, TIMEOUT)

    def _stop_now(self) -> Call[object]:
        def read(response: Any) -> object:
            self._request_active()
            return _check_success(response)

        return self._stop.call(
            f"{self._root}/stop", Trigger.Request(), read, repeat_period=STOP_REPEAT_PERIOD
        )

    def _request_active(self) -> None:
        def read(response: Any) -> object:
            names = [one.name for one in response.controller if one.state == "active"]
            laws = [self._by_name[name] for name in names if name in self._by_name]
            taken = {arm for law in laws for arm in law.config.arms}
            holds = [spec for spec in self.specs if spec.is_hold]
            free = [one.name for one in holds if not taken.intersection(one.config.arms)]
            self.states.status.active = (*(law.name for law in laws), *free)
            return response

        # Diagnostics report the active controllets up to a second later.
        call = self.link.call(f"{self._manager}/list_controllers", ListControllers.Request(), read)
        call.add_done_callback(call.poll)


def _check_success(response: Any) -> object:
    if not response.success:
        raise NodeRejected(response.message)
    return response


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
