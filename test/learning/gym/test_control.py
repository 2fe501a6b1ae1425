# SPDX-License-Identifier: Apache-2.0
"""Conversion between poses and six-number rotations, and commands to grippers."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipanda_py.learning.gym.control import CONTROLS, TOOL_ROTATION_SPEED, pose_numbers, pose_of
from multipanda_py.learning.gym.spaces import GripperControl
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

numbers = st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3)


@given(numbers, numbers)
def test_pose_survives_conversion_to_numbers_and_back(position, rotation_vector):
    pose = Pose(np.array(position), pin.exp3(np.array(rotation_vector)))
    restored = pose_of(pose_numbers(pose), Pose.identity())
    assert restored.position == pytest.approx(pose.position)
    assert restored.rotation == pytest.approx(pose.rotation, abs=1e-12)


@given(st.lists(st.floats(-10.0, 10.0), min_size=9, max_size=9))
def test_nine_numbers_are_always_a_valid_pose(some):
    pose = pose_of(np.array(some), Pose.identity())  # A pose checks its rotation.
    assert pose.position == pytest.approx(some[:3])


def test_parallel_columns_keep_rotation():
    start = Pose(np.zeros(3), pin.exp3(np.array([0.3, 0.0, 0.0])))
    result = pose_of(np.array([1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0]), start)
    assert result.rotation == pytest.approx(start.rotation)
    assert result.position == pytest.approx([1.0, 2.0, 3.0])


@given(numbers, numbers)
def test_steps_toward_pose_reach_it(position, rotation_vector):
    control = CONTROLS["delta_pose"](ArmDescription("arm"), 0.05)
    goal = Pose(0.05 * np.array(position), pin.exp3(0.3 * np.array(rotation_vector)))
    for _ in range(60):
        step = control.toward(goal)
        assert np.abs(step).max() <= 1.0 + 1e-9
        moved = control.pose.position + 0.4 * 0.05 * step[:3]
        control.pose = Pose(
            moved, pin.exp3(TOOL_ROTATION_SPEED * 0.05 * step[3:6]) @ control.pose.rotation
        )
    assert control.pose.position == pytest.approx(goal.position, abs=1e-9)
    assert control.pose.rotation == pytest.approx(goal.rotation, abs=1e-9)


def test_joint_control_rejects_pose_goal():
    with pytest.raises(NotImplementedError, match="Use the control delta_pose"):
        CONTROLS["joint"](ArmDescription("arm"), 0.05).toward(Pose.identity())


def test_gripper_closes_opens_and_receives_each_command_once():
    with simple_cell({"arm": {}}) as cell:
        gripper_control, gripper = GripperControl("arm"), cell.gripper("arm")
        gripper_control.reset(cell)
        assert gripper_control.is_open
        widths = []
        for number in (1.0, 0.5, 0.3, 0.5, 0.55, 0.65):
            gripper_control.send(cell, number)
            cell.step(1200)
            widths.append(gripper.state().width)
        wide, narrow = widths[0], widths[2]
        assert wide > 0.07 > 0.01 > narrow
        assert widths == pytest.approx([wide, wide, narrow, narrow, narrow, wide], abs=2e-3)
