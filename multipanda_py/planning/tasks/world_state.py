# SPDX-License-Identifier: Apache-2.0
"""Where arms and things are at a moment, measured or expected."""

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
    """A point of a thing that a hand presses on.

    Attributes:
        arm: Whose hand.
        thing: Which thing.
        point: In the frame of the thing, (3,) [m].
        inward: Unit normal into the thing, in its frame, (3,).
        pivots: Whether the hand may turn about the point.
    """

    arm: str
    thing: str
    point: Vector
    inward: Vector
    pivots: bool = False


def contact_points(contact: Contact, thing: SceneObject) -> list[ContactPoint]:
    r"""Return where the arms of a contact touch, and along which line they press.

    .. math:: p_{1,2} = c \pm h n, \qquad u_{1,2} = \mp n

    with the normal n of the side, the half extent h along it, and the foot c of the line, by
    default the centre. Both forces act along one line through both points, so they hold each
    other without a torque on the thing, whatever the friction (antipodal: Nguyen, Int. J. of
    Robotics Research 1988).

    Raises:
        ConfigurationError: If the thing has no face there.
    """
    axis = _AXES.index(contact.side[1])
    sign = 1.0 if contact.side[0] == "+" else -1.0
    extents = half_extents(thing)
    foot = np.array(contact.at)
    for number, (offset, extent) in enumerate(zip(foot, extents)):
        most = _room(thing, axis, number, extent)
        if abs(offset) > most:
            raise ConfigurationError(
                f"at: got {_AXES[number]} {offset:g} m, allowed [{-most:g}, {most:g}] on side "
                f"{contact.side} of {thing.name}, a {thing.shape}"
            )
    normal = np.zeros(3)
    normal[axis] = sign
    return [
        ContactPoint(
            arm, thing.name, foot + way * extents[axis] * normal, -way * normal, contact.pivots
        )
        for arm, way in zip(contact.arms, (1.0, -1.0))
    ]


def half_extents(thing: SceneObject) -> Vector:
    """Return how far a thing reaches from its centre along its axes, (3,) [m]."""
    size = thing.size
    if thing.shape == "box":
        return np.array(size)
    if thing.shape == "sphere":
        return np.full(3, size[0])
    half = size[1] + (size[0] if thing.shape == "capsule" else 0.0)
    return np.array([size[0], size[0], half])


def _room(thing: SceneObject, side: int, across: int, extent: float) -> float:
    """Return how far from the centre a face goes on flat, or straight."""
    if side == across:
        return 0.0
    if thing.shape == "box":
        return extent
    if thing.shape == "cylinder" and side == 2:  # its flat ends
        return extent
    if thing.shape in ("cylinder", "capsule") and across == 2:
        return thing.size[1]
    return 0.0


TOOL = "/tool"
NEAR = 0.06
"""How far a joint may be from where a plan begins [rad]: it blends the rest out on its way."""
GRIP = 0.003
"""How far a tip may be, in what it presses on, from where a plan begins: it blends that out, too,
in one slice, and tears at the thing [m]."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Postures, tools and things.

    Attributes:
        postures: Joint positions by arm, (n,) each [rad, m].
        tools: Poses of the tools in the world, by arm.
        things: Poses of all things that are there in the world, by name.
        others: Joint positions of the arms that do not take part, by name [rad, m].
    """

    postures: dict[str, Vector]
    tools: dict[str, Pose]
    things: dict[str, Pose]
    others: dict[str, Vector] = field(default_factory=dict)

    def pose(self, frame: str) -> Pose:
        """Return the pose of ``world``, ``ARM/tool`` or a thing in the world.

        Raises:
            TaskFailed: If there is no such thing now.
        """
        if frame == WORLD:
            return Pose.identity()
        if frame.endswith(TOOL):
            return self.tools[frame.removesuffix(TOOL)]
        if frame not in self.things:
            raise TaskFailed(f"{frame} is not there; there are {', '.join(self.things) or 'none'}")
        return self.things[frame]

    def far_from(
        self,
        other: Seen,
        things: Collection[str],
        moved: float,
        pressed: Sequence[ContactPoint] = (),
    ) -> str:
        """Say what is elsewhere, beyond what a plan can begin with; empty if nothing is.

        Args:
            other: Where it was expected.
            things: Those that count.
            moved: How far they may be [m]; and turned, by as much over 10 cm.
            pressed: Where tips touch things that the plan is to carry.
        """
        for name in things:
            distance, angle = self.pose(name).distance(other.pose(name))
            if distance > moved or angle > 10.0 * moved:
                return f"{name} is {distance:.3f} m and {angle:.2f} rad from where it was expected"
        for arm, posture in self.postures.items():
            off = float(np.abs(posture - other.postures[arm]).max())
            if not math.isfinite(off) or off > NEAR:
                return f"a joint of {arm} is {off:.3f} rad from where it was expected"
        for point in pressed:
            off = float(np.linalg.norm(self.tip(point) - other.tip(point)))
            if off > GRIP:
                return f"the tip of {point.arm} is {off:.3f} m from where it was expected"
        return ""

    def tip(self, point: ContactPoint) -> Vector:
        """Return where the tip of a contact's arm is in its thing, (3,) [m]."""
        return (self.pose(point.thing).inverse() @ self.tools[point.arm]).position
