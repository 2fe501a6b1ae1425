# SPDX-License-Identifier: Apache-2.0
"""What a device says of an arm, and what a device is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from multipanda_py.pose import Pose
from multipanda_py.state import Vector

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
