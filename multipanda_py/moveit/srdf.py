# SPDX-License-Identifier: Apache-2.0
"""The SRDF of a cell: what its links and joints are to a planner."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

from multipanda_py.moveit.collision_pairs import DisabledPair, pairs_between, pairs_of_arm
from multipanda_py.moveit.groups import Groups
from multipanda_py.robots import ArmDescription

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
