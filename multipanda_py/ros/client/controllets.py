# SPDX-License-Identifier: Apache-2.0
"""Motions of arms of a running node, by its trajectory actions."""

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
from multipanda_py.config.node_names import NODE
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
from multipanda_py.ros.client.target_publisher import LEASE, TOPIC, RemoteTargets
from multipanda_py.ros.services.arms import ANSWERED
from multipanda_py.state import Matrix

SETTLED = 0.5
"""How long after a switch diagnostics may still tell of before [s]."""
JUDGED = 10
"""Targets of which the node may refuse up to half [-]."""
FOLLOWER = "joint_trajectory_controller"
"""Law by which arms go to where they start."""
RECOVERY = "error_recovery"
"""Service of an arm that clears its fault."""


class RemoteLaws:
    """Switch laws of a node, and watch that they do what they are told.

    Args:
        link: Asks.
        root: Namespace of the cell, with a slash in front, or nothing.
        config: The cell.
        arms: By name.
        targets: That are sent to them.
        patience: For answers [s].
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        config: CellConfig,
        arms: Mapping[str, RemoteArm],
        targets: RemoteTargets,
        patience: float,
    ) -> None:
        self._link, self._root, self._config, self._patience = link, root, config, patience
        self._arms, self._targets = arms, targets
        for kind, name in (
            (SwitchController, "controller_manager/switch_controller"),
            (Trigger, "stop"),
            *((Trigger, f"{arm}/{RECOVERY}") for arm in arms),
        ):
            link.offer(kind, f"{root}/{name}")
        self._laws: dict[str, str] = {}
        self._timeouts = dict.fromkeys(arms, 0.0)
        self._since, self._judged = 0.0, dict.fromkeys(arms, 0.0)
        self._refused = dict.fromkeys(arms, (0, 0))

    def choose(self, arms: Sequence[str], law: str, period: float) -> dict[str, str]:
        """Return by arm the controllet of a type that targets are for from now on.

        Args:
            arms: Names.
            law: Type of the controllet.
            period: Between two targets [s].

        Raises:
            ConfigurationError: If an arm has no such controllet, or one that does not hold when
                targets stop, or none that goes to where the arm starts.
            UnknownName: If the cell has no such arm.
        """
        faults, found = [], {}
        for arm in arms:
            if arm not in self._arms:
                raise UnknownName(f"arm of {self._root}/{NODE}", arm, tuple(self._arms))
            own = [one for one in self._config.instances() if one.arms == (arm,)]
            fitting = [one for one in own if one.type == law]
            if not fitting:
                faults.append(f"controllets: {arm} has none of type {law}; add one to the cell")
            elif not (timeout := fitting[0].target_timeout):
                faults.append(
                    f"controllets.{fitting[0].short_name}.target_timeout: got 0, allowed more, "
                    "1.0 for example: else the arm would go on when actions stop"
                )
            elif timeout <= period:
                faults.append(
                    f"controllets.{fitting[0].short_name}.target_timeout: got {timeout:g} s, "
                    f"allowed more than a step of {period:g} s"
                )
            if f"{arm}/{FOLLOWER}" not in [one.name for one in own]:
                faults.append(f"controllets: {arm} has no {FOLLOWER}, by which it goes home")
            found[arm] = fitting[0].name if fitting else ""
            self._timeouts[arm] = fitting[0].target_timeout if fitting else 0.0
        if faults:
            raise ConfigurationError(*(f"{self._root}/{NODE}: {fault}" for fault in faults))
        self._laws = found
        return found

    def hold(self) -> None:
        """Have every arm of the cell hold.

        Raises:
            TopicLost: If the node does not answer.
            SwitchRejected: If it refuses.
        """
        answer = self._link.ask(f"{self._root}/stop", Trigger.Request(), self._patience)
        if not answer.success:
            raise SwitchRejected(f"{self._root}/stop: {answer.message}")

    def recover(self, arms: Sequence[str]) -> None:
        """Clear faults of arms, and wait until diagnostics tell of it.

        Args:
            arms: Names of the arms; each is requested, also if another one keeps its fault.

        Raises:
            TopicLost: If the node does not answer.
            RecoveryFailed: If an arm keeps its fault; names it and the reason.
        """
        failed: dict[str, str] = {}
        for arm in arms:
            name = f"{self._root}/{arm}/{RECOVERY}"
            answer = self._link.ask(name, Trigger.Request(), ANSWERED)
            if not answer.success:
                failed[arm] = f"{name}: {answer.message}"
        if failed:
            raise RecoveryFailed("; ".join(failed.values()), failed)
        self._link.until(
            lambda: not any(self._arms[arm].status.fault for arm in arms), self._patience
        )

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: str = "strict",
    ) -> None:
        """Change the active laws; as :meth:`.Cell.switch`.

        Raises:
            SwitchRejected: If the node refuses; says why.
            TopicLost: If it does not answer.
        """
        name = f"{self._root}/controller_manager/switch_controller"
        request = SwitchController.Request(
            activate_controllers=list(activate), deactivate_controllers=list(deactivate),
            strictness=int(Strictness[strictness.upper()]),
        )  # fmt: skip
        answer = self._link.ask(name, request, self._patience)
        if not answer.ok:
            raise SwitchRejected(f"{name}: {getattr(answer, 'message', '') or 'refused'}")
        self._targets.begin()
        is_ours = {*activate} == {*self._laws.values()}
        self._since = time.monotonic() if is_ours else 0.0
        self._refused = {
            name: (arm.status.refused, self._targets.sent[name])
            for name, arm in self._arms.items()
        }

    def end(self) -> None:
        """Let arms hold, if laws of :meth:`choose` have them."""
        if self._since and self._laws:
            self._since = 0.0
            with contextlib.suppress(MultipandaError):
                self.switch(deactivate=[*self._laws.values()], strictness="best_effort")

    def check(self) -> None:
        """Raise if states are missing, or arms do not do what they are told.

        Raises:
            TopicLost: If a topic is silent.
            LoopError: If somebody else has an arm or gives it targets, or it holds as none came.
            TargetRejected: If the node refuses targets; says why.
        """
        silence = 3.0 / self._config.cell.diagnostics_rate + self._patience / 4.0
        now = time.monotonic()
        for name, law in self._laws.items():
            arm = self._arms[name]
            said = arm.status
            for topic in arm.topics:
                topic.check()
            if now - said.heard > silence:
                raise TopicLost(
                    f"/diagnostics: nothing heard of {name} for {now - said.heard:.1f} s, allowed "
                    f"{silence:.1f} s"
                )
            self._check_alone(name)
            if not self._since or said.heard < self._since + SETTLED:
                continue
            if said.owner != law and not said.fault:
                raise LoopError(
                    f"{name}: {said.owner} has the arm, not {law}: somebody has switched or "
                    "stopped it; reset() begins anew"
                )
            before, sent_before = self._refused[name]
            sent = self._targets.sent[name]
            if sent - sent_before < JUDGED or said.heard == self._judged[name]:
                continue
            self._refused[name], self._judged[name] = (said.refused, sent), said.heard
            if said.refused - before > (sent - sent_before) / 2:  # some may be, on a busy machine
                raise TargetRejected(f"{name}: the node refuses targets: {said.refusal}")

    def _check_alone(self, name: str) -> None:
        """Raise if an arm had time to go elsewhere since its last target, or is pulled at."""
        silence, most = self._targets.silence(name), self._timeouts[name]
        if silence > most:
            raise LoopError(
                f"{name}: was given no target for {silence:.2f} s, allowed {most:g} s "
                "(target_timeout): it holds, or somebody else has moved it; reset() begins anew"
            )
        if topic := self._targets.of_others(name):
            raise LoopError(f"{name}: somebody else sends to {topic}, too; reset() begins anew")


AHEAD = 0.5
"""How long after it is sent a motion begins, so that all arms begin in one cycle [s]."""
LATE = 10.0
"""How long after its end a node may be silent about it [s]."""


class RemoteMotion:
    """Send arms' trajectories, which begin together, and wait for their ends.

    An action goes on without its client. So it is said all the while that this program moves arms:
    when it is killed, or stopped, they hold. One that is interrupted takes its goals back.

    Args:
        link: Sends.
        root: Namespace of the cell.
        laws: Name of the law that follows trajectories, by arm.
    """

    def __init__(self, link: NodeLink, root: str, laws: Mapping[str, str]) -> None:
        self._link = link
        self._clients = {
            arm: ActionClient(
                link.node, FollowJointTrajectory, f"{root}/{law}/follow_joint_trajectory"
            )
            for arm, law in laws.items()
        }
        self._signs = link.node.create_publisher(String, f"{root}/{TOPIC}", QoSProfile(depth=1))
        self._sign_at = 0.0

    def follow(
        self,
        points: Mapping[str, Matrix],
        joints: Mapping[str, tuple[str, ...]],
        now: float,
        patience: float,
    ) -> None:
        """Have arms follow trajectories to their ends.

        Args:
            points: By arm, (p, 1 + 3 n): times, positions, velocities, accelerations.
            joints: Names of the joints, by arm.
            now: The node's time [s].
            patience: For the node to take a goal [s].

        Raises:
            MotionFailed: If one is refused or ends before its goal, with why.
            TopicLost: If the node does not answer.
        """
        for arm in points:
            if not self._link.until(self._clients[arm].server_is_ready, patience):
                raise TopicLost(f"{arm}: its action follow_joint_trajectory is not there")
        begin = now + AHEAD
        moved, handles = [*points], dict[str, Any]()
        self._say_moved(moved)
        try:
            asked = {
                arm: self._clients[arm].send_goal_async(_goal(rows, joints[arm], begin))
                for arm, rows in points.items()
            }
            for arm, future in asked.items():
                handles[arm] = self._wait(future, patience, arm, moved)
            results = {arm: handle.get_result_async() for arm, handle in handles.items()}
            ends = AHEAD + max(float(rows[-1, 0]) for rows in points.values()) + LATE
            for arm, future in results.items():
                result = self._wait(future, ends, arm, moved).result
                if result.error_code != FollowJointTrajectory.Result.SUCCESSFUL:
                    raise MotionFailed(f"{arm}: {result.error_string}")
        except BaseException:  # of an interrupted program, too; what is not taken back here ends
            for handle in handles.values():  # as nothing is said of it any more
                handle.cancel_goal_async()
            raise
        self._say_moved([])

    def _wait(self, future: Any, timeout: float, arm: str, moved: list[str]) -> Any:
        def is_done() -> bool:
            if time.monotonic() > self._sign_at:
                self._say_moved(moved)
            return bool(future.done())

        if not self._link.until(is_done, timeout):
            raise TopicLost(
                f"{arm}: no answer of its action follow_joint_trajectory within {timeout:.1f} s"
            )
        return future.result()

    def _say_moved(self, arms: list[str]) -> None:
        """Say that this program moves arms now, or none any more."""
        self._sign_at = time.monotonic() + LEASE / 5.0
        self._signs.publish(String(data=" ".join((self._link.node.get_name(), *arms))))


def _goal(rows: Matrix, joints: tuple[str, ...], begin: float) -> Any:
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
    trajectory.header.stamp = Time(sec=int(begin), nanosec=int(begin % 1.0 * 1e9))
    return FollowJointTrajectory.Goal(trajectory=trajectory)
