# SPDX-License-Identifier: Apache-2.0
"""State of arms and objects, measured or expected, and contact points on objects."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from multipanda_py.exceptions import ConfigurationError, TaskFailed
from multipanda_py.planning.tasks.sections import WORLD, Contact
from multipanda_py.pose import Pose
from multipanda_py.robots import SceneObject
from multipanda_py.state import Vector

_AXES = "xyz"


@dataclass(frozen=True, eq=False)
class ContactPoint:
    """Point of an object on which a gripper presses.

    Attributes:
        arm: Name of the arm.
        object_name: Name of the object.
        point: Position in the frame of the object, (3,) [m].
        inward: Unit normal into the object, in its frame, (3,).
        pivots: True if the gripper may rotate about the point.
    """

    arm: str
    object_name: str
    point: Vector
    inward: Vector
    pivots: bool = False


def contact_points(contact: Contact, obj: SceneObject) -> list[ContactPoint]:
    r"""Return contact points and force directions of the arms of a contact.

    .. math:: p_{1,2} = c \pm h n, \qquad u_{1,2} = \mp n.

    n is the normal of the side, and h the half extent along it. c is the centre of the object plus
    the offset of the contact. Source: Nguyen, Int. J. Robotics Research 1988 (antipodal grasp).

    Raises:
        ConfigurationError: If the offset is too large for the side.
    """
    axis = _AXES.index(contact.side[1])
    sign = 1.0 if contact.side[0] == "+" else -1.0
    extents = half_extents(obj)
    foot = np.array(contact.offset)
    for number, (offset, extent) in enumerate(zip(foot, extents)):
        max_value = _max_offset(obj, axis, number, extent)
        if abs(offset) > max_value:
            raise ConfigurationError(
                f"offset: got {_AXES[number]} {offset:g} m, allowed [{-max_value:g}, "
                f"{max_value:g}] on side "
                f"{contact.side} of {obj.name}, a {obj.shape}"
            )
    normal = np.zeros(3)
    normal[axis] = sign
    return [
        ContactPoint(
            arm, obj.name, foot + sign * extents[axis] * normal, -sign * normal, contact.pivots
        )
        for arm, sign in zip(contact.arms, (1.0, -1.0))
    ]


def half_extents(obj: SceneObject) -> Vector:
    """Return the half extents of an object along its axes, (3,) [m]."""
    size = obj.size
    if obj.shape == "box":
        return np.array(size)
    if obj.shape == "sphere":
        return np.full(3, size[0])
    half = size[1] + (size[0] if obj.shape == "capsule" else 0.0)
    return np.array([size[0], size[0], half])


def _max_offset(obj: SceneObject, normal_axis: int, offset_axis: int, half_extent: float) -> float:
    """Return the maximum offset of a contact from the centre of a side of an object [m]."""
    if normal_axis == offset_axis:
        return 0.0
    if obj.shape == "box":
        return half_extent
    if obj.shape == "cylinder" and normal_axis == 2:  # A contact on a flat end.
        return half_extent
    if obj.shape in ("cylinder", "capsule") and offset_axis == 2:
        return obj.size[1]
    return 0.0


TOOL_SUFFIX = "/tool"
MAX_START_DEVIATION = 0.06
"""Maximum distance of a joint from the start of its plan at execution [rad]. The trajectory fades
this distance out."""
MAX_TIP_DEVIATION = 0.003
"""Maximum distance of a pressing tip from the start of its plan, in the frame of its object [m].
The trajectory removes this distance within one time step, which pulls at the object."""


@dataclass(frozen=True, eq=False)
class WorldState:
    """State of arms, tools and objects.

    Attributes:
        postures: Joint positions by arm, (n,) each [rad, m].
        tools: Poses of the tools in the world, by arm.
        object_poses: Poses in the world of all present objects, by name.
        others: Joint positions of the arms that are not part of the task, by name [rad, m].
    """

    postures: dict[str, Vector]
    tools: dict[str, Pose]
    object_poses: dict[str, Pose]
    others: dict[str, Vector] = field(default_factory=dict)

    def pose(self, frame: str) -> Pose:
        """Return the pose in the world of ``world``, ``ARM/tool`` or an object.

        Raises:
            TaskFailed: If the object is absent.
        """
        if frame == WORLD:
            return Pose.identity()
        if frame.endswith(TOOL_SUFFIX):
            return self.tools[frame.removesuffix(TOOL_SUFFIX)]
        if frame not in self.object_poses:
            raise TaskFailed(
                f"object {frame} is absent. Present: {', '.join(self.object_poses) or 'none'}"
            )
        return self.object_poses[frame]

    def deviation(
        self,
        other: WorldState,
        objects: Collection[str],
        moved: float,
        pressed: Sequence[ContactPoint] = (),
    ) -> str:
        """Describe the first deviation from an expected state above a tolerance; "" without one.

        Args:
            other: Expected state.
            objects: Names of the objects to compare.
            moved: Maximum displacement of an object [m]; ten times this value is the maximum
                rotation [rad].
            pressed: Contact points whose tools must keep their positions on the objects.
        """
        for name in objects:
            distance, angle = self.pose(name).distance(other.pose(name))
            if distance > moved or angle > 10.0 * moved:
                return f"{name} is {distance:.3f} m and {angle:.2f} rad from its expected pose"
        for arm, configuration in self.postures.items():
            off = float(np.abs(configuration - other.postures[arm]).max())
            if not math.isfinite(off) or off > MAX_START_DEVIATION:
                return f"a joint of {arm} is {off:.3f} rad from its expected position"
        for point in pressed:
            off = float(np.linalg.norm(self.tip(point) - other.tip(point)))
            if off > MAX_TIP_DEVIATION:
                return f"the tip of {point.arm} is {off:.3f} m from its expected position"
        return ""

    def tip(self, point: ContactPoint) -> Vector:
        """Return the position of a tool in the frame of the object it touches, (3,) [m]."""
        return (self.pose(point.object_name).inverse() @ self.tools[point.arm]).position
