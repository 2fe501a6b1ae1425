# SPDX-License-Identifier: Apache-2.0
"""The SRDF of a cell: what its links and joints are to a planner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.sections import InstanceConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.collision_pairs import SELF_JOINTS
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.state import Vector
from multipanda_py.targets import TRAJECTORY_CONTROLLETS

SAMPLES = 3000
"""Random postures that decide what never touches."""
MARGIN = 0.01
"""What comes nearer than this counts as touching [m]: samples miss the worst posture."""
_SEED = 1


class DisabledPair(NamedTuple):
    """Two links whose collisions are not looked for.

    Attributes:
        first: Name of a link.
        second: Name of the other.
        reason: As MoveIt's setup assistant calls it: Adjacent, Default, Always or Never.
    """

    first: str
    second: str
    reason: str


def pairs_of_arm(arm: ArmDescription) -> list[DisabledPair]:
    """Return the pairs of one arm, with its hand and tool.

    Links with fewer than :data:`.SELF_JOINTS` joints between them count as neighbours, as for the
    collision avoidance of the laws. Of all others it is tried in random postures, with a margin,
    whether they touch: ``Never``, ``Always``, or sometimes, and then they are checked.
    """
    model = Geometry(arm)
    undecided, found = [], []
    for first, second in combinations(model.links, 2):
        apart = abs(model.joint_of[first] - model.joint_of[second])
        if apart >= SELF_JOINTS and not model.overlap(first, second):
            undecided.append((first, second))
        else:
            reason = "Adjacent" if apart < 2 else "Default"
            found.append(DisabledPair(first, second, reason))
    for (first, second), share in model.touching(undecided).items():
        if share in (0.0, 1.0):
            found.append(DisabledPair(first, second, "Always" if share else "Never"))
    return sorted(found)


def pairs_between(one: ArmDescription, other: ArmDescription) -> Iterator[DisabledPair]:
    """Yield the pairs of two arms that can never meet: neither moves, or they reach not so far.

    Samples would not do here: what meets in one posture of ten thousand has to be seen.
    """
    here, there = Geometry(one), Geometry(other)
    gap = float(np.linalg.norm(one.position_base_in_world - other.position_base_in_world))
    for first, second in product(here.links, there.links):
        is_fixed = not here.joint_of[first] and not there.joint_of[second]
        if is_fixed or here.reach[first] + there.reach[second] + MARGIN < gap:
            yield DisabledPair(first, second, "Never")


class Geometry:
    """The collision geometry of an arm as in its URDF.

    Attributes:
        links: Names of the links that have one.
        joint_of: How many joints of the arm are before a link; fingers count as the hand.
        reach: Farthest from the base's origin that a point of a link can be, by link [m].
    """

    def __init__(self, arm: ArmDescription) -> None:
        xml = arm_urdf(arm, plain=True)
        self._arm = arm
        self._model = model = pin.buildModelFromXML(xml)
        self._solids = solids = pin.buildGeomFromUrdfString(model, xml, pin.COLLISION)
        self._of: dict[str, list[int]] = {}
        for number, solid in enumerate(solids.geometryObjects):
            self._of.setdefault(model.frames[solid.parentFrame].name, []).append(number)
        self.links = sorted(self._of)
        n = arm.n_joints
        self.joint_of = {link: min(self._joint(link), n) for link in self.links}
        self.reach = {link: self._reach(link) for link in self.links}

    def overlap(self, first: str, second: str) -> bool:
        """Return whether the shapes of two links, not the links, may touch."""
        names = [part.name for part in self._arm.robot.links]
        places = [link.removeprefix(self._arm.prefix) for link in (first, second)]
        if not all(place in names for place in places):
            return False
        pair = tuple(sorted(names.index(place) for place in places))
        return pair in self._arm.robot.overlapping

    def postures(self) -> tuple[Vector, Vector]:
        """Return the bounds of what is tried: those of joints, one turn for what has more."""
        lower, upper = self._model.lowerPositionLimit, self._model.upperPositionLimit
        slides = [self._slides(joint) for joint in range(1, self._model.njoints)]
        turns = (upper - lower > 2.0 * np.pi) & np.logical_not(slides)
        return np.where(turns, -np.pi, lower), np.where(turns, np.pi, upper)

    def touching(self, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Return in which share of postures pairs touch; what does so sometimes is 0.5."""
        open_pairs = {pair: list(product(*(self._of[link] for link in pair))) for pair in pairs}
        share: dict[tuple[str, str], float] = {}
        lower, upper = self.postures()
        random, data = np.random.default_rng(_SEED), self._model.createData()
        checked: dict[tuple[str, str], list[int]] = {}
        placed = self._prepare(open_pairs, checked)
        for _ in range(SAMPLES):
            q = random.uniform(lower, upper)
            pin.computeCollisions(self._model, data, self._solids, placed, q, False)
            results, news = placed.collisionResults, False
            for pair, numbers in list(checked.items()):
                touches = float(any(results[number].isCollision() for number in numbers))
                if share.setdefault(pair, touches) != touches:
                    share[pair] = 0.5
                    del checked[pair], open_pairs[pair]
                    news = True
            if news:
                placed = self._prepare(open_pairs, checked)
        return share

    def _prepare(
        self,
        pairs: dict[tuple[str, str], list[tuple[int, ...]]],
        checked: dict[tuple[str, str], list[int]],
    ) -> Any:
        """Make those pairs the only ones that are checked; fill in where their results are."""
        self._solids.removeAllCollisionPairs()
        for pair, solids in pairs.items():
            checked[pair] = []
            for first, second in solids:
                checked[pair].append(len(self._solids.collisionPairs))
                self._solids.addCollisionPair(pin.CollisionPair(first, second))
        placed = pin.GeometryData(self._solids)
        for request in placed.collisionRequests:
            request.security_margin = MARGIN
        return placed

    def _joint(self, link: str) -> int:
        frame = self._model.frames[self._model.getFrameId(link)]
        return int(frame.parentJoint)

    def _slides(self, joint: int) -> bool:
        return bool(self._model.joints[joint].shortname().startswith("JointModelP"))

    def _reach(self, link: str) -> float:
        model, joint = self._model, self._joint(link)
        base = self._arm.position_base_in_world
        far = 0.0
        for number in self._of[link]:
            solid = self._solids.geometryObjects[number]
            solid.geometry.computeLocalAABB()
            center = solid.placement.act(solid.geometry.aabb_center)
            if not joint:
                center = center - base
            far = max(far, float(np.linalg.norm(center)) + solid.geometry.aabb_radius)
        while joint:
            placement = model.jointPlacements[joint].translation
            parent = int(model.parents[joint])
            far += float(np.linalg.norm(placement if parent else placement - base))
            if self._slides(joint):
                at = model.joints[joint].idx_q
                bounds = (model.lowerPositionLimit[at], model.upperPositionLimit[at])
                far += float(np.abs(bounds).max())
            joint = parent
        return far


GRIPPER = "gripper"


@dataclass(frozen=True)
class Follower:
    """A controllet that follows trajectories.

    Attributes:
        name: Of the controllet, with that of its arm.
        arms: Its arms, in order.
        joints: Theirs.
    """

    name: str
    arms: tuple[str, ...]
    joints: tuple[str, ...]


class Groups:
    """Planning groups of a cell: one per arm, of its name; ``both`` or ``all`` of them; hands.

    Other sets of arms that a controllet follows trajectories with are groups too, such as
    ``left_right``. The group of a hand is ``left_hand``.

    Args:
        config: The cell.

    Attributes:
        arms: Every arm by name.
        sets: Names of arms by group, of groups of several arms.
        followers: Controllets that follow trajectories.

    Raises:
        ConfigurationError: If a group of several arms has the name of an arm, or nobody follows
            the plans for an arm.
    """

    def __init__(self, config: CellConfig) -> None:
        self.arms: dict[str, ArmDescription] = {arm.name: arm for arm in describe_arms(config)}
        everyone = tuple(self.arms)
        self.followers = [
            self._follower(one) for one in config.instances() if one.type in TRAJECTORY_CONTROLLETS
        ]
        self.sets: dict[str, tuple[str, ...]] = {}
        if len(everyone) > 1:
            self.sets["both" if len(everyone) == 2 else "all"] = everyone
        for follower in self.followers:
            if len(follower.arms) > 1 and set(follower.arms) != set(everyone):
                self.sets["_".join(follower.arms)] = follower.arms
        taken = {*self.arms, *(self.hand_group(arm) for arm in self.arms.values() if arm.hand)}
        for name in self.sets:
            if name in taken:
                raise ConfigurationError(
                    f"arms: got one with the name {name}, allowed others: {name} is the planning "
                    f"group of {', '.join(self.sets[name])}"
                )
        followed = {arm for follower in self.followers for arm in follower.arms}
        if left := [arm for arm in everyone if arm not in followed]:
            raise ConfigurationError(
                f"controllets: got none that follows trajectories with {', '.join(left)}, allowed "
                f"one of type {' or '.join(TRAJECTORY_CONTROLLETS)} for each arm"
            )

    @staticmethod
    def hand_group(arm: ArmDescription) -> str:
        """Return the name of the group of an arm's hand."""
        return f"{arm.name}_hand"

    def _follower(self, instance: InstanceConfig) -> Follower:
        joints = [name for arm in instance.arms for name in self.arms[arm].joint_names]
        return Follower(instance.name, tuple(instance.arms), tuple(joints))


_add = ElementTree.SubElement
HEADER = '<?xml version="1.0" encoding="utf-8"?>\n<!-- Written by multipanda moveit -->\n'


def cell_srdf(groups: Groups, name: str) -> str:
    """Return the SRDF that goes with the URDF of a cell.

    A group per arm is the chain from its base to its flange; a hand is a group and an end
    effector; ``ready``, ``open`` and ``closed`` are named states. The virtual joint says that the
    URDF's root is where the world is.

    Args:
        groups: Of the cell.
        name: Of the robot element, the same as in the URDF.
    """
    robot = ElementTree.Element("robot", name=name)
    for arm in groups.arms.values():
        group = _add(robot, "group", name=arm.name)
        _add(group, "chain", base_link=arm.base_frame, tip_link=arm.flange_frame)
    for set_name, arms in groups.sets.items():
        group = _add(robot, "group", name=set_name)
        for member in arms:
            _add(group, "group", name=member)
    for arm in groups.arms.values():
        _add_ends(robot, arm)
    # Sets of arms first: of several states of one name pinocchio takes the first.
    for name_of, arms in {**groups.sets, **{arm: (arm,) for arm in groups.arms}}.items():
        members = [groups.arms[arm] for arm in arms]
        ready = {name: q for arm in members for name, q in zip(arm.joint_names, arm.robot.ready)}
        _add_state(robot, name_of, "ready", ready)
    _add(robot, "virtual_joint", name="world_joint", type="fixed", parent_frame="world",
         child_link="world")  # fmt: skip
    for pair in disabled_pairs(list(groups.arms.values())):
        _add(robot, "disable_collisions", link1=pair.first, link2=pair.second, reason=pair.reason)
    ElementTree.indent(robot)
    return HEADER + ElementTree.tostring(robot, encoding="unicode") + "\n"


def disabled_pairs(arms: list[ArmDescription]) -> list[DisabledPair]:
    """Return the pairs of links of a cell that need not be checked, by name.

    Arms of one kind that carry the same are looked at once.
    """
    seen: dict[tuple[object, ...], tuple[str, list[DisabledPair]]] = {}
    pairs = []
    for arm in arms:
        key = (id(arm.robot), id(arm.gripper), id(arm.tool))
        if key not in seen:
            seen[key] = arm.prefix, pairs_of_arm(arm)
        prefix, found = seen[key]
        for pair in found:
            first, second = (arm.prefix + link.removeprefix(prefix) for link in pair[:2])
            pairs.append(DisabledPair(first, second, pair.reason))
    for one, other in combinations(arms, 2):
        pairs.extend(pairs_between(one, other))
    return sorted(pairs)


def _add_ends(robot: ElementTree.Element, arm: ArmDescription) -> None:
    """Add what an arm carries: hand and tool, each a group and an end effector."""
    ends = []
    if arm.gripper is not None:
        name = Groups.hand_group(arm)
        group = _add(robot, "group", name=name)
        for link in ("hand", "leftfinger", "rightfinger", "hand_tcp"):
            _add(group, "link", name=arm.prefix + link)
        for joint in arm.finger_joint_names:
            _add(group, "joint", name=joint)
        for state, place in (("open", arm.gripper.upper), ("closed", arm.gripper.lower)):
            _add_state(robot, name, state, dict.fromkeys(arm.finger_joint_names, place))
        _add(robot, "passive_joint", name=arm.finger_joint_names[1])
        ends.append(name)
    if arm.tool is not None:
        name = f"{arm.name}_tool"
        group = _add(robot, "group", name=name)
        for link in ("tool", "tool_tcp"):
            _add(group, "link", name=arm.prefix + link)
        ends.append(name)
    for name in ends:
        _add(robot, "end_effector", name=name, group=name, parent_group=arm.name,
             parent_link=arm.flange_frame)  # fmt: skip


def _add_state(
    robot: ElementTree.Element, group: str, name: str, values: dict[str, float]
) -> None:
    """Add a named posture of a group, by joint [rad, m]."""
    state = _add(robot, "group_state", name=name, group=group)
    for joint, value in values.items():
        _add(state, "joint", name=joint, value=f"{value:.9g}")
