# SPDX-License-Identifier: Apache-2.0
"""Remote control of a running node's controllets, and motions by its trajectory actions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from builtin_interfaces.msg import Duration, Time
from control_msgs.action import FollowJointTrajectory
from controller_manager_msgs.srv import SwitchController
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import NODE
from multipanda_py.exceptions import (
    ConfigurationError,
    LoopError,
    MotionFailed,
    MultipandaError,
    RecoveryFailed,
    SwitchRejected,
    TargetRejected,
    TopicLost,
    UnknownName,
)
from multipanda_py.ros.client.arm import RemoteArm
from multipanda_py.ros.client.node_link import NodeLink
from multipanda_py.ros.client.target_publisher import RemoteTargets
from multipanda_py.ros.node.heartbeat_monitor import HEARTBEAT_TOPIC, LEASE_DURATION
from multipanda_py.ros.services.arms import RECOVERY_RESPONSE_TIMEOUT
from multipanda_py.state import Matrix

DIAGNOSTICS_DELAY = 0.5
"""Time after a switch for which diagnostics may still show the previous controllets [s]."""
TARGETS_PER_CHECK = 10
"""Number of sent targets after which rejections are checked. Up to half may be rejected."""
APPROACH_CONTROLLET = "joint_trajectory_controller"
"""Name of the controllet with which arms move to their start."""
RECOVERY_SERVICE = "error_recovery"
"""Service of an arm that clears its fault."""


class RemoteControllets:
    """Client that switches controllets of a node, and checks that arms follow their targets.

    Args:
        root: Namespace of the cell with a leading slash, or empty.
        timeout: Timeout of service answers [s].
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        config: CellConfig,
        arms: Mapping[str, RemoteArm],
        targets: RemoteTargets,
        timeout: float,
    ) -> None:
        self._link, self._root, self._config, self._timeout = link, root, config, timeout
        self._arms, self._targets = arms, targets
        for kind, name in (
            (SwitchController, "controller_manager/switch_controller"),
            (Trigger, "stop"),
            *((Trigger, f"{arm}/{RECOVERY_SERVICE}") for arm in arms),
        ):
            link.offer(kind, f"{root}/{name}")
        self._laws: dict[str, str] = {}
        self._timeouts = dict.fromkeys(arms, 0.0)
        self._since, self._judged = 0.0, dict.fromkeys(arms, 0.0)
        self._refused = dict.fromkeys(arms, (0, 0))

    def choose(self, arms: Sequence[str], controllet_type: str, period: float) -> dict[str, str]:
        """Select the controllets that receive targets, and return their names by arm.

        Args:
            arms: Names of the arms.
            controllet_type: Type of the controllets.
            period: Period of targets [s].

        Raises:
            ConfigurationError: If an arm has no controllet of this type or no
                ``joint_trajectory_controller``, or ``target_timeout`` is 0 or at most ``period``.
            UnknownName: If the cell has no such arm.
        """
        faults, result = [], {}
        for arm in arms:
            if arm not in self._arms:
                raise UnknownName(f"arm of {self._root}/{NODE}", arm, tuple(self._arms))
            own = [one for one in self._config.instances() if one.arms == (arm,)]
            fitting = [one for one in own if one.type == controllet_type]
            if not fitting:
                faults.append(
                    f"controllets: {arm} has no controllet of type {controllet_type}. Add one to "
                    f"the cell"
                )
            elif not (timeout := fitting[0].target_timeout):
                faults.append(
                    f"controllets.{fitting[0].short_name}.target_timeout: got 0, allowed a "
                    "positive time such as 1.0. With 0 the arm would keep moving when actions stop"
                )
            elif timeout <= period:
                faults.append(
                    f"controllets.{fitting[0].short_name}.target_timeout: got {timeout:g} s, "
                    f"allowed more than a step of {period:g} s"
                )
            if f"{arm}/{APPROACH_CONTROLLET}" not in [one.name for one in own]:
                faults.append(
                    f"controllets: {arm} has no {APPROACH_CONTROLLET} to move it to its start. "
                    "Add one"
                )
            result[arm] = fitting[0].name if fitting else ""
            self._timeouts[arm] = fitting[0].target_timeout if fitting else 0.0
        if faults:
            raise ConfigurationError(*(f"{self._root}/{NODE}: {fault}" for fault in faults))
        self._laws = result
        return result

    def hold(self) -> None:
        """Stop all arms of the cell, which then hold.

        Raises:
            TopicLost: If the node does not answer.
            SwitchRejected: If the node rejects the request.
        """
        answer = self._link.ask(f"{self._root}/stop", Trigger.Request(), self._timeout)
        if not answer.success:
            raise SwitchRejected(f"{self._root}/stop: {answer.message}")

    def recover(self, arms: Sequence[str]) -> None:
        """Clear the faults of arms, and wait until diagnostics report no fault.

        Raises:
            TopicLost: If the node does not answer.
            RecoveryFailed: If an arm keeps its fault; the message has arm and reason.
        """
        failed: dict[str, str] = {}
        for arm in arms:
            name = f"{self._root}/{arm}/{RECOVERY_SERVICE}"
            answer = self._link.ask(name, Trigger.Request(), RECOVERY_RESPONSE_TIMEOUT)
            if not answer.success:
                failed[arm] = f"{name}: {answer.message}"
        if failed:
            raise RecoveryFailed("; ".join(failed.values()), failed)
        self._link.until(lambda: not self._reported_faults(arms), self._timeout)
        if faults := self._reported_faults(arms):
            text = "; ".join(f"{self._root}/{arm}: still has {why}" for arm, why in faults.items())
            raise RecoveryFailed(f"{text}. Remove the cause and recover again", faults)

    def _reported_faults(self, arms: Sequence[str]) -> dict[str, str]:
        found = {arm: self._arms[arm].status for arm in arms}
        return {arm: f"{one.fault}: {one.reason}" for arm, one in found.items() if one.fault}

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: str = "strict",
    ) -> None:
        """Change the active controllets, and wait for the answer of the node.

        Args:
            activate: Names of controllets to activate.
            deactivate: Names of controllets to deactivate. Arms without a controllet hold.
            strictness: Name of a :class:`.Strictness` in lower case, such as ``best_effort``.

        Raises:
            SwitchRejected: If the node rejects the switch; the message has the reason.
            TopicLost: If the node does not answer.
        """
        name = f"{self._root}/controller_manager/switch_controller"
        request = SwitchController.Request(
            activate_controllers=list(activate), deactivate_controllers=list(deactivate),
            strictness=int(Strictness[strictness.upper()]),
        )  # fmt: skip
        answer = self._link.ask(name, request, self._timeout)
        if not answer.ok:
            raise SwitchRejected(f"{name}: {getattr(answer, 'message', '') or 'refused'}")
        self._targets.forget_earlier_targets()
        is_ours = {*activate} == {*self._laws.values()}
        self._since = time.monotonic() if is_ours else 0.0
        self._refused = {
            name: (arm.status.refused, self._targets.sent[name])
            for name, arm in self._arms.items()
        }

    def end(self) -> None:
        """Deactivate the controllets of :meth:`choose`, so that the arms hold."""
        if self._since and self._laws:
            self._since = 0.0
            with contextlib.suppress(MultipandaError):
                self.switch(deactivate=[*self._laws.values()], strictness="best_effort")

    def check(self) -> None:
        """Check that states arrive and that the arms follow the targets.

        Raises:
            TopicLost: If a topic has timed out.
            LoopError: If another client owns an arm or sends it targets, or the arm holds after a
                timeout of its targets.
            TargetRejected: If the node rejects targets; the message has the reason.
        """
        timeout = 3.0 / self._config.cell.diagnostics_rate + self._timeout / 4.0
        now = time.monotonic()
        for name, law in self._laws.items():
            arm = self._arms[name]
            status = arm.status
            for topic in arm.topics:
                topic.check()
            if now - status.received_at > timeout:
                raise TopicLost(
                    f"/diagnostics: no message about {name} for {now - status.received_at:.1f} s, "
                    f"allowed {timeout:.1f} s"
                )
            self._check_target_age_and_senders(name)
            if not self._since or status.received_at < self._since + DIAGNOSTICS_DELAY:
                continue
            if status.owner != law and not status.fault:
                raise LoopError(
                    f"{name}: {status.owner} owns the arm, not {law}. Another client "
                    "switched or stopped it. Call reset()"
                )
            before, sent_before = self._refused[name]
            sent = self._targets.sent[name]
            if sent - sent_before < TARGETS_PER_CHECK or status.received_at == self._judged[name]:
                continue
            self._refused[name], self._judged[name] = (status.refused, sent), status.received_at
            # On a busy machine some targets arrive too late and are rejected, so only a majority
            # of rejections is an error.
            if status.refused - before > (sent - sent_before) / 2:
                raise TargetRejected(f"{name}: the node rejects targets: {status.refusal}")

    def _check_target_age_and_senders(self, name: str) -> None:
        age, timeout = self._targets.target_age(name), self._timeouts[name]
        if age > timeout:
            raise LoopError(
                f"{name}: received no target for {age:.2f} s, allowed {timeout:g} s "
                "(target_timeout). The arm holds, or another client has moved it. Call reset()"
            )
        if topic := self._targets.competing_topic(name):
            raise LoopError(
                f"{name}: another client also sends to {topic}. Stop it and call reset()"
            )


START_DELAY = 0.5
"""Delay of the start of a motion after its request, so that all arms start in one cycle [s]."""
RESULT_TIMEOUT = 10.0
"""Timeout for the result after the end of a motion [s]."""


class RemoteMotion:
    """Client that executes trajectories of several arms with a common start.

    It sends heartbeats, so that the arms hold if its program is killed or suspended. An
    interrupted program cancels its goals.

    Args:
        controllets: Name of the trajectory controllet, by arm.
    """

    def __init__(self, link: NodeLink, root: str, controllets: Mapping[str, str]) -> None:
        self._link = link
        self._clients = {
            arm: ActionClient(
                link.node, FollowJointTrajectory, f"{root}/{law}/follow_joint_trajectory"
            )
            for arm, law in controllets.items()
        }
        self._heartbeats = link.node.create_publisher(
            String, f"{root}/{HEARTBEAT_TOPIC}", QoSProfile(depth=1)
        )
        self._next_heartbeat = 0.0

    def follow(
        self,
        points: Mapping[str, Matrix],
        joints: Mapping[str, tuple[str, ...]],
        now: float,
        timeout: float,
    ) -> None:
        """Execute trajectories, and wait for their ends.

        Args:
            points: Trajectory points by arm, (p, 1 + 3 n): times, positions, velocities,
                accelerations.
            joints: Names of the joints, by arm.
            now: Time of the node [s].
            timeout: Timeout for the acceptance of a goal [s].

        Raises:
            MotionFailed: If a goal is rejected or ends early; the message has the reason.
            TopicLost: If the node does not answer.
        """
        for arm in points:
            if not self._link.until(self._clients[arm].server_is_ready, timeout):
                raise TopicLost(
                    f"{arm}: the action follow_joint_trajectory was not found. Check "
                    "that the node is active"
                )
        start = now + START_DELAY
        moved, handles = [*points], dict[str, Any]()
        self._send_heartbeat(moved)
        try:
            requested = {
                arm: self._clients[arm].send_goal_async(_goal(rows, joints[arm], start))
                for arm, rows in points.items()
            }
            for arm, future in requested.items():
                handles[arm] = self._wait(future, timeout, arm, moved)
            results = {arm: handle.get_result_async() for arm, handle in handles.items()}
            ends = (
                START_DELAY + max(float(rows[-1, 0]) for rows in points.values()) + RESULT_TIMEOUT
            )
            for arm, future in results.items():
                result = self._wait(future, ends, arm, moved).result
                if result.error_code != FollowJointTrajectory.Result.SUCCESSFUL:
                    raise MotionFailed(f"{arm}: {result.error_string}")
        except BaseException:  # Goals must also end if the program is interrupted.
            # A goal that the node has not accepted yet cannot be cancelled. It ends when the
            # heartbeats stop.
            for handle in handles.values():
                handle.cancel_goal_async()
            raise
        self._send_heartbeat([])

    def _wait(self, future: Any, timeout: float, arm: str, moved: list[str]) -> Any:
        def is_done() -> bool:
            if time.monotonic() > self._next_heartbeat:
                self._send_heartbeat(moved)
            return bool(future.done())

        if not self._link.until(is_done, timeout):
            raise TopicLost(
                f"{arm}: no answer of the action follow_joint_trajectory within {timeout:.1f} s"
            )
        return future.result()

    def _send_heartbeat(self, moved_arms: list[str]) -> None:
        self._next_heartbeat = time.monotonic() + LEASE_DURATION / 5.0
        self._heartbeats.publish(String(data=" ".join((self._link.node.get_name(), *moved_arms))))


def _goal(rows: Matrix, joints: tuple[str, ...], start: float) -> Any:
    n = len(joints)
    points = [
        JointTrajectoryPoint(
            time_from_start=Duration(sec=int(row[0]), nanosec=int(row[0] % 1.0 * 1e9)),
            positions=row[1 : 1 + n].tolist(),
            velocities=row[1 + n : 1 + 2 * n].tolist(),
            accelerations=row[1 + 2 * n :].tolist(),
        )
        for row in rows
    ]
    trajectory = JointTrajectory(joint_names=list(joints), points=points)
    trajectory.header.stamp = Time(sec=int(start), nanosec=int(start % 1.0 * 1e9))
    return FollowJointTrajectory.Goal(trajectory=trajectory)
