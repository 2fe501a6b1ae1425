# SPDX-License-Identifier: Apache-2.0
"""The two sliding joints of a gripper's description, counted from closed to open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.chain import fixed_to
from multipanda_py.robots.tree import Tree, TreeJoint

Matrix = NDArray[np.float64]
Places = dict[str, tuple[int, Matrix]]

_LIMITS = {"lower": "lower", "upper": "upper", "velocity": "velocity", "torque": "effort"}
SAME = 1e-6
"""How much the travel of both fingers [m], or their directions, may differ."""


@dataclass(frozen=True, eq=False)
class FingerJoint:
    """A finger's joint, whose position is half the width between the fingers.

    Attributes:
        link: The finger.
        origin: Its frame in the gripper's base where the position is zero, (4, 4).
        axis: Along which it opens, in its frame, (3,).
        lower: Position when closed [m].
        upper: Position when open [m].
        velocity: Fastest [m/s].
        force: That it can keep up [N].
    """

    link: str
    origin: Matrix
    axis: Matrix
    lower: float
    upper: float
    velocity: float
    force: float


def finger_joints(
    tree: Tree, base: str, lower: float
) -> tuple[Places, tuple[FingerJoint, FingerJoint]]:
    """Return what is fixed to a gripper's base, with poses in it, and its two fingers.

    A finger opens in the direction that leads it away from the other one: from the centre of mass
    of that one to its own, both in the middle of their ways.

    Args:
        tree: The description.
        base: Link that is mounted on the flange.
        lower: Position that a closed finger is said to have [m].

    Raises:
        ConfigurationError: If there are not two prismatic joints, or others that move, a limit is
            missing, or the fingers do not move apart by the same way.
    """
    places: Places = {base: (0, np.eye(4))}
    places.update(fixed_to(tree, base, places))
    found = [joint for link in places for joint in tree.below.get(link, ()) if _moves(joint)]
    waiting = [joint.child for joint in found]
    behind: list[TreeJoint] = []
    while waiting:
        below = tree.below.get(waiting.pop(), [])
        behind += [joint for joint in below if _moves(joint)]
        waiting += [joint.child for joint in below]
    sliding = [joint for joint in found if joint.kind.split()[0] == "prismatic"]
    if len(sliding) != 2 or len(found) != 2 or behind:
        got = ", ".join(f"{joint.name} ({joint.kind})" for joint in (*found, *behind)) or "none"
        raise ConfigurationError(
            f"{tree.path}: joints that move: got {got}, allowed two prismatic ones, a finger each"
        )
    first, second = sorted(sliding, key=lambda joint: joint.mimics is not None)
    spans = _span(tree, first, None), _span(tree, second, first)
    middles = [
        places[joint.parent][1] @ joint.pose @ _slid(joint.axis * (low + high) / 2.0)
        for joint, (low, high) in zip((first, second), spans)
    ]
    coms = [
        (middle @ np.append(tree.bodies[joint.child].com, 1.0))[:3]
        for joint, middle in zip((first, second), middles)
    ]
    apart = np.subtract(*coms)
    fingers = []
    directions = []
    for joint, (low, high), sign in zip((first, second), spans, (1.0, -1.0)):
        pose = places[joint.parent][1] @ joint.pose
        forward = sign * float(pose[:3, :3] @ joint.axis @ apart) > 0.0
        axis = joint.axis if forward else -joint.axis
        closed = low if forward else -high
        origin = pose @ _slid(axis * (closed - lower))
        directions.append(pose[:3, :3] @ axis)
        fingers.append(
            FingerJoint(
                joint.child, origin, axis, lower, lower + high - low,
                *(_limit(tree, joint, key, first) for key in ("velocity", "torque")),
            )
        )  # fmt: skip
    ways = [finger.upper - finger.lower for finger in fingers]
    if np.linalg.norm(directions[0] + directions[1]) > SAME or abs(ways[0] - ways[1]) > SAME:
        raise ConfigurationError(
            f"{tree.path}: joints {first.name} and {second.name}: got directions "
            f"{np.round(directions[0], 4)} and {np.round(directions[1], 4)} over {ways[0]:g} and "
            f"{ways[1]:g} m, allowed opposite ones over the same way"
        )
    return places, (fingers[0], fingers[1])


def _moves(joint: TreeJoint) -> bool:
    return joint.kind != "fixed"


def _slid(way: Matrix) -> Matrix:
    pose = np.eye(4)
    pose[:3, 3] = way
    return pose


def _span(tree: Tree, joint: TreeJoint, leader: TreeJoint | None) -> tuple[float, float]:
    """Return the least and largest position of a joint, that it mimics if it does so [m]."""
    where = f"{tree.path}: joint {joint.name}"
    if abs(float(np.linalg.norm(joint.axis)) - 1.0) > SAME:
        raise ConfigurationError(f"{where}: got axis {joint.axis}, allowed any but zero")
    if joint.mimics is None:
        low, high = (_limit(tree, joint, key, None) for key in ("lower", "upper"))
    else:
        name, multiplier, offset = joint.mimics
        if leader is None or name != leader.name or abs(multiplier) != 1.0:
            raise ConfigurationError(
                f"{where}: mimic: got joint {name} times {multiplier:g}, allowed the other "
                "finger, times 1 or -1"
            )
        ends = (multiplier * end + offset for end in _span(tree, leader, None))
        low, high = sorted(ends)
    if high <= low:
        raise ConfigurationError(f"{where}: limit: got [{low:g}, {high:g}] m, allowed some way")
    return low, high


def _limit(tree: Tree, joint: TreeJoint, key: str, leader: TreeJoint | None) -> float:
    """Return a limit of a joint; one that mimics another one may leave it to that."""
    limits = joint.limits
    if key not in limits and joint.mimics is not None and leader is not None:
        limits = leader.limits
    where = f"{tree.path}: joint {joint.name}: limit {_LIMITS[key]}"
    if key not in limits:
        raise ConfigurationError(f"{where}: missing")
    if key in ("velocity", "torque") and limits[key] <= 0.0:
        raise ConfigurationError(f"{where}: got {limits[key]:g}, allowed more than 0")
    return float(limits[key])
