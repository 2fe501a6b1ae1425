# SPDX-License-Identifier: Apache-2.0
"""What a parallel gripper is: a body on the flange and two fingers that slide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.geometry import Block, Capsule, Origin, Point, Turned, rotation_from_rpy
from multipanda_py.robots.inertial import Inertial, Load, combined

Contact: TypeAlias = Capsule | Block
Look: TypeAlias = Turned | Block


@dataclass(frozen=True)
class GripperBody:
    """What does not move on the flange.

    Attributes:
        inertial: In its frame.
        contact: What touches things.
        look: Its picture.
    """

    inertial: Inertial
    contact: tuple[Contact, ...]
    look: tuple[Look, ...]


@dataclass(frozen=True)
class Finger(GripperBody):
    """A finger; its frame is that of its joint.

    Attributes:
        origin: In the body, where the position of the joint is zero.
        axis: Along which it opens, in its frame, of length 1.
    """

    origin: Origin
    axis: Point

    @property
    def pad(self) -> int:
        """Number of the solid in ``contact`` that reaches farthest inwards."""
        axis = np.array(self.axis)
        inner = [float((corners(solid) @ axis).min()) for solid in self.contact]
        return inner.index(min(inner))


@dataclass(frozen=True, eq=False)
class ParallelGripper:
    """A gripper whose fingers move alike; the width between them is twice a finger's position.

    Whatever its own description calls them, an arm has its parts as ``hand``, ``leftfinger``,
    ``rightfinger`` and ``hand_tcp``, its joints as ``finger_joint1`` and ``finger_joint2``.

    Attributes:
        name: For messages.
        mount: Of the body in the flange.
        tcp: Of the tool centre point in the body.
        body: The body.
        fingers: Left and right.
        lower: Position of a finger when it is closed [m].
        upper: When it is open [m].
        velocity: Fastest that a finger moves [m/s].
        speed: Fastest that the width may be told to change [m/s].
        force: That a finger can keep up [N].
        most_force: Largest that may be asked for [N].
        capsules: For avoidance: the body, and the room of the fingers, in the body's frame.
    """

    name: str
    mount: Origin
    tcp: Origin
    body: GripperBody
    fingers: tuple[Finger, Finger]
    lower: float
    upper: float
    velocity: float
    speed: float
    force: float
    most_force: float
    capsules: tuple[Capsule, ...]

    @property
    def min_width(self) -> float:
        """Width with closed fingers [m]."""
        return 2.0 * self.lower

    @property
    def max_width(self) -> float:
        """Width with open fingers [m]."""
        return 2.0 * self.upper

    @property
    def load(self) -> Load:
        """All of it with open fingers, as one body in the frame of the flange."""
        turn, origin = self.mount.rotation, np.array(self.mount.position)
        parts = [_placed(self.body.inertial, origin, turn)]
        for finger in self.fingers:
            own = turn @ finger.origin.rotation
            place = origin + turn @ np.array(finger.origin.position)
            place = place + own @ (self.upper * np.array(finger.axis))
            parts.append(_placed(finger.inertial, place, own))
        return combined(parts)

    @property
    def pose_tcp_in_flange(self) -> NDArray[np.float64]:
        """Tool centre point, homogeneous transform, (4, 4)."""
        pose, turn = np.eye(4), self.mount.rotation
        pose[:3, :3] = turn @ self.tcp.rotation
        pose[:3, 3] = np.array(self.mount.position) + turn @ np.array(self.tcp.position)
        return pose


def corners(solid: Contact) -> NDArray[np.float64]:
    """Return the corners of a block, or of the box around a capsule, (8, 3) or (16, 3) [m]."""
    signs = np.array(np.meshgrid(*[(-1.0, 1.0)] * 3)).reshape(3, 8).T
    if isinstance(solid, Block):
        turn = rotation_from_rpy(solid.roll, 0.0, 0.0)
        return np.asarray(np.array(solid.center) + signs * solid.half_size @ turn.T)
    return np.vstack([np.array(end) + solid.radius * signs for end in (solid.start, solid.end)])


def _placed(inertial: Inertial, position: NDArray[np.float64], turn: NDArray[np.float64]) -> Load:
    """Return a body in the frame that its own has a position and an orientation in."""
    com = position + turn @ np.array(inertial.com)
    return Load(inertial.mass, com, turn @ inertial.inertia @ turn.T)
