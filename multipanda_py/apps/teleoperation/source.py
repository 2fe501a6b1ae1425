# SPDX-License-Identifier: Apache-2.0
"""Clutch between the motion of an input device and the target of an arm."""

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

GripperRequest = Literal["", "open", "close"]
TOOL_FRAME = "tool"
"""Name of the frame at the tool of the moved arm."""


@dataclass(frozen=True, eq=False)
class DeviceCommand:
    """Command of an input device for one arm.

    Attributes:
        is_engaged: True while the clutch is closed and the tool moves with the device; a twist or
            a pose is then required.
        twist: Desired linear and angular velocity, (6,) [m/s, rad/s], before scaling.
        pose: Pose of a device that measures it, instead of a twist. Only the motion since the
            clutch was closed matters, not the origin.
        frame: Frame of the axes of twist or pose: ``tool``, ``world`` or an arm, for its base; by
            default the base of the moved arm.
        gripper: Gripper command ``open`` or ``close``, given once; else empty.
        problem: Reason why the device gives no valid command, so that the arm holds; else empty.
    """

    is_engaged: bool = False
    twist: ArrayLike | None = None
    pose: Pose | None = None
    frame: str = ""
    gripper: GripperRequest = ""
    problem: str = ""


class Source(Protocol):
    """Input device. If :meth:`read` raises, its arms hold; it is still called in later ticks.

    Attributes:
        name: Name of the device in messages.
        arms: Arms that the device may move.
    """

    name: str
    arms: tuple[str, ...]

    def read(self) -> Mapping[str, DeviceCommand]:
        """Return the present command for each arm, without waiting.

        Arms without a command keep their targets.
        """

    def close(self) -> None:
        """Close the device."""


@dataclass(frozen=True, eq=False)
class ExternalWrench:
    """External wrench of an arm, for force feedback to the device that moves it.

    Attributes:
        wrench: Wrench of the environment on the tool, along the device's axes, (6,) [N, Nm].
        is_following: True while the arm moves with the device; otherwise there is no feedback.
        scale: Tool translation per device translation.
        seconds: Time since the previous value [s].
    """

    wrench: Vector
    is_following: bool
    scale: float
    seconds: float


@runtime_checkable
class ForceFeedbackSource(Source, Protocol):
    """Input device with force feedback."""

    def apply_wrench(self, arm: str, touch: ExternalWrench) -> None:
        """Receive the external wrench of an arm after each :meth:`read`, without waiting."""


MAX_SPEED = (2.0, 6.0)
"""Maximum plausible speed of a device; a faster motion counts as a jump [m/s, rad/s]."""
ALLOWED_STEP = (0.02, 0.06)
"""Step between two readings that is always allowed [m, rad]: the maximum speed at 100 Hz."""
MAX_READING_GAP = 0.05
"""Maximum time between two readings that increases the allowed step [s]."""
MAX_SCALED_ROTATION = 3.0
"""Maximum scaled rotation since the clutch was closed [rad], since the logarithm of a rotation is
unique only up to half a turn."""


class Clutch:
    r"""Target pose from the pose or velocity of a device.

    Let :math:`A` be the axes of the device's frame in the target's frame. When the clutch closes,
    the device is at :math:`(p_0, R_0)` and the target at :math:`(x_0, Q_0)`. While it is closed, a
    device at :math:`(p, R)` moves the target to

    .. math::
        x = x_0 + s A (p - p_0), \qquad Q = \exp(r \, A \log(R R_0^T)) \, Q_0.

    A twist :math:`(v, \omega)` moves the target within the time :math:`\delta` by

    .. math:: x \leftarrow x + s A v \delta, \qquad Q \leftarrow \exp(r A \omega \delta) \, Q.

    While the clutch is open, the target stays, so that the operator can move the device back.

    Args:
        scale: Scale s, target translation per device translation.
        rotation_scale: Scale r, target rotation per device rotation.

    Attributes:
        target: Target pose, or None before the clutch is first closed.
        is_closed: True while the clutch is closed.
    """

    def __init__(self, scale: float = 1.0, rotation_scale: float = 1.0) -> None:
        self.scale, self.rotation_scale = scale, rotation_scale
        self.target: Pose | None = None
        self.is_closed = False
        self._target_then = Pose.identity()
        self._device_then: Pose | None = None
        self._device = Pose.identity()
        self._age = 0.0
        self._axes: Matrix = np.eye(3)

    @property
    def axes(self) -> Matrix:
        """A: axes of the device's frame in the target's frame at the last closing, (3, 3)."""
        return self._axes

    def close(self, target: Pose) -> None:
        """Close the clutch: from now on, the device moves the target, starting at this pose."""
        self.target = self._target_then = target
        self._device_then, self.is_closed, self._age = None, True, 0.0

    def open(self) -> None:
        """Open the clutch, so that motions of the device do not move the target."""
        self.is_closed = False

    def follow(self, device: Pose, seconds: float, axes: Matrix) -> Pose:
        """Return the target for a pose of the device; its first pose does not move the target.

        Args:
            device: Pose of the device. Identical numbers count as the previous reading.
            seconds: Time since the last call [s].
            axes: Axes of the device's frame in the target's, (3, 3); those of the first pose stay
                in use.

        Raises:
            TargetRejected: The device has jumped, or has rotated too far for a scaled rotation.
        """
        then = self._device_then
        self._age = min(self._age + seconds, MAX_READING_GAP)
        if then is None:
            then = self._device_then = self._device = device
            self._age = 0.0
            self._axes = axes
        step, angle = device.distance(self._device)
        allowed = [max(j, self._age * s) for j, s in zip(ALLOWED_STEP, MAX_SPEED, strict=True)]
        if step > allowed[0] or angle > allowed[1]:
            raise TargetRejected(
                f"the device has jumped by {in_decimals(step, 2)} m and {angle:.2f} rad between "
                f"two readings, allowed {allowed[0]:.2f} m and {allowed[1]:.2f} rad "
                f"(speed up to {MAX_SPEED[0]:g} m/s and {MAX_SPEED[1]:g} rad/s)"
            )
        turned = pin.log3(device.rotation @ then.rotation.T)
        if self.rotation_scale != 1.0 and np.linalg.norm(turned) > MAX_SCALED_ROTATION:
            raise TargetRejected(
                f"the device has rotated by {np.linalg.norm(turned):.2f} rad since the clutch was "
                f"closed, allowed {MAX_SCALED_ROTATION:g} rad with a rotation scale other than 1"
            )
        if not _is_same(device, self._device):
            self._device, self._age = device, 0.0
        self.target = _moved(
            self._target_then,
            self.scale * self._axes @ (device.position - then.position),
            self.rotation_scale * self._axes @ turned,
        )
        return self.target

    def move(self, twist: Vector, seconds: float, axes: Matrix) -> Pose:
        """Return the target after a motion with a twist, (6,) [m/s, rad/s].

        Args:
            twist: Velocity along the axes of a frame, about the target's origin.
            seconds: Duration of the motion [s].
            axes: Axes of that frame in the target's, (3, 3).

        Raises:
            TargetRejected: The clutch was never closed.
        """
        if self.target is None:
            raise TargetRejected("the clutch was never closed, so that there is no target to move")
        step = axes @ twist.reshape(2, 3).T * seconds
        self.target = _moved(
            self.target, self.scale * step[:, 0], self.rotation_scale * step[:, 1]
        )
        return self.target

    def set_target(self, target: Pose) -> None:
        """Continue from another target, such as one that was limited to stay near the tool."""
        self.target = target


def _is_same(pose: Pose, other: Pose) -> bool:
    # The comparison is bit by bit, because the computed angle between equal rotations is not
    # exactly zero.
    return np.array_equal(pose.position, other.position) and np.array_equal(
        pose.rotation, other.rotation
    )


def _moved(pose: Pose, step: Vector, rotation_vector: Vector) -> Pose:
    # A composition of poses normalises the rotation. Otherwise rounding errors of many steps would
    # add up.
    rotation = Pose(np.zeros(3), pin.exp3(rotation_vector)) @ Pose(np.zeros(3), pose.rotation)
    return Pose(pose.position + step, rotation.rotation)
