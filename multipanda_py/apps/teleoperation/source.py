# SPDX-License-Identifier: Apache-2.0
"""Interface of input devices, and the clutch between a device and the target of an arm."""

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
        is_engaged: True while the clutch is closed, so that the tool moves with the device. A
            twist or a pose is then required.
        twist: Commanded linear and angular velocity, (6,) [m/s, rad/s]. :class:`Clutch` scales it.
        pose: Measured pose of the device, instead of a twist. Only its changes move the tool.
        frame: Frame of twist or pose: ``tool``, ``world``, or the name of an arm for its base. By
            default the base of the moved arm.
        gripper: New command ``open`` or ``close`` for the gripper; empty for none.
        problem: Reason why the device gives no valid command, so that the arm holds; empty for a
            valid one.
    """

    is_engaged: bool = False
    twist: ArrayLike | None = None
    pose: Pose | None = None
    frame: str = ""
    gripper: GripperRequest = ""
    problem: str = ""


class Source(Protocol):
    """Input device, which moves the targets of arms. Its arms hold while :meth:`read` raises.

    Attributes:
        name: Name of the device in messages.
        arms: Arms that the device may move.
    """

    name: str
    arms: tuple[str, ...]

    def read(self) -> Mapping[str, DeviceCommand]:
        """Return the present command for each arm, without waiting.

        The clutches of arms without a command open.
        """

    def close(self) -> None:
        """Close the device."""


@dataclass(frozen=True, eq=False)
class ExternalWrench:
    """External wrench of an arm, for force feedback to the device that moves it.

    Attributes:
        wrench: Wrench of the environment on the tool, in the axes of the device's frame, (6,)
            [N, Nm].
        is_following: True while the clutch is closed. While it is open, feedback fades to zero.
        scale: Ratio of the translation of the tool to that of the device.
        seconds: Time since the previous wrench [s].
    """

    wrench: Vector
    is_following: bool
    scale: float
    seconds: float


@runtime_checkable
class ForceFeedbackSource(Source, Protocol):
    """Input device with force feedback."""

    def apply_wrench(self, arm: str, external_wrench: ExternalWrench) -> None:
        """Process the external wrench of an arm, without waiting; called after :meth:`read`."""


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
    r"""Clutch between an input device and the target pose of an arm.

    While the clutch is open, the target does not move. When it closes, position and rotation are
    :math:`(p_0, R_0)` for the device and :math:`(x_0, Q_0)` for the target. A device at :math:`(p,
    R)` then moves the target to

    .. math::
        x = x_0 + s A (p - p_0), \qquad Q = \exp(r \, A \log(R R_0^T)) \, Q_0.

    A twist :math:`(v, \omega)` of the device moves the target within the time :math:`\delta` by

    .. math:: x \leftarrow x + s A v \delta, \qquad Q \leftarrow \exp(r A \omega \delta) \, Q.

    The rotation matrix A converts vectors from the device's frame to the target's frame.

    Args:
        scale: Scale s, target translation per device translation.
        rotation_scale: Scale r, target rotation per device rotation.

    Attributes:
        target: Target pose; None before the clutch is first closed.
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
        """Rotation matrix A from the device's frame to the target's frame, (3, 3)."""
        return self._axes

    def close(self, target: Pose) -> None:
        """Close the clutch: the device moves the target from this pose."""
        self.target = self._target_then = target
        self._device_then, self.is_closed, self._age = None, True, 0.0

    def open(self) -> None:
        """Open the clutch, so that motions of the device do not move the target."""
        self.is_closed = False

    def follow(self, device: Pose, seconds: float, axes: Matrix) -> Pose:
        """Return the target for a pose of the device.

        The first pose after closing the clutch is the reference for later ones and does not move
        the target.

        Args:
            device: Pose of the device.
            seconds: Time since the last call [s].
            axes: Rotation matrix from the device's frame to the target's frame, (3, 3); used only
                at the first pose.

        Raises:
            TargetRejected: The device has moved too fast. With a rotation scale other than 1, also
                if it has rotated by more than 3 rad since the clutch closed.
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
                f"(maximum speed {MAX_SPEED[0]:g} m/s and {MAX_SPEED[1]:g} rad/s)"
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
        """Return the target after a motion with a twist.

        Args:
            twist: Commanded linear and angular velocity in the device's frame, (6,) [m/s, rad/s].
                The target rotates about its own origin.
            seconds: Duration of the motion [s].
            axes: Rotation matrix from the device's frame to the target's frame, (3, 3).

        Raises:
            TargetRejected: The clutch was never closed.
        """
        if self.target is None:
            raise TargetRejected("clutch: never closed, so there is no target. Call close() first")
        step = axes @ twist.reshape(2, 3).T * seconds
        self.target = _moved(
            self.target, self.scale * step[:, 0], self.rotation_scale * step[:, 1]
        )
        return self.target

    def set_target(self, target: Pose) -> None:
        """Replace the target."""
        self.target = target


def _is_same(pose: Pose, other: Pose) -> bool:
    # Arrays are compared, because the computed angle between equal rotations may differ from zero.
    return np.array_equal(pose.position, other.position) and np.array_equal(
        pose.rotation, other.rotation
    )


def _moved(pose: Pose, step: Vector, rotation_vector: Vector) -> Pose:
    # Composition of poses normalises the rotation, so that rounding errors do not add up.
    rotation = Pose(np.zeros(3), pin.exp3(rotation_vector)) @ Pose(np.zeros(3), pose.rotation)
    return Pose(pose.position + step, rotation.rotation)
