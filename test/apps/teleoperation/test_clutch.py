# SPDX-License-Identifier: Apache-2.0
"""Equations of the clutch against rigid motions of pinocchio."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.apps.teleoperation.source import Clutch
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose

pytestmark = pytest.mark.inline

EYE = np.eye(3)


def some(rng, step=0.1, angular=0.5):
    return Pose(rng.uniform(-step, step, 3), pin.exp3(rng.uniform(-angular, angular, 3) / 2.0))


def walk(clutch, device, end, axes, steps=10):
    """Move a device to a pose in small steps; return the final target."""
    for fraction in np.linspace(0.0, 1.0, steps):
        target = clutch.follow(device.interpolate(end, fraction), 0.02, axes)
    return target


def test_target_follows_scaled_device_motion():
    rng = np.random.default_rng(1)
    for _ in range(20):
        tool, device, end = (some(rng) for _ in range(3))
        axes = pin.exp3(rng.normal(size=3))
        clutch = Clutch(0.5, 0.3)
        clutch.close(tool)
        target = walk(clutch, device, end, axes)
        angular = pin.log3(end.rotation @ device.rotation.T)
        np.testing.assert_allclose(
            target.position, tool.position + 0.5 * axes @ (end.position - device.position)
        )
        expected = pin.exp3(0.3 * axes @ angular) @ tool.rotation
        np.testing.assert_allclose(target.rotation, expected, atol=1e-12)


def test_scale_one_keeps_rotation_between_target_and_device():
    """Both rotate equally, so the rotation between them when the clutch closes is preserved."""
    rng = np.random.default_rng(2)
    tool, device, end = (some(rng) for _ in range(3))
    clutch = Clutch()
    clutch.close(tool)
    target = walk(clutch, device, end, EYE)
    moved = pin.SE3(end.rotation @ device.rotation.T, np.zeros(3))
    np.testing.assert_allclose(target.rotation, moved.rotation @ tool.rotation, atol=1e-12)


def test_open_clutch_lets_device_return_without_target_motion():
    rng = np.random.default_rng(3)
    tool, device, end = (some(rng) for _ in range(3))
    clutch = Clutch(0.7, 0.7)
    clutch.close(tool)
    first = walk(clutch, device, end, EYE)
    clutch.open()
    clutch.close(first)  # The device returns meanwhile, much further than the limit of a jump.
    far = Pose([2.0, 0.0, 0.0], device.rotation)
    assert clutch.follow(far, 0.02, EYE).distance(first) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_twist_in_tool_frame_converges_to_exp6():
    """Many short steps along the axes of the tool converge to the screw motion of pinocchio."""
    twist = np.array([0.1, -0.05, 0.2, 0.4, -0.3, 0.6])
    start = Pose([0.3, 0.1, 0.5], pin.exp3(np.array([0.1, 0.9, -0.4])))
    ends = []
    for steps in (1000, 2000):
        clutch = Clutch()
        clutch.close(start)
        for _ in range(steps):
            clutch.move(twist, 1.0 / steps, clutch.target.rotation)
        screw = pin.SE3(start.rotation, start.position) * pin.exp6(pin.Motion(twist))
        end = pin.SE3(clutch.target.rotation, clutch.target.position)
        ends.append(np.linalg.norm(pin.log6(screw.actInv(end)).vector))
    assert ends[1] < 1e-4
    assert ends[1] == pytest.approx(ends[0] / 2.0, rel=0.05)  # First order.


def test_twists_along_fixed_axes_add_up_exactly():
    axes = pin.exp3(np.array([0.0, 0.0, 1.2]))
    clutch = Clutch(0.5, 2.0)
    clutch.close(Pose.identity())
    for _ in range(50):
        target = clutch.move(np.array([0.1, 0.0, 0.2, 0.0, 0.3, 0.0]), 0.02, axes)
    np.testing.assert_allclose(target.position, 0.5 * axes @ [0.1, 0.0, 0.2], atol=1e-12)
    np.testing.assert_allclose(target.rotation, pin.exp3(2.0 * axes @ [0.0, 0.3, 0.0]), atol=1e-9)


def test_jumps_and_unscalable_rotations_are_rejected_without_motion():
    clutch = Clutch(1.0, 0.5)
    clutch.close(Pose.identity())
    clutch.follow(Pose.identity(), 0.02, EYE)
    with pytest.raises(TargetRejected, match=r"1\.00 m\b.*\b0\.00 rad\b.*\b0\.04 m"):
        clutch.follow(Pose([1.0, 0.0, 0.0], EYE), 0.02, EYE)
    assert clutch.target.distance(Pose.identity()) == (0.0, 0.0)
    for angle in (*np.arange(0.0, 3.0, 0.1), 2.99):
        clutch.follow(Pose(np.zeros(3), pin.exp3(np.array([0.0, 0.0, angle]))), 0.02, EYE)
    with pytest.raises(TargetRejected, match=r"\b3\.10 rad"):
        clutch.follow(Pose(np.zeros(3), pin.exp3(np.array([0.0, 0.0, 3.1]))), 0.02, EYE)
    with pytest.raises(TargetRejected, match="clutch"):
        Clutch().move(np.zeros(6), 0.1, EYE)


@pytest.mark.parametrize("seconds", [0.01, 0.02, 0.05])
def test_device_motion_between_readings_is_limited_as_speed(seconds):
    """Two alternating trackers 10 cm apart once moved an arm back and forth: that is 5 m/s."""
    for speed, angular, is_moved in (
        (1.9, 0.0, True),
        (2.1, 0.0, False),
        (0, 5.9, True),
        (0, 6.1, False),
    ):
        clutch = Clutch()
        clutch.close(Pose.identity())
        clutch.follow(Pose.identity(), seconds, EYE)
        end = Pose([speed * seconds, 0.0, 0.0], pin.exp3(np.array([0.0, 0.0, angular * seconds])))
        if is_moved:
            assert clutch.follow(end, seconds, EYE).distance(end) == pytest.approx(
                (0, 0), abs=1e-9
            )
            continue
        with pytest.raises(TargetRejected, match=r"device.*\d m"):
            clutch.follow(end, seconds, EYE)


def test_slow_tracker_gets_time_since_last_reading_pause_does_not():
    clutch = Clutch()
    clutch.close(Pose.identity())
    orientation = pin.exp3(np.array([0.3, -0.7, 1.1]))
    for _ in range(3):  # A tracker of 17 Hz, read at 50 Hz.
        clutch.follow(Pose(np.zeros(3), orientation.copy()), 0.02, EYE)
    clutch.follow(Pose([0.09, 0.0, 0.0], orientation), 0.02, EYE)
    with pytest.raises(TargetRejected, match=r"\b0\.11 m .*\b0\.10 m"):
        clutch.follow(Pose([0.2, 0.0, 0.0], orientation), 3.0, EYE)
