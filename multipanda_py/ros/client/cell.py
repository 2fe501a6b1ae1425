# SPDX-License-Identifier: Apache-2.0
"""Remote cell of a running node, with its states and objects, for environments and policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from geometry_msgs.msg import PoseStamped
from numpy.typing import ArrayLike
from sensor_msgs.msg import JointState

from multipanda_py.cell.motion_finder import MoveFinder
from multipanda_py.cell.names import CellNames
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import first_arm_without_simulation, movable_objects
from multipanda_py.config.parameter_file import NODE, refuse_namespace
from multipanda_py.exceptions import (
    LoopTimeout,
    MotionFailed,
    SimulationRejected,
    TopicLost,
    UnknownName,
)
from multipanda_py.planning.motions.motion_request import MotionPlan
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client.arm import RemoteArm, RemoteGripper
from multipanda_py.ros.client.cell_state import NodeStatus
from multipanda_py.ros.client.controllets import (
    APPROACH_CONTROLLET,
    RemoteControllets,
    RemoteMotion,
)
from multipanda_py.ros.client.node_link import LatestMessage, NodeLink, unique_node_name
from multipanda_py.ros.client.target_publisher import RemoteTargets
from multipanda_py.ros.node.conversions import WORLD, read_pose, write_pose
from multipanda_py.ros.node.settings import ask_for_cell
from multipanda_py.state import ArmSnapshot

try:
    from simulation_interfaces.msg import Result
    from simulation_interfaces.srv import SetEntityState
except ImportError:  # Not every ROS distribution has this package.
    SetEntityState = None

TIMEOUT = 20.0
"""Timeout for the discovery of a node and for its answers [s]."""
MIN_STATE_TIMEOUT = 0.5
"""Minimum timeout of a state topic [s]; longer at low state rates."""


class RosCell:
    """Client of a running node, with the methods of :class:`.Cell` that environments use.

    The gates of the node check every target. Arms hold when their targets stop.

    Args:
        namespace: Namespace of the node, such as ``/lab``; empty for none.
        timeout: Timeout for the discovery of the node and for its answers [s].

    Attributes:
        config: Configuration of the cell, from the parameters of the node.
        states: States that are received from the node.
        targets: Publisher of targets to the node.

    Raises:
        TopicLost: If there is no such node, or a topic has timed out; the message names it.
        ConfigurationError: If the configuration of the node is not a valid cell.

    Thread: one; a separate thread receives messages.
    """

    is_remote = True

    def __init__(self, namespace: str = "", timeout: float = TIMEOUT) -> None:
        refuse_namespace(namespace)
        self._root = f"/{namespace.strip('/')}".rstrip("/")
        self._timeout = timeout
        try:
            self._connect(timeout / 2.0)
        except TopicLost:
            # A new participant of Fast DDS sometimes misses endpoints. A second participant
            # usually finds them.
            self._connect(timeout)

    def _connect(self, timeout: float) -> None:
        self._link = NodeLink(unique_node_name("cell_client"))
        try:
            self._start(self._link, timeout)
        except BaseException:
            self._link.close()
            raise

    def _start(self, link: NodeLink, timeout: float) -> None:
        self.config = config = ask_for_cell(link, self._root, timeout)
        self._names = CellNames(config)
        self.states = states = RemoteStates(link, self._root, config, self.descriptions)
        self._world = RemoteWorld(link, self._root, config, states.object_topics, timeout)
        self._grippers = {
            name: RemoteGripper(link, self._root, states.arms[name], arm.gripper)
            for name, arm in self.descriptions.items()
            if arm.gripper is not None
        }
        self.targets = RemoteTargets(link, self._root, self._names, states.arms)
        self._motion: RemoteMotion | None = None
        self._laws = RemoteControllets(
            link, self._root, config, states.arms, self.targets, self._timeout
        )
        states.wait_for_states(timeout)

    @property
    def descriptions(self) -> Mapping[str, ArmDescription]:
        return self._names.descriptions

    @property
    def world(self) -> RemoteWorld:
        return self._world

    @property
    def time(self) -> float:
        """Earliest measurement time of the arms' newest states, since this client exists [s]."""
        return self.states.time

    def snapshot_at(self, time: float) -> RosCell:
        """Return this cell itself, which has the newest states; ``time`` is ignored."""
        return self

    def controllets_for(
        self, arms: Sequence[str], controllet_type: str, period: float
    ) -> dict[str, str]:
        """Select the controllet of a type on each arm as receiver of targets.

        Args:
            arms: Names of the arms.
            controllet_type: Type of the controllet.
            period: Period of targets [s].

        Returns:
            Names of the controllets, by arm.

        Raises:
            ConfigurationError: If an arm has no controllet of this type or no
                ``joint_trajectory_controller``, or ``target_timeout`` is 0 or at most ``period``.
            UnknownName: If the cell has no such arm.
        """
        laws = self._laws.choose(arms, controllet_type, period)
        self.targets.offer(laws)
        self._motion = self._motion_of(arms)
        return laws

    def _motion_of(self, arms: Iterable[str]) -> RemoteMotion:
        return RemoteMotion(
            self._link, self._root, {arm: f"{arm}/{APPROACH_CONTROLLET}" for arm in arms}
        )

    def start(self) -> None:
        """Receive states, and wait until they are recent and the node subscribes to targets.

        Raises:
            TopicLost: If the node does not subscribe, or states are missing.
        """
        self._link.start()
        self.targets.wait(self._timeout)
        self.states.wait_until_recent(self._timeout)

    def close(self) -> None:
        """Put the arms with targets of this client on hold, and disconnect; safe to call twice."""
        self._laws.end()
        self._link.close()

    def state(self, arm: str) -> ArmSnapshot:
        """Return the newest state of an arm.

        Raises:
            TopicLost: If there is no state, or it is too old.
        """
        return self.states.arms[arm].state(self.time)

    def pose(self, arm: str) -> Pose:
        """Return the measured tool pose in the base of its arm; raises as :meth:`state`."""
        return self.states.arms[arm].pose()

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable objects in the world.

        Raises:
            TopicLost: If an object with ``present: true``, the default, has no pose yet.
        """
        return self.states.objects()

    def gripper(self, arm: str) -> RemoteGripper:
        """Return the gripper of an arm.

        Raises:
            UnknownName: If the arm has no gripper.
        """
        if arm not in self._grippers:
            raise UnknownName("gripper of arm", arm, tuple(self._grippers))
        return self._grippers[arm]

    def attached_objects(self) -> dict[str, str]:
        """Return an empty mapping, because no topic reports attached objects."""
        return {}

    def set_target(
        self,
        arm: str,
        pose: Pose | None = None,
        *,
        q: ArrayLike | None = None,
        wrench: ArrayLike | None = None,
    ) -> None:
        """Send one or several targets to an arm. A value of None leaves that target unchanged.

        Args:
            arm: Name of the arm.
            pose: Pose of the tool in the base.
            q: Joint positions, (n,) [rad, m].
            wrench: Wrench of the tool along the axes of the base, (6,) [N, Nm].

        Raises:
            TargetRejected: If a number is not finite; nothing is sent.
        """
        self.targets.send(arm, pose, q, wrench)

    def hold(self) -> None:
        """Stop all arms of the cell, which then hold.

        Raises:
            TopicLost: If the node does not answer.
            SwitchRejected: If the node rejects the request.
        """
        self._laws.hold()

    def recover(self, arms: Sequence[str] | None = None) -> tuple[str, ...]:
        """Clear the faults of arms, wait until diagnostics report none, and return the arm names.

        Args:
            arms: Names of the arms; None for all arms.

        Raises:
            TopicLost: If the node does not answer.
            RecoveryFailed: If an arm keeps its fault; the message has arm and reason.
        """
        chosen = tuple(self.descriptions) if arms is None else tuple(arms)
        self._laws.recover(chosen)
        return chosen

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events after the first ``count``."""
        return self.states.events_since(count)

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
        self._laws.switch(activate, deactivate, strictness)

    def move_to(self, goals: Mapping[str, ArrayLike]) -> MotionPlan:
        """Move to joint configurations without collision, by the node's trajectory actions.

        Args:
            goals: Joint configurations by arm, (n,) [rad, m].

        Raises:
            PlanRejected: If no such motion is found, or the arms are not at rest.
            MotionFailed: If a motion ended before its goal; all arms hold.
        """
        # The casts are safe: this cell has all methods that the planner calls.
        plan = MoveFinder(self._names, cast("Any", self), cast("Any", self)).plan(dict(goals))
        points = {arm: plan.points[arm] for arm in plan.moving}
        if not points:
            return plan
        joints = {arm: self.descriptions[arm].joint_names for arm in points}
        try:
            now = self.states.arms[next(iter(points))].now
            if self._motion is None:
                self._motion = self._motion_of(self.descriptions)
            self._motion.follow(points, joints, now, self._timeout)
        except (MotionFailed, TopicLost):
            self.hold()
            raise
        return plan

    def wait(
        self, condition: Callable[[], bool], timeout: float, description: str = "condition"
    ) -> None:
        """Wait for a condition.

        Args:
            condition: Function that returns True when the condition is met.
            timeout: Maximum waiting time [s].
            description: Name of the condition, for the message.

        Raises:
            LoopTimeout: If the condition is not met in time.
        """
        if not self._link.until(condition, timeout):
            raise LoopTimeout(f"{description} was not reached within {timeout:g} s")

    def check(self) -> None:
        """Check that states arrive and that the arms follow the targets.

        Raises:
            TopicLost: If a topic has timed out.
            LoopError: If another client owns an arm.
            TargetRejected: If the node rejects targets; the message has the reason.
        """
        self._link.check()
        self._laws.check()


class RemoteStates:
    """Subscriptions to the states of a cell.

    Attributes:
        arms: States of the arms, by name.
        object_topics: Subscriptions to the poses of movable objects, by name.
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        config: CellConfig,
        descriptions: Mapping[str, ArmDescription],
    ) -> None:
        self._link, self._root, self._config, self._origin = link, root, config, 0.0
        max_age = max(MIN_STATE_TIMEOUT, 5.0 / config.cell.joint_state_rate)
        all_joints = link.hear(JointState, f"{root}/joint_states", max_age)
        status = self._status = NodeStatus(config, link.node)
        self.arms = {
            name: RemoteArm(link, root, name, arm, max_age, all_joints, status)
            for name, arm in descriptions.items()
        }
        self.object_topics = {
            name: link.hear(PoseStamped, f"{root}/objects/{name}/pose", max_age, read_pose)
            for name in movable_objects(config)
        }

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events after the first ``count``."""
        return self._status.events_since(count)

    @property
    def topics(self) -> list[LatestMessage]:
        """Subscriptions that are required for the states of all arms."""
        return [topic for arm in self.arms.values() for topic in arm.topics]

    @property
    def time(self) -> float:
        """Earliest measurement time of the newest states, since :meth:`wait_for_states` [s]."""
        return min(arm.stamp for arm in self.arms.values()) - self._origin

    def wait_for_states(self, timeout: float) -> None:
        """Wait for a message on every state topic, then set :attr:`time` to zero.

        Args:
            timeout: Maximum time to wait [s].

        Raises:
            TopicLost: If a topic has no message in time; the message lists these topics.
        """

        def silent() -> list[str]:
            unknown = [arm.name for arm in self.arms.values() if arm.status.received_at < 0.0]
            result = [topic.name for topic in self.topics if not topic.count]
            return [*dict.fromkeys(result), *(f"/diagnostics of {name}" for name in unknown)]

        self._link.need(
            silent, timeout, f"no message from {self._root}/{NODE}",
            ". Check that it is active and its simulation not paused",
        )  # fmt: skip
        self._origin = min(arm.stamp for arm in self.arms.values())

    def wait_until_recent(self, timeout: float) -> None:
        """Wait until the newest state of every arm is recent.

        Args:
            timeout: Maximum time to wait [s].

        Raises:
            TopicLost: If a state is still too old after the timeout.
        """
        topics = self.topics
        if not self._link.until(lambda: all(topic.is_new for topic in topics), timeout):
            for topic in topics:
                topic.check()

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable objects in the world.

        Raises:
            TopicLost: If an object with ``present: true``, the default, has no pose yet.
        """
        return {
            name: _in_world(topic)
            for name, topic in self.object_topics.items()
            if topic.count or self._config.objects[name].present
        }


def _in_world(topic: LatestMessage) -> Pose:
    message = topic.message()
    if message.frame not in ("", WORLD):
        raise TopicLost(f"{topic.name}: got frame {message.frame!r}, allowed {WORLD}")
    pose: Pose = message.pose
    return pose


class RemoteWorld:
    """Client that moves objects in the simulated world.

    Args:
        root: Namespace of the cell with a leading slash, or empty.
        object_topics: Subscriptions to the poses of movable objects, by name.
        timeout: Timeout of answers [s].
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        config: CellConfig,
        object_topics: Mapping[str, LatestMessage],
        timeout: float,
    ) -> None:
        self._link, self._name = link, f"{root}/set_entity_state"
        self._objects = object_topics
        self._real, self._timeout = first_arm_without_simulation(config), timeout
        if not self.refusal():
            link.offer(SetEntityState, self._name)

    def refusal(self) -> str:
        """Return why objects of this cell cannot be moved, or an empty string."""
        if self._real:
            return f"got {self._real}, allowed simulated arms"
        return "" if SetEntityState is not None else "simulation_interfaces is not installed"

    def request_pose(self, object_name: str, pose: Pose) -> int:
        """Place an object at rest at a pose in the world, and wait until the node publishes it.

        Returns:
            Request number for :meth:`is_placed`, always 0.

        Raises:
            SimulationRejected: If the pose is rejected; the message has the reason.
            TopicLost: If the node does not answer.
        """
        request = SetEntityState.Request(entity=object_name)
        request.state.header.frame_id = WORLD
        write_pose(request.state.pose, pose)
        answer = self._link.ask(self._name, request, self._timeout).result
        if answer.result != Result.RESULT_OK:
            raise SimulationRejected(f"{object_name}: {answer.error_message}")
        topic, before = self._objects[object_name], self._objects[object_name].count
        if not self._link.until(lambda: topic.count > before + 1, self._timeout):
            raise TopicLost(f"{topic.name}: no message within {self._timeout:g} s")
        return 0

    def is_placed(self, object_name: str, number: int) -> bool:
        """Return True, because :meth:`request_pose` returns only when the object has its pose."""
        return True
