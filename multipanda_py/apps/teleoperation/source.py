# SPDX-License-Identifier: Apache-2.0
"""Motions of a device become motions of a target, as far as a clutch is closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

GripperWish = Literal["", "open", "close"]
TOOL = "tool"
"""The frame whose axes are those of the tool that is moved."""


@dataclass(frozen=True, eq=False)
class HandCommand:
    """What a device asks of one arm at one instant.

    Attributes:
        is_engaged: Whether the clutch is closed: the tool moves with the device. It takes True or
            False, and with True a twist or a pose.
        twist: Linear and angular velocity that is asked for, (6,) [m/s, rad/s], before scaling.
        pose: Where the device is, for those that know it, instead of a twist. Its origin does not
            matter, only how it moves from where the clutch was closed.
        frame: Along whose axes either is: ``tool``, ``world`` or an arm's base; by default the
            base of the arm.
        gripper: Said once for each time that the hand is to be opened or closed.
        problem: Why nothing is known of the device at the moment, in words; the arm holds.
    """

    is_engaged: bool = False
    twist: ArrayLike | None = None
    pose: Pose | None = None
    frame: str = ""
    gripper: GripperWish = ""
    problem: str = ""


class Source(Protocol):
    """A device. Whatever :meth:`read` raises makes its arms hold; it is asked again all the same.

    Attributes:
        name: As sentences call it.
        arms: Those that it may move.
    """

    name: str
    arms: tuple[str, ...]

    def read(self) -> Mapping[str, HandCommand]:
        """Return what is asked of arms now, without waiting; an arm that is left out rests."""

    def close(self) -> None:
        """Let go of the device."""


@dataclass(frozen=True, eq=False)
class Touch:
    """What an arm feels, for the hand that moves it.

    Attributes:
        wrench: Of the world on its tool, along the device's axes, (6,) [N, Nm].
        is_following: Whether it moves with the device; else nothing is to be felt.
        scale: Metres of the tool per metre of the device.
        seconds: Since the last one [s].
    """

    wrench: Vector
    is_following: bool
    scale: float
    seconds: float


@runtime_checkable
class FeelingSource(Source, Protocol):
    """A device that lets the hand feel what its arms touch."""

    def feel(self, arm: str, touch: Touch) -> None:
        """Take what an arm feels, after each :meth:`read`, without waiting."""


MOST_SPEED = (2.0, 6.0)
"""Faster is no wish of a hand, but a device that has jumped [m/s, rad/s]."""
JITTER = (0.02, 0.06)
"""This far apart two readings may always be [m, rad]: at 100 Hz that is the same speed."""
LONGEST = 0.05
"""Between two readings, as far as the allowed step is concerned [s]."""
MOST_TURN = 3.0
"""Turns from where the clutch was closed, which are scaled, are known up to half a turn [rad]."""


class Clutch:
    r"""Where a target is to be, from where a device is or how fast it asks to go.

    While it is closed, and with the axes :math:`A` of the device's frame in the target's, a
    device at :math:`(p, R)` that was at :math:`(p_0, R_0)` when the clutch was closed takes the
    target from :math:`(x_0, Q_0)` to

    .. math::
        x = x_0 + s A (p - p_0), \qquad Q = \exp(r \, A \log(R R_0^T)) \, Q_0

    and a twist :math:`(v, \omega)` moves it within :math:`\delta` by

    .. math:: x \leftarrow x + s A v \delta, \qquad Q \leftarrow \exp(r A \omega \delta) \, Q

    While it is open nothing moves the target, so that the hand may go back.

    Args:
        scale: s, metres of the target per metre of the device.
        turn_scale: r, likewise of turns.

    Attributes:
        target: Where the target is, or None before the clutch was ever closed.
        is_closed: Whether it is.
    """

    def __init__(self, scale: float = 1.0, turn_scale: float = 1.0) -> None:
        self.scale, self.turn_scale = scale, turn_scale
        self.target: Pose | None = None
        self.is_closed = False
        self._target_then = Pose.identity()
        self._device_then: Pose | None = None
        self._device = Pose.identity()
        self._age = 0.0
        self._axes: Matrix = np.eye(3)

    @property
    def axes(self) -> Matrix:
        """A: axes of the device's frame in the target's since the clutch was closed, (3, 3)."""
        return self._axes

    def close(self, target: Pose) -> None:
        """Begin to move a target from where it is."""
        self.target = self._target_then = target
        self._device_then, self.is_closed, self._age = None, True, 0.0

    def open(self) -> None:
        """Leave the target where it is."""
        self.is_closed = False

    def follow(self, device: Pose, seconds: float, axes: Matrix) -> Pose:
        """Return where the target is to be; the first pose of the device moves nothing.

        Args:
            device: Its pose. The very same numbers again are the last reading, and no new one.
            seconds: Since this was called before [s].
            axes: Those of its frame in the target's, (3, 3); they stay those of the first pose.

        Raises:
            TargetRejected: If the device has jumped, or was turned too far for a scaled turn.
        """
        then = self._device_then
        self._age = min(self._age + seconds, LONGEST)
        if then is None:
            then = self._device_then = self._device = device
            self._age = 0.0
            self._axes = axes
        step, turn = device.distance(self._device)
        allowed = [max(j, self._age * s) for j, s in zip(JITTER, MOST_SPEED, strict=True)]
        if step > allowed[0] or turn > allowed[1]:
            raise TargetRejected(
                f"the device has jumped by {in_decimals(step, 2)} m and {turn:.2f} rad between "
                f"two readings, allowed {allowed[0]:.2f} m and {allowed[1]:.2f} rad, "
                f"{MOST_SPEED[0]:g} m/s and {MOST_SPEED[1]:g} rad/s"
            )
        turned = pin.log3(device.rotation @ then.rotation.T)
        if self.turn_scale != 1.0 and np.linalg.norm(turned) > MOST_TURN:
            raise TargetRejected(
                f"the device has turned by {np.linalg.norm(turned):.2f} rad since the clutch was "
                f"closed, allowed {MOST_TURN:g} rad with a scale of turns other than 1"
            )
        if not _is_same(device, self._device):
            self._device, self._age = device, 0.0
        self.target = _moved(
            self._target_then,
            self.scale * self._axes @ (device.position - then.position),
            self.turn_scale * self._axes @ turned,
        )
        return self.target

    def move(self, twist: Vector, seconds: float, axes: Matrix) -> Pose:
        """Return where the target is after a time at a twist, (6,) [m/s, rad/s].

        Args:
            twist: Along axes of a frame, about the target's own origin.
            seconds: How long [s].
            axes: Of that frame in the target's, (3, 3).

        Raises:
            TargetRejected: If the clutch was never closed.
        """
        if self.target is None:
            raise TargetRejected("a target is moved before its clutch was ever closed")
        step = axes @ twist.reshape(2, 3).T * seconds
        self.target = _moved(self.target, self.scale * step[:, 0], self.turn_scale * step[:, 1])
        return self.target

    def keep(self, target: Pose) -> None:
        """Have twists go on from another target: one that does not run ahead of its arm."""
        self.target = target


def _is_same(pose: Pose, other: Pose) -> bool:
    # To the last bit: angles between rotations that are the same are not quite zero.
    return np.array_equal(pose.position, other.position) and np.array_equal(
        pose.rotation, other.rotation
    )


def _moved(pose: Pose, step: Vector, turn: Vector) -> Pose:
    # Composed as poses are, so that it stays a rotation however long it goes on.
    rotation = Pose(np.zeros(3), pin.exp3(turn)) @ Pose(np.zeros(3), pose.rotation)
    return Pose(pose.position + step, rotation.rotation)
