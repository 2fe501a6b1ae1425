# SPDX-License-Identifier: Apache-2.0
"""Read a parallel gripper from data: a URDF, and a YAML with what that lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.chain import fixed_to
from multipanda_py.robots.extra import Extra, read_extra
from multipanda_py.robots.finger_joints import FingerJoint, finger_joints
from multipanda_py.robots.gripper_shapes import block_of, room_of
from multipanda_py.robots.inertial import Inertial
from multipanda_py.robots.link_shapes import moved_solid, picture
from multipanda_py.robots.load import combined, inertial_of
from multipanda_py.robots.parallel_gripper import (
    Contact,
    Finger,
    GripperBody,
    Look,
    ParallelGripper,
)
from multipanda_py.robots.read_urdf import read_boxes, read_urdf
from multipanda_py.robots.rotations import rotation_from_rpy
from multipanda_py.robots.shapes import Block, Origin, point_of
from multipanda_py.robots.tree import Tree, check_body, moved, pose_from

Matrix = NDArray[np.float64]

KEYS = ("urdf", "base", "tcp", "mount", "closed_width", "capsules", "look")


def read_gripper(extra: Path | None = None, *, urdf: Path | None = None) -> ParallelGripper:
    """Return the gripper that a URDF and a YAML with what that lacks describe.

    The URDF has a body and two prismatic joints with limits, one of which may mimic the other,
    that move two fingers apart and together; everything else is fixed. Contact geometry is that of
    its collision boxes. The YAML has ``tcp``, the link between the fingertips, and may
    have ``urdf`` (relative to it), ``base`` (the root of the URDF otherwise), ``mount`` (x y z
    roll pitch yaw of the base on the flange [m, rad]), ``closed_width`` (between closed fingers,
    0 otherwise [m]), and ``capsules`` and ``look`` by link, as a robot's.

    Args:
        extra: The YAML; it may be left out where the URDF has a link ``tcp``.
        urdf: The URDF, before what the YAML says.

    Raises:
        ConfigurationError: If a file or key is missing, there are not two such joints, one lacks a
            limit, or a link is no body; says where, what was got and what is allowed.
    """
    data: dict[str, Any] = {} if extra is None else read_extra(extra, KEYS)
    if urdf is not None:
        data["urdf"] = str(urdf.absolute())
    where = extra or urdf
    if where is None or not isinstance(data.get("urdf"), str):
        raise ConfigurationError(f"{where or 'hand'}: urdf: missing: the path of a file")
    source = where.parent / data["urdf"]
    try:
        return _gripper(source, data, where)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{source}: cannot be read: {error}") from None


def _gripper(source: Path, data: dict[str, Any], where: Path) -> ParallelGripper:
    tree, extra = read_urdf(source), Extra(where, data, ())
    roots = [link for link in tree.bodies if link not in tree.above]
    base = data.get("base", roots[0] if len(roots) == 1 else "")
    if not isinstance(base, str) or base not in tree.bodies:
        raise ConfigurationError(
            f"{where}: base: got {base!r}, allowed a link: {', '.join(tree.bodies)}"
        )
    closed = extra.length("closed_width")
    places, joints = finger_joints(tree, base, closed / 2.0)
    for number, joint in enumerate(joints, start=1):
        places[joint.link] = number, np.eye(4)
        places.update(fixed_to(tree, joint.link, places))
    tcp = data.get("tcp", "tcp")
    if not isinstance(tcp, str) or tcp not in places or places[tcp][0] != 0:
        allowed = ", ".join(link for link, (number, _) in places.items() if number == 0)
        raise ConfigurationError(
            f"{where}: tcp: got {tcp!r}, allowed a link fixed to the base: {allowed}"
        )
    body, left, right = _parts(tree, places, extra, data)
    fingers = _finger(joints[0], left), _finger(joints[1], right)
    mount = extra.numbers("mount", [0.0] * 6)
    lower, upper = joints[0].lower, joints[0].upper
    velocity = min(joint.velocity for joint in joints)
    force = min(joint.force for joint in joints)
    return ParallelGripper(
        name=where.stem,
        mount=Origin.of(pose_from(rotation_from_rpy(*mount[3:]), mount[:3])),
        tcp=Origin.of(places[tcp][1]),
        body=body,
        fingers=fingers,
        lower=lower,
        upper=upper,
        velocity=velocity,
        speed=2.0 * velocity,
        force=force,
        most_force=force,
        capsules=room_of(body, fingers, lower, upper),
    )


def _finger(joint: FingerJoint, part: GripperBody) -> Finger:
    origin, axis = Origin.of(joint.origin), point_of(joint.axis)
    return Finger(part.inertial, part.contact, part.look, origin, axis)


def _parts(
    tree: Tree, places: dict[str, tuple[int, Matrix]], extra: Extra, data: dict[str, Any]
) -> Iterator[GripperBody]:
    """Yield the body and both fingers, each with all that is fixed to it."""
    capsules = extra.capsules(list(places)) or {}
    looks = extra.look(list(places))
    boxes = read_boxes(tree.path, places.keys() - capsules.keys())
    for part in range(3):
        bodies, contact, look = [], list[Contact](), list[Look]()
        for link, (number, pose) in places.items():
            if number != part:
                continue
            check_body(f"{tree.path}: link {link}", tree.bodies[link])
            bodies.append(moved(tree.bodies[link], pose))
            contact += [moved_solid(capsule, pose) for capsule in capsules.get(link, ())]
            contact += [
                block_of(f"{tree.path}: link {link}: collision", pose @ place, edges)
                for place, edges in boxes.get(link, ())
            ]
            look += [moved_solid(solid, pose) for solid in looks.get(link, ())]
        inertial: Inertial = inertial_of(combined(bodies))
        name = next(link for link, (number, _) in places.items() if number == part)
        if inertial.mass <= 0.0:
            raise ConfigurationError(f"{tree.path}: link {name}: got no inertial, allowed one")
        if not contact:
            raise ConfigurationError(
                f"{tree.path}: link {name}: got no collision geometry, allowed boxes, or capsules "
                f"of {name} in the YAML"
            )
        shown = look or [s if isinstance(s, Block) else picture(s) for s in contact]
        yield GripperBody(inertial, tuple(contact), tuple(shown))
