# SPDX-License-Identifier: Apache-2.0
"""A UR5e with a parallel gripper that is data: it lifts a box, and obeys its own figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from forces import forces_on

from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose

pytestmark = [pytest.mark.sim, pytest.mark.inline]

YAML = Path(__file__).parents[2] / "examples" / "wide_gripper" / "wide_gripper.yaml"
ARM = {"model": "ur5e", "gripper": {"extra": str(YAML)}}


@pytest.mark.long
def test_a_box_of_300_g_is_grasped_lifted_held_and_let_go_of(make_cell):
    start = make_cell(arms={"arm": ARM}).pose("arm")
    yaw = float(np.arctan2(start.rotation[1, 0], start.rotation[0, 0]))
    at = start.position
    column = {"shape": "box", "size": [0.03, 0.03, 0.1], "position": (at - [0, 0, 0.13]).tolist()}
    box = {"shape": "box", "size": [0.02, 0.03, 0.03], "position": at.tolist(), "mass": 0.3,
           "rpy": [0.0, 0.0, yaw], "friction": 0.8}  # fmt: skip
    law = "arm/cartesian_impedance_controller"
    cell = make_cell(arms={"arm": ARM}, objects={"column": column, "box": box}, active=[law])
    cell.step(300)
    before = cell.objects()["box"].position
    gripper = cell.gripper("arm")
    assert gripper.grasp(0.06, force=40.0).wait().succeeded
    cell.step(200)
    found = forces_on(cell, "box")
    for side in ("left", "right"):
        assert found[f"arm_ur5e_{side}finger"] == pytest.approx(40.0, rel=0.05)
    assert gripper.state().is_grasped
    assert gripper.state().width == pytest.approx(0.06, abs=1.5e-3)
    assert cell.held() == {"arm": "box"}
    cell.set_target("arm", Pose(at + [0.0, 0.0, 0.1], start.rotation))
    cell.step(3000)
    held = cell.objects()["box"].position
    assert held[2] - before[2] > 0.09
    assert np.linalg.norm(held - cell.pose("arm").position) < 0.006
    assert set(forces_on(cell, "box")) == {"arm_ur5e_leftfinger", "arm_ur5e_rightfinger"}
    assert gripper.move(0.11).wait().succeeded
    cell.step(300)
    assert not gripper.state().is_grasped
    assert cell.objects()["box"].position[2] < before[2] + 0.01


def test_it_homes_and_moves_within_its_own_figures_and_no_others(make_cell):
    cell = make_cell(arms={"arm": ARM, "other": {"position": [0.0, 1.5, 0.0]}})
    gripper, other = cell.gripper("arm"), cell.gripper("other")
    assert (gripper.state().max_width, other.state().max_width) == pytest.approx((0.11, 0.08))
    motions = gripper.homing(), other.move(0.02)
    assert [motion.wait().width for motion in motions] == pytest.approx([0.11, 0.02], abs=2e-4)
    assert gripper.move(0.1, speed=0.16).wait().succeeded
    for ask, sentence in (
        (lambda: gripper.move(0.12), r"width:.*0.12.*\[0, 0.11\] m"),
        (lambda: gripper.move(0.1, speed=0.2), r"speed:.*0.2.*\(0, 0.16\] m/s"),
        (lambda: gripper.grasp(0.1, force=61.0), r"force:.*61.0.*\(0, 60\] N"),
        (lambda: other.move(0.1), r"width:.*0.1.*\[0, 0.08\] m"),
    ):
        with pytest.raises(TargetRejected, match=sentence):
            ask()
