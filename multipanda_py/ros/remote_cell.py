# SPDX-License-Identifier: Apache-2.0
"""A cell that a running node moves, for programs that act on cells: environments, policies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from controller_manager_msgs.srv import SwitchController
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from numpy.typing import ArrayLike
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from multipanda_py.cell.move_finder import MoveFinder
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import movable_things
from multipanda_py.config.node_names import NODE, refuse_namespace
from multipanda_py.exceptions import (
    ConfigurationError,
    LoopError,
    LoopTimeout,
    MotionFailed,
    MultipandaError,
    SwitchRejected,
    TargetRejected,
    TopicLost,
    UnknownName,
)
from multipanda_py.moves.move_plan import MovePlan
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client_link import ClientLink, HeardTopic
from multipanda_py.ros.qos import NUMBERS
from multipanda_py.ros.remote_arm import RemoteArm
from multipanda_py.ros.remote_gripper import RemoteGripper
from multipanda_py.ros.remote_motion import RemoteMotion
from multipanda_py.ros.remote_targets import RemoteTargets
from multipanda_py.ros.remote_world import RemoteWorld, pose_from
from multipanda_py.ros.settings import nested
from multipanda_py.state import ArmSnapshot

PATIENCE = 20.0
"""For a node to be found, and for its answers [s]."""
STALE = 0.5
"""How old a state may be, where states come fast enough [s]."""
SETTLED = 0.5
"""How long after a switch diagnostics may still tell of before [s]."""
JUDGED = 10
"""Targets of which the node may refuse up to half [-]."""
FOLLOWER = "joint_trajectory_controller"
"""Law by which arms go to where they start."""


class RosCell:
    """Stand for a cell of a running node, with the part of :class:`.Cell` that an actor needs.

    What the cell is, the node's parameters say; all else goes by the topics, services and actions
    of ``doc/ros_interface.md``. The node's gates judge every target, and its laws hold their arms
    when targets stop.

    Args:
        namespace: Of the node, such as ``/lab``; empty for none.
        patience: For the node to be found, and for its answers [s].

    Attributes:
        config: The cell as it runs there.

    Raises:
        TopicLost: If there is no such node, or a topic of it is silent; says which.
        ConfigurationError: If it is no cell.

    Thread: one; another one of its own hears.
    """

    is_remote = True

    def __init__(self, namespace: str = "", patience: float = PATIENCE) -> None:
        refuse_namespace(namespace)
        self._root = f"/{namespace.strip('/')}".rstrip("/")
        self._patience = patience
        try:
            self._connect(patience / 2.0)
        except TopicLost:
            # A newcomer of Fast DDS is now and then never told of some endpoints; the next one is.
            self._link.close()
            try:
                self._connect(patience)
            except MultipandaError:
                self._link.close()
                raise

    def _connect(self, patience: float) -> None:
        self._link = link = ClientLink("cell_client")
        self.config = self._read_config(patience)
        self._names = CellNames(self.config)
        stale = max(STALE, 5.0 / self.config.cell.joint_state_rate)
        merged = link.hear(JointState, f"{self._root}/joint_states", stale)
        self._arms = {
            name: RemoteArm(link, self._root, name, arm, stale, merged)
            for name, arm in self.descriptions.items()
        }
        link.node.create_subscription(DiagnosticArray, "/diagnostics", self._diagnose, NUMBERS)
        for kind, name in (
            (SwitchController, "controller_manager/switch_controller"),
            (Trigger, "stop"),
        ):
            link.client(kind, f"{self._root}/{name}")
        self._things = {
            name: link.hear(PoseStamped, f"{self._root}/objects/{name}/pose", stale)
            for name in movable_things(self.config)
        }
        self._world = RemoteWorld(link, self._root, self.config, self._things, patience)
        self._grippers = {
            name: RemoteGripper(link, self._root, self._arms[name], arm.gripper)
            for name, arm in self.descriptions.items()
            if arm.gripper is not None
        }
        self._targets = RemoteTargets(link, self._root, self._names, self._arms)
        self._laws: dict[str, str] = {}
        self._since, self._judged = 0.0, dict.fromkeys(self._arms, 0.0)
        self._refused = dict.fromkeys(self._arms, (0, 0))
        needed = [topic for arm in self._arms.values() for topic in arm.topics]
        self._hear_all(needed, patience)
        self._origin = min(arm.stamp for arm in self._arms.values())

    def _read_config(self, patience: float) -> CellConfig:
        """Return the cell that the node's parameters describe."""
        node = f"{self._root}/{NODE}"
        for kind, name in ((ListParameters, "list"), (GetParameters, "get")):
            self._link.client(kind, f"{node}/{name}_parameters")
        ask: Any = ListParameters.Request
        listed = self._link.call(f"{node}/list_parameters", ask(), patience)
        groups = {*CellConfig.model_fields}
        names = [name for name in listed.result.names if name.split(".")[0] in groups]
        answer = self._link.call(
            f"{node}/get_parameters", GetParameters.Request(names=names), patience
        )
        values = [parameter_value_to_python(value) for value in answer.values]
        if not names:
            raise ConfigurationError(f"{node}: runs no cell; configure and activate it")
        return CellConfig.from_dict(nested(dict(zip(names, values))), node)

    def _hear_all(self, topics: Sequence[HeardTopic], patience: float) -> None:
        """Wait until everything has been heard once.

        Raises:
            TopicLost: With what has not.
        """

        def silent() -> list[str]:
            untold = [arm.name for arm in self._arms.values() if arm.told < 0.0]
            found = [topic.name for topic in topics if not topic.count]
            return [*dict.fromkeys(found), *(f"/diagnostics of {name}" for name in untold)]

        if not self._link.until(lambda: not silent(), patience):
            raise TopicLost(
                f"{', '.join(silent())}: nothing heard within {patience:g} s from the node "
                f"{self._root}/{NODE}; is it active, and its simulation not paused?"
            )

    @property
    def descriptions(self) -> Mapping[str, ArmDescription]:
        """What the arms are, by name."""
        return self._names.descriptions

    @property
    def world(self) -> RemoteWorld:
        """The world of simulated arms."""
        return self._world

    @property
    def time(self) -> float:
        """When the newest states of all arms were measured, from the first one on [s]."""
        return min(arm.stamp for arm in self._arms.values()) - self._origin

    def at(self, time: float) -> RosCell:
        """Return what was heard last: of instants before nothing is kept."""
        return self

    def laws_for(self, arms: Sequence[str], law: str, period: float) -> dict[str, str]:
        """Return by arm the controllet of a type that targets are for, and get ready to send them.

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
            own = [one for one in self.config.instances() if one.arms == (arm,)]
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
        if faults:
            raise ConfigurationError(*(f"{self._root}/{NODE}: {fault}" for fault in faults))
        self._laws = found
        self._targets.offer(found)
        self._motion = RemoteMotion(
            self._link, self._root, {arm: f"{arm}/{FOLLOWER}" for arm in arms}
        )
        return found

    def start(self) -> None:
        """Serve from now on; wait until the node hears targets, and its states are heard anew.

        Raises:
            TopicLost: If it does not, or they are not.
        """
        self._link.start()
        self._targets.wait(self._patience)
        topics = [topic for arm in self._arms.values() for topic in arm.topics]
        if not self._link.until(lambda: all(topic.is_new for topic in topics), self._patience):
            for topic in topics:
                topic.check()

    def close(self) -> None:
        """Let arms hold, and leave; safe to call twice."""
        if self._since and self._laws:
            self._since = 0.0
            with contextlib.suppress(MultipandaError):
                self.switch(deactivate=[*self._laws.values()], strictness="best_effort")
        self._link.close()

    def state(self, arm: str) -> ArmSnapshot:
        """Return the newest state of an arm.

        Raises:
            TopicLost: If there is none, or it is too old.
        """
        return self._arms[arm].state(self.time)

    def pose(self, arm: str) -> Pose:
        """Return the measured pose of a tool in the base of its arm; raises as :meth:`state`."""
        return self._arms[arm].pose()

    def objects(self) -> dict[str, Pose]:
        """Return where movable things are in the world, whoever says so.

        Raises:
            TopicLost: If nobody does of one that the cell has from the start.
        """
        return {
            name: pose_from(topic)
            for name, topic in self._things.items()
            if topic.count or self.config.objects[name].present
        }

    def gripper(self, arm: str) -> RemoteGripper:
        """Return the hand of an arm.

        Raises:
            UnknownName: If it has none.
        """
        if arm not in self._grippers:
            raise UnknownName("gripper of arm", arm, tuple(self._grippers))
        return self._grippers[arm]

    def held(self) -> dict[str, str]:
        """Return what is in hands: no topic says it, so nothing."""
        return {}

    def set_target(
        self,
        arm: str,
        pose: Pose | None = None,
        *,
        q: ArrayLike | None = None,
        wrench: ArrayLike | None = None,
    ) -> None:
        """Send targets of an arm, in the axes of its base.

        Raises:
            TargetRejected: If a number is not finite; nothing is sent.
        """
        self._targets.send(arm, pose, q, wrench)

    def hold(self) -> None:
        """Have every arm of the cell hold.

        Raises:
            TopicLost: If the node does not answer.
            SwitchRejected: If it refuses.
        """
        answer = self._link.call(f"{self._root}/stop", Trigger.Request(), self._patience)
        if not answer.success:
            raise SwitchRejected(f"{self._root}/stop: {answer.message}")

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
        answer = self._link.call(name, request, self._patience)
        if not answer.ok:
            raise SwitchRejected(f"{name}: {getattr(answer, 'message', '') or 'refused'}")
        is_ours = {*activate} == {*self._laws.values()}
        self._since = time.monotonic() if is_ours else 0.0
        self._refused = {
            name: (arm.refused[0], self._targets.sent[name]) for name, arm in self._arms.items()
        }

    def move_to(self, goals: Mapping[str, ArrayLike]) -> MovePlan:
        """Go to postures without touching anything, by the node's trajectory actions.

        Args:
            goals: Postures by arm, (n,) [rad, m].

        Raises:
            PlanRejected: If there is no such motion, or arms do not rest.
            MotionFailed: If one ended before its goal; all arms hold.
        """
        # It reads states and things of this cell.
        plan = MoveFinder(self._names, cast("Any", self), cast("Any", self)).plan(dict(goals))
        points = {arm: plan.points[arm] for arm in plan.moving}
        if not points:
            return plan
        joints = {arm: self.descriptions[arm].joint_names for arm in points}
        try:
            now = self._arms[next(iter(points))].now
            self._motion.follow(points, joints, now, self._patience)
        except (MotionFailed, TopicLost):
            self.hold()
            raise
        return plan

    def wait(self, condition: Callable[[], bool], timeout: float, what: str = "condition") -> None:
        """Wait for a condition.

        Raises:
            LoopTimeout: If it does not hold in time.
        """
        if not self._link.until(condition, timeout):
            raise LoopTimeout(f"{what} did not come about within {timeout:g} s")

    def check(self) -> None:
        """Raise if states are missing, or arms do not do what they are told.

        Raises:
            TopicLost: If a topic is silent.
            LoopError: If somebody else has an arm.
            TargetRejected: If the node refuses targets; says why.
        """
        silence = 3.0 / self.config.cell.diagnostics_rate + self._patience / 4.0
        now = time.monotonic()
        for name, law in self._laws.items():
            arm = self._arms[name]
            for topic in arm.topics:
                topic.check()
            if now - arm.told > silence:
                raise TopicLost(
                    f"/diagnostics: nothing heard of {name} for {now - arm.told:.1f} s, allowed "
                    f"{silence:.1f} s"
                )
            if not self._since or arm.told < self._since + SETTLED:
                continue
            if arm.owner != law and not arm.fault:
                raise LoopError(
                    f"{name}: {arm.owner} has the arm, not {law}: somebody has switched or "
                    "stopped it; reset() begins anew"
                )
            count, reason = arm.refused
            before, sent_before = self._refused[name]
            sent = self._targets.sent[name]
            if sent - sent_before < JUDGED or arm.told == self._judged[name]:
                continue
            self._refused[name], self._judged[name] = (count, sent), arm.told
            if count - before > (sent - sent_before) / 2:  # some may be, on a busy machine
                raise TargetRejected(f"{name}: the node refuses targets: {reason}")

    def _diagnose(self, message: Any) -> None:
        for status in message.status:
            cell, _, name = status.hardware_id.rpartition("/")
            if cell == self.config.cell.name and name in self._arms:
                self._arms[name].tell({item.key: item.value for item in status.values})
