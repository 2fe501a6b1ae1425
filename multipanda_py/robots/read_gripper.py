# SPDX-License-Identifier: Apache-2.0
"""Read a parallel gripper from a URDF, and a YAML file with data that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.extra_data import Overrides, read_extra
from multipanda_py.robots.geometry import Block, Capsule, Origin, point_of, rotation_from_rpy
from multipanda_py.robots.inertial import Inertial, combined, inertial_of
from multipanda_py.robots.parallel_gripper import (
    Contact,
    Finger,
    GripperBody,
    ParallelGripper,
    Visuals,
    corners,
)
from multipanda_py.robots.read_robot import moved_solid, visual
from multipanda_py.robots.read_urdf import read_boxes, read_urdf
from multipanda_py.robots.tree import Tree, TreeJoint, check_body, fixed_to, moved, pose_from

Matrix = NDArray[np.float64]
LinkPoses = dict[str, tuple[int, Matrix]]

_LIMITS = {"lower": "lower", "upper": "upper", "velocity": "velocity", "torque": "effort"}
TRAVEL_TOLERANCE = 1e-6
"""Tolerance of the difference in travel [m] and in direction between the fingers."""


@dataclass(frozen=True, eq=False)
class FingerJoint:
    """Joint of a finger, whose position is half the width between the fingers.

    Attributes:
        link: Name of the finger's link.
        origin: Pose in the gripper's base at position zero, (4, 4).
        axis: Opening direction in the finger's frame, (3,).
        lower: Position when closed [m].
        upper: Position when open [m].
        velocity: Maximum velocity [m/s].
        force: Maximum continuous force [N].
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
) -> tuple[LinkPoses, tuple[FingerJoint, FingerJoint]]:
    """Find the two fingers of a gripper, and the links that are fixed to its base.

    The opening direction of a finger points away from the centre of mass of the other finger.

    Args:
        tree: Links and joints of the gripper.
        base: Link that is mounted on the flange.
        lower: Position of a closed finger in the returned joints, half the width [m].

    Returns:
        Links fixed to the base, with their poses in it, and the joints of both fingers.

    Raises:
        ConfigurationError: The moving joints are not exactly two prismatic ones, a limit is
            missing, or the fingers do not move in opposite directions with equal travel.
    """
    frames: LinkPoses = {base: (0, np.eye(4))}
    frames.update(fixed_to(tree, base, frames))
    matches = [joint for link in frames for joint in tree.below.get(link, ()) if _moves(joint)]
    waiting = [joint.child for joint in matches]
    behind: list[TreeJoint] = []
    while waiting:
        below = tree.below.get(waiting.pop(), [])
        behind += [joint for joint in below if _moves(joint)]
        waiting += [joint.child for joint in below]
    sliding = [joint for joint in matches if joint.kind.split()[0] == "prismatic"]
    if len(sliding) != 2 or len(matches) != 2 or behind:
        got = ", ".join(f"{joint.name} ({joint.kind})" for joint in (*matches, *behind)) or "none"
        raise ConfigurationError(
            f"{tree.path}: moving joints: got {got}, allowed two prismatic ones, one per finger"
        )
    first, second = sorted(sliding, key=lambda joint: joint.mimics is not None)
    spans = _joint_range(tree, first, None), _joint_range(tree, second, first)
    middles = [
        frames[joint.parent][1] @ joint.pose @ _slid(joint.axis * (low + high) / 2.0)
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
        pose = frames[joint.parent][1] @ joint.pose
        forward = sign * float(pose[:3, :3] @ joint.axis @ apart) > 0.0
        axis = joint.axis if forward else -joint.axis
        closed = low if forward else -high
        origin = pose @ _slid(axis * (closed - lower))
        directions.append(pose[:3, :3] @ axis)
        fingers.append(
            FingerJoint(
                joint.child, origin, axis, lower, lower + high - low,
                *(_joint_limit(tree, joint, key, first) for key in ("velocity", "torque")),
            )
        )  # fmt: skip
    paths = [finger.upper - finger.lower for finger in fingers]
    if (
        np.linalg.norm(directions[0] + directions[1]) > TRAVEL_TOLERANCE
        or abs(paths[0] - paths[1]) > TRAVEL_TOLERANCE
    ):
        raise ConfigurationError(
            f"{tree.path}: joints {first.name} and {second.name}: got directions "
            f"{np.round(directions[0], 4)} and {np.round(directions[1], 4)} over {paths[0]:g} and "
            f"{paths[1]:g} m, allowed opposite directions with equal travel"
        )
    return frames, (fingers[0], fingers[1])


def _moves(joint: TreeJoint) -> bool:
    return joint.kind != "fixed"


def _slid(path: Matrix) -> Matrix:
    pose = np.eye(4)
    pose[:3, 3] = path
    return pose


def _joint_range(tree: Tree, joint: TreeJoint, leader: TreeJoint | None) -> tuple[float, float]:
    path = f"{tree.path}: joint {joint.name}"
    if abs(float(np.linalg.norm(joint.axis)) - 1.0) > TRAVEL_TOLERANCE:
        raise ConfigurationError(f"{path}: got axis {joint.axis}, allowed a nonzero vector")
    if joint.mimics is None:
        low, high = (_joint_limit(tree, joint, key, None) for key in ("lower", "upper"))
    else:
        name, multiplier, offset = joint.mimics
        if leader is None or name != leader.name or abs(multiplier) != 1.0:
            raise ConfigurationError(
                f"{path}: mimic: got joint {name} times {multiplier:g}, allowed the other "
                "finger, times 1 or -1"
            )
        ends = (multiplier * end + offset for end in _joint_range(tree, leader, None))
        low, high = sorted(ends)
    if high <= low:
        raise ConfigurationError(f"{path}: limit: [{low:g}, {high:g}] m leaves no travel")
    return low, high


def _joint_limit(tree: Tree, joint: TreeJoint, key: str, leader: TreeJoint | None) -> float:
    limits = joint.limits
    if key not in limits and joint.mimics is not None and leader is not None:
        limits = leader.limits
    path = f"{tree.path}: joint {joint.name}: limit {_LIMITS[key]}"
    if key not in limits:
        raise ConfigurationError(f"{path}: missing")
    if key in ("velocity", "torque") and limits[key] <= 0.0:
        raise ConfigurationError(f"{path}: got {limits[key]:g}, allowed more than 0")
    return float(limits[key])


def box_to_block(path: str, pose: Matrix, edges: Matrix) -> Block:
    """Convert a box to a :class:`.Block`, which can be rotated about the x axis of its link only.

    Args:
        path: Path of the box, for messages.
        pose: Pose of the box in the frame of its link, (4, 4).
        edges: Edges, (3,) [m].

    Raises:
        ConfigurationError: No edge is parallel to the x axis of the link.
    """
    along = np.abs(pose[0, :3])
    first = int(along.argmax())
    if along[first] < 1.0 - 1e-9:
        raise ConfigurationError(
            f"{path}: the box has no edge along the x axis of the link that moves it. Use boxes "
            "that are rotated about x only, or capsules of this link in the YAML file."
        )
    order = [first, (first + 1) % 3, (first + 2) % 3]
    rotation = pose[:3, :3][:, order]
    roll = float(np.arctan2(rotation[2, 1], rotation[1, 1]))
    return Block(point_of(pose[:3, 3]), point_of(edges[order] / 2.0), roll)


def avoidance_capsules(
    body: GripperBody, fingers: Sequence[Finger], lower: float, upper: float
) -> tuple[Capsule, ...]:
    """Return capsules for collision avoidance with a gripper.

    They enclose each solid of the body, and the space in which the fingers move.

    Args:
        body: Body of the gripper.
        fingers: Both fingers, with origins in the body's frame.
        lower: Position of a closed finger [m].
        upper: Position of an open finger [m].
    """
    result = [
        solid if isinstance(solid, Capsule) else _capsule_around(corners(solid))
        for solid in body.contact
    ]
    points = [
        np.array(finger.origin.position)
        + (corners(solid) + q * np.array(finger.axis)) @ finger.origin.rotation.T
        for finger in fingers
        for solid in finger.contact
        for q in (lower, upper)
    ]
    return (*result, _capsule_around(np.vstack(points)))


def _capsule_around(points: Matrix) -> Capsule:
    center, half = (points.max(0) + points.min(0)) / 2.0, np.ptp(points, axis=0) / 2.0
    longest = int(half.argmax())
    radius = float(np.linalg.norm(np.delete(half, longest)))
    ends = np.repeat(center[None], 2, axis=0)
    ends[:, longest] += np.array([-1.0, 1.0]) * half[longest]
    return Capsule(point_of(ends[0]), point_of(ends[1]), radius)


GRIPPER_KEYS = ("urdf", "base", "tcp", "mount", "closed_width", "capsules", "visuals")


def read_gripper(extra: Path | None = None, *, urdf: Path | None = None) -> ParallelGripper:
    """Read a gripper from a URDF, and a YAML file with data that it lacks.

    The URDF has a body, two prismatic finger joints with limits, and fixed joints. One finger
    joint may mimic the other. Collision boxes are the contact geometry. Keys of the YAML file:

    - ``tcp``: Link between the fingertips, fixed to the base; default: ``tcp``.
    - ``urdf``: Path relative to the YAML file.
    - ``base``: Base link; default: root of the URDF.
    - ``mount``: x y z roll pitch yaw of the base on the flange [m, rad], default 0.
    - ``closed_width``: Width between closed fingers [m], default 0.
    - ``capsules`` and ``visuals``: Shapes by link, in the same format as for a robot.

    Args:
        extra: YAML file; not needed if the URDF has a link ``tcp``.
        urdf: URDF, which replaces the one in the YAML file.

    Raises:
        ConfigurationError: A file, key or joint limit is missing, there are not exactly two finger
            joints, or a link is not a valid body.
    """
    data: dict[str, Any] = {} if extra is None else read_extra(extra, GRIPPER_KEYS)
    if urdf is not None:
        data["urdf"] = str(urdf.absolute())
    path = extra or urdf
    if path is None or not isinstance(data.get("urdf"), str):
        raise ConfigurationError(f"{path or 'gripper'}: urdf: missing. Give the path of a file.")
    source = path.parent / data["urdf"]
    try:
        return _gripper(source, data, path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{source}: cannot be read: {error}") from None


def _gripper(source: Path, data: dict[str, Any], path: Path) -> ParallelGripper:
    tree, extra = read_urdf(source), Overrides(path, data, ())
    roots = [link for link in tree.bodies if link not in tree.above]
    base = data.get("base", roots[0] if len(roots) == 1 else "")
    if not isinstance(base, str) or base not in tree.bodies:
        raise ConfigurationError(
            f"{path}: base: got {base!r}, allowed one of the links {', '.join(tree.bodies)}"
        )
    closed = extra.length("closed_width")
    frames, joints = finger_joints(tree, base, closed / 2.0)
    for number, joint in enumerate(joints, start=1):
        frames[joint.link] = number, np.eye(4)
        frames.update(fixed_to(tree, joint.link, frames))
    tcp = data.get("tcp", "tcp")
    if not isinstance(tcp, str) or tcp not in frames or frames[tcp][0] != 0:
        allowed = ", ".join(link for link, (number, _) in frames.items() if number == 0)
        raise ConfigurationError(
            f"{path}: tcp: got {tcp!r}, allowed a link fixed to the base: {allowed}"
        )
    body, left, right = _parts(tree, frames, extra, data)
    fingers = _finger(joints[0], left), _finger(joints[1], right)
    mount = extra.numbers("mount", [0.0] * 6)
    lower, upper = joints[0].lower, joints[0].upper
    velocity = min(joint.velocity for joint in joints)
    force = min(joint.force for joint in joints)
    return ParallelGripper(
        name=path.stem,
        mount=Origin.of(pose_from(rotation_from_rpy(*mount[3:]), mount[:3])),
        tcp=Origin.of(frames[tcp][1]),
        body=body,
        fingers=fingers,
        lower=lower,
        upper=upper,
        velocity=velocity,
        speed=2.0 * velocity,
        force=force,
        max_force=force,
        capsules=avoidance_capsules(body, fingers, lower, upper),
    )


def _finger(joint: FingerJoint, part: GripperBody) -> Finger:
    origin, axis = Origin.of(joint.origin), point_of(joint.axis)
    return Finger(part.inertial, part.contact, part.visuals, origin, axis)


def _parts(
    tree: Tree, indices: dict[str, tuple[int, Matrix]], extra: Overrides, data: dict[str, Any]
) -> Iterator[GripperBody]:
    capsules = extra.capsules(list(indices)) or {}
    looks = extra.visuals(list(indices))
    boxes = read_boxes(tree.path, indices.keys() - capsules.keys())
    for part in range(3):
        bodies, contact, poll = [], list[Contact](), list[Visuals]()
        for link, (number, pose) in indices.items():
            if number != part:
                continue
            check_body(f"{tree.path}: link {link}", tree.bodies[link])
            bodies.append(moved(tree.bodies[link], pose))
            contact += [moved_solid(capsule, pose) for capsule in capsules.get(link, ())]
            contact += [
                box_to_block(f"{tree.path}: link {link}: collision", pose @ object_pose, edges)
                for object_pose, edges in boxes.get(link, ())
            ]
            poll += [moved_solid(solid, pose) for solid in looks.get(link, ())]
        inertial: Inertial = inertial_of(combined(bodies))
        name = next(link for link, (number, _) in indices.items() if number == part)
        if inertial.mass <= 0.0:
            raise ConfigurationError(f"{tree.path}: link {name}: has no inertial")
        if not contact:
            raise ConfigurationError(
                f"{tree.path}: link {name}: has no collision geometry. Add boxes, or capsules "
                f"of {name} in the YAML file."
            )
        shown = poll or [s if isinstance(s, Block) else visual(s) for s in contact]
        yield GripperBody(inertial, tuple(contact), tuple(shown))
