# SPDX-License-Identifier: Apache-2.0
"""A cell that a running node moves, for programs that act on cells: environments, policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from numpy.typing import ArrayLike

from multipanda_py.cell.motion_finder import MoveFinder
from multipanda_py.cell.names import CellNames
from multipanda_py.config.node_names import refuse_namespace
from multipanda_py.exceptions import LoopTimeout, MotionFailed, TopicLost, UnknownName
from multipanda_py.planning.motions.motion_request import MovePlan
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client.arm import RemoteGripper
from multipanda_py.ros.client.controllets import FOLLOWER, RemoteLaws, RemoteMotion
from multipanda_py.ros.client.node_link import NodeLink, name_of_own
from multipanda_py.ros.client.states import RemoteStates
from multipanda_py.ros.client.target_publisher import RemoteTargets
from multipanda_py.ros.client.world import RemoteWorld
from multipanda_py.ros.node.settings import ask_for_cell
from multipanda_py.state import ArmSnapshot

PATIENCE = 20.0
"""For a node to be found, and for its answers [s]."""


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
        states: States that are received from the node.
        targets: Targets that are sent to the node.

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
            self._connect(patience)

    def _connect(self, patience: float) -> None:
        self._link = NodeLink(name_of_own("cell_client"))
        try:
            self._begin(self._link, patience)
        except BaseException:
            self._link.close()
            raise

    def _begin(self, link: NodeLink, patience: float) -> None:
        self.config = config = ask_for_cell(link, self._root, patience)
        self._names = CellNames(config)
        self.states = states = RemoteStates(link, self._root, config, self.descriptions)
        self._world = RemoteWorld(link, self._root, config, states.things, patience)
        self._grippers = {
            name: RemoteGripper(link, self._root, states.arms[name], arm.gripper)
            for name, arm in self.descriptions.items()
            if arm.gripper is not None
        }
        self.targets = RemoteTargets(link, self._root, self._names, states.arms)
        self._laws = RemoteLaws(
            link, self._root, config, states.arms, self.targets, self._patience
        )
        states.begin(patience)

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
        return self.states.time

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
        found = self._laws.choose(arms, law, period)
        self.targets.offer(found)
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
        self.targets.wait(self._patience)
        self.states.begin_anew(self._patience)

    def close(self) -> None:
        """Let arms hold, and leave; safe to call twice."""
        self._laws.end()
        self._link.close()

    def state(self, arm: str) -> ArmSnapshot:
        """Return the newest state of an arm.

        Raises:
            TopicLost: If there is none, or it is too old.
        """
        return self.states.arms[arm].state(self.time)

    def pose(self, arm: str) -> Pose:
        """Return the measured pose of a tool in the base of its arm; raises as :meth:`state`."""
        return self.states.arms[arm].pose()

    def objects(self) -> dict[str, Pose]:
        """Return where movable things are in the world, whoever says so.

        Raises:
            TopicLost: If nobody does of one that the cell has from the start.
        """
        return self.states.objects()

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
        self.targets.send(arm, pose, q, wrench)

    def hold(self) -> None:
        """Have every arm of the cell hold.

        Raises:
            TopicLost: If the node does not answer.
            SwitchRejected: If it refuses.
        """
        self._laws.hold()

    def recover(self, arms: Sequence[str] | None = None) -> tuple[str, ...]:
        """Clear faults of some arms or all, and wait until diagnostics tell of it.

        Returns:
            Names of the arms that were asked for.

        Raises:
            TopicLost: If the node does not answer.
            RecoveryFailed: If an arm keeps its fault; names it and the reason.
        """
        chosen = tuple(self.descriptions) if arms is None else tuple(arms)
        self._laws.recover(chosen)
        return chosen

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return how much diagnostics have told so far, and what came after ``count``."""
        return self.states.events_since(count)

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
        self._laws.switch(activate, deactivate, strictness)

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
            now = self.states.arms[next(iter(points))].now
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
        self._link.check()
        self._laws.check()
