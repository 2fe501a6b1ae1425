# SPDX-License-Identifier: Apache-2.0
"""SRDF of a cell: planning groups, end effectors, named states and disabled collisions."""

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
from multipanda_py.robots.collision_pairs import SELF_JOINTS
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.state import Vector
from multipanda_py.targets import TRAJECTORY_CONTROLLETS

RANDOM_CONFIGURATIONS = 3000
"""Number of random configurations in the search for link pairs that never touch."""
TOUCH_DISTANCE = 0.01
"""Distance below which links count as touching [m], because samples may miss the closest pose."""
_SEED = 1  # Random seed of the configurations that are checked for collisions.


class DisabledPair(NamedTuple):
    """Two links that are not checked for collisions.

    Attributes:
        first: Name of the first link.
        second: Name of the second link.
        reason: Reason as in the MoveIt setup assistant: Adjacent, Default, Always or Never.
    """

    first: str
    second: str
    reason: str


def pairs_of_arm(arm: ArmDescription) -> list[DisabledPair]:
    """Return the link pairs of one arm, with its gripper and tool, that need no collision check.

    These are pairs with fewer than :data:`.SELF_JOINTS` joints between them, overlapping pairs of
    the robot description, and pairs that touch in no (``Never``) or all (``Always``) random
    configurations.
    """
    model = Geometry(arm)
    undecided, pairs = [], []
    for first, second in combinations(model.links, 2):
        apart = abs(model.joint_of[first] - model.joint_of[second])
        if apart >= SELF_JOINTS and not model.overlap(first, second):
            undecided.append((first, second))
        else:
            reason = "Adjacent" if apart < 2 else "Default"
            pairs.append(DisabledPair(first, second, reason))
    for (first, second), fraction in model.touching(undecided).items():
        if fraction in (0.0, 1.0):
            pairs.append(DisabledPair(first, second, "Always" if fraction else "Never"))
    return sorted(pairs)


def pairs_between(one: ArmDescription, other: ArmDescription) -> Iterator[DisabledPair]:
    """Yield the link pairs of two arms that never touch.

    These are two fixed links, or links too far apart to reach each other.
    """
    here, there = Geometry(one), Geometry(other)
    gap = float(np.linalg.norm(one.position_base_in_world - other.position_base_in_world))
    for first, second in product(here.links, there.links):
        is_fixed = not here.joint_of[first] and not there.joint_of[second]
        if is_fixed or here.reach[first] + there.reach[second] + TOUCH_DISTANCE < gap:
            yield DisabledPair(first, second, "Never")


class Geometry:
    """Collision geometry of an arm according to its URDF.

    Attributes:
        links: Names of the links with geometry.
        joint_of: Number of arm joints between the base and each link. Finger joints do not count.
        reach: Maximum distance of any point of a link from the origin of the base, by link [m].
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
        """Return True if the robot description lists two links as overlapping."""
        names = [part.name for part in self._arm.robot.links]
        link_names = [link.removeprefix(self._arm.prefix) for link in (first, second)]
        if not all(name in names for name in link_names):
            return False
        pair = tuple(sorted(names.index(name) for name in link_names))
        return pair in self._arm.robot.overlapping

    def postures(self) -> tuple[Vector, Vector]:
        """Return lower and upper bounds of random joint positions, (n,) each [rad, m].

        They are the joint limits. A range of more than one turn is reduced to [-pi, pi].
        """
        lower, upper = self._model.lowerPositionLimit, self._model.upperPositionLimit
        slides = [self._slides(joint) for joint in range(1, self._model.njoints)]
        rotations = (upper - lower > 2.0 * np.pi) & np.logical_not(slides)
        return np.where(rotations, -np.pi, lower), np.where(rotations, np.pi, upper)

    def touching(self, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Test link pairs for contact in random configurations.

        Returns:
            Contact by link pair: 0 in no configuration, 1 in all, 0.5 in some.
        """
        open_pairs = {pair: list(product(*(self._of[link] for link in pair))) for pair in pairs}
        fraction: dict[tuple[str, str], float] = {}
        lower, upper = self.postures()
        random, data = np.random.default_rng(_SEED), self._model.createData()
        checked: dict[tuple[str, str], list[int]] = {}
        placed = self._prepare(open_pairs, checked)
        for _ in range(RANDOM_CONFIGURATIONS):
            q = random.uniform(lower, upper)
            pin.computeCollisions(self._model, data, self._solids, placed, q, False)
            results, news = placed.collisionResults, False
            for pair, numbers in list(checked.items()):
                touches = float(any(results[number].isCollision() for number in numbers))
                if fraction.setdefault(pair, touches) != touches:
                    fraction[pair] = 0.5
                    del checked[pair], open_pairs[pair]
                    news = True
            if news:
                placed = self._prepare(open_pairs, checked)
        return fraction

    def _prepare(
        self,
        pairs: dict[tuple[str, str], list[tuple[int, ...]]],
        checked: dict[tuple[str, str], list[int]],
    ) -> Any:
        self._solids.removeAllCollisionPairs()
        for pair, solids in pairs.items():
            checked[pair] = []
            for first, second in solids:
                checked[pair].append(len(self._solids.collisionPairs))
                self._solids.addCollisionPair(pin.CollisionPair(first, second))
        placed = pin.GeometryData(self._solids)
        for request in placed.collisionRequests:
            request.security_margin = TOUCH_DISTANCE
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
    """Controllet that follows trajectories.

    Attributes:
        name: Name of the controllet in the cell.
        arms: Names of its arms, in order.
        joints: Names of the joints of these arms.
    """

    name: str
    arms: tuple[str, ...]
    joints: tuple[str, ...]


class Groups:
    """MoveIt planning groups of a cell: one per arm, per gripper, and for sets of arms.

    The group of all arms is ``both`` for two arms, ``all`` for more. Other sets of arms that a
    controllet moves along trajectories are groups such as ``left_right``.

    Args:
        config: The checked cell file.

    Attributes:
        arms: Descriptions of the arms, by name.
        sets: Names of the arms in each group of several arms, by name of the group.
        followers: Controllets that follow trajectories.

    Raises:
        ConfigurationError: If a group of several arms has the name of an arm, or an arm has no
            controllet that follows trajectories.
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
                    f"arms: the arm name {name} is also the planning group {name} of "
                    f"{', '.join(self.sets[name])}. Rename the arm"
                )
        followed = {arm for follower in self.followers for arm in follower.arms}
        if left := [arm for arm in everyone if arm not in followed]:
            raise ConfigurationError(
                f"controllets: no controllet follows trajectories with {', '.join(left)}. Add "
                f"one of type {' or '.join(TRAJECTORY_CONTROLLETS)} for each arm"
            )

    @staticmethod
    def hand_group(arm: ArmDescription) -> str:
        return f"{arm.name}_hand"

    def _follower(self, instance: InstanceConfig) -> Follower:
        joints = [name for arm in instance.arms for name in self.arms[arm].joint_names]
        return Follower(instance.name, tuple(instance.arms), tuple(joints))


_add = ElementTree.SubElement
HEADER = '<?xml version="1.0" encoding="utf-8"?>\n<!-- Written by multipanda moveit -->\n'


def cell_srdf(groups: Groups, name: str) -> str:
    """Return the SRDF that belongs to the URDF of a cell.

    The group of an arm is the chain from its base to its flange. Each gripper and tool is a group
    and an end effector. Named states are ``ready``, ``open`` and ``closed``.

    Args:
        groups: Planning groups of the cell.
        name: Name of the robot element, as in the URDF.
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
    # Sets of arms come first: of several states with the same name, pinocchio uses the first.
    for name_of, arms in {**groups.sets, **{arm: (arm,) for arm in groups.arms}}.items():
        members = [groups.arms[arm] for arm in arms]
        ready = {name: q for arm in members for name, q in zip(arm.joint_names, arm.robot.ready)}
        _add_named_state(robot, name_of, "ready", ready)
    _add(robot, "virtual_joint", name="world_joint", type="fixed", parent_frame="world",
         child_link="world")  # fmt: skip
    for pair in disabled_pairs(list(groups.arms.values())):
        _add(robot, "disable_collisions", link1=pair.first, link2=pair.second, reason=pair.reason)
    ElementTree.indent(robot)
    return HEADER + ElementTree.tostring(robot, encoding="unicode") + "\n"


def disabled_pairs(arms: list[ArmDescription]) -> list[DisabledPair]:
    """Return the link pairs of a cell that need no collision checks, sorted by name."""
    known: dict[tuple[object, ...], tuple[str, list[DisabledPair]]] = {}
    pairs = []
    for arm in arms:
        key = (id(arm.robot), id(arm.gripper), id(arm.tool))
        if key not in known:
            known[key] = arm.prefix, pairs_of_arm(arm)
        prefix, result = known[key]
        for pair in result:
            first, second = (arm.prefix + link.removeprefix(prefix) for link in pair[:2])
            pairs.append(DisabledPair(first, second, pair.reason))
    for one, other in combinations(arms, 2):
        pairs.extend(pairs_between(one, other))
    return sorted(pairs)


def _add_ends(robot: ElementTree.Element, arm: ArmDescription) -> None:
    ends = []
    if arm.gripper is not None:
        name = Groups.hand_group(arm)
        group = _add(robot, "group", name=name)
        for link in ("hand", "leftfinger", "rightfinger", "hand_tcp"):
            _add(group, "link", name=arm.prefix + link)
        for joint in arm.finger_joint_names:
            _add(group, "joint", name=joint)
        for state, position in (("open", arm.gripper.upper), ("closed", arm.gripper.lower)):
            _add_named_state(robot, name, state, dict.fromkeys(arm.finger_joint_names, position))
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


def _add_named_state(
    robot: ElementTree.Element, group: str, name: str, positions: dict[str, float]
) -> None:
    state = _add(robot, "group_state", name=name, group=group)
    for joint, position in positions.items():
        _add(state, "joint", name=joint, value=f"{position:.9g}")
