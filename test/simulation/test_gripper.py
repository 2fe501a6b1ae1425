# SPDX-License-Identifier: Apache-2.0
"""Simulated grippers: commands, forces and grasped objects, with the grippers of other robots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from forces import forces_on
from long_form import every_nth
from world import world

from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.robots.gripper import Outcome

pytestmark = [pytest.mark.sim, pytest.mark.inline]

TCP = np.array([0.30689, 0.0, 0.48688])  # At the start configuration, in the base frame.
CARTESIAN = "arm/cartesian_impedance_controller"


@pytest.fixture
def with_box(make_cell):
    """Return a cell with a box on a column between the fingers, and the gripper."""

    def make(width=0.04, mass=0.3, hover=False, **settings):
        column = {"shape": "box", "size": [0.04, 0.04, 0.1],
                  "position": (TCP - [0.0, 0.0, 0.13]).tolist()}  # fmt: skip
        box = {"shape": "box", "size": [0.02, width / 2.0, 0.03], "position": TCP.tolist(),
               "mass": mass, "friction": 0.8}  # fmt: skip
        cell = make_cell(
            arms={"arm": {}}, objects={"column": column, "box": box}, active=[CARTESIAN],
            **settings,
        )  # fmt: skip
        return cell, cell.gripper("arm")

    return make


def grasped(cell, gripper, **arguments):
    result = gripper.grasp(**arguments).wait()
    cell.step(200)
    return result


@pytest.mark.parametrize("force", every_nth(3, [5.0, 20.0, 70.0, 140.0]))
@pytest.mark.parametrize(("width", "speed"), [(0.04, 0.1), (0.01, 0.05)])
def test_grasp_force_equals_commanded_force(with_box, force, width, speed):
    cell, gripper = with_box(width)
    result = grasped(cell, gripper, width=width, speed=speed, force=force)
    assert result.succeeded
    assert gripper.state().is_grasped
    found = forces_on(cell, "box")
    for side in ("left", "right"):
        assert found[f"arm_fr3_{side}finger"] == pytest.approx(force, rel=0.05)
    assert gripper.state().width == pytest.approx(width, abs=1.5e-3)


def test_grasp_force_stays_near_command_after_contact(with_box):
    cell, gripper = with_box()
    gripper.grasp(0.04, 0.02, 10.0)
    largest = 0.0
    for _ in range(3000):
        cell.step()
        largest = max(largest, forces_on(cell, "box").get("arm_fr3_leftfinger", 0.0))
    assert 9.5 < largest < 15.0


@pytest.mark.parametrize(
    ("width", "inner", "outer", "succeeds"),
    [(0.04, 0.002, 0.002, True), (0.046, 0.002, 0.002, False), (0.046, 0.008, 0.0, True),
     (0.034, 0.002, 0.002, False), (0.034, 0.0, 0.008, True)],
)  # fmt: skip
def test_grasp_succeeds_within_width_tolerance(with_box, width, inner, outer, succeeds):
    cell, gripper = with_box()
    result = grasped(
        cell, gripper, width=width, force=10.0, epsilon_inner=inner, epsilon_outer=outer
    )
    assert result.outcome is (Outcome.SUCCEEDED if succeeds else Outcome.UNSUCCESSFUL)
    assert result.width == pytest.approx(0.04, abs=5e-4)
    assert gripper.state().is_grasped is succeeds


@pytest.mark.parametrize("width", [0.0, 0.002, 0.04])
def test_empty_grasp_is_unsuccessful_at_any_width(make_cell, width):
    cell = make_cell(arms={"arm": {}})
    gripper = cell.gripper("arm")
    result = gripper.grasp(width).wait()
    assert result.outcome is Outcome.UNSUCCESSFUL
    assert "0.0000 m" in result.text
    assert gripper.state().width == pytest.approx(0.0, abs=5e-4)
    assert not gripper.state().is_grasped


def lift(cell, height=0.1):
    pose = cell.pose("arm")
    cell.set_target("arm", Pose(pose.position + [0.0, 0.0, height], pose.rotation))
    cell.step(3000)


def test_grasped_object_is_lifted_and_falls_on_release(with_box):
    cell, gripper = with_box()
    cell.step(300)
    before = cell.objects()["box"].position
    assert grasped(cell, gripper, width=0.04, force=20.0).succeeded
    lift(cell)
    held = cell.objects()["box"].position
    assert held[2] - before[2] > 0.09
    assert np.linalg.norm(held - cell.pose("arm").position) < 0.004
    assert gripper.state().is_grasped
    found = forces_on(cell, "box")
    assert found["arm_fr3_leftfinger"] == pytest.approx(20.0, rel=0.15)
    assert set(found) == {"arm_fr3_leftfinger", "arm_fr3_rightfinger"}
    gripper.stop().wait()
    cell.step(300)
    assert gripper.state().is_grasped
    assert cell.objects()["box"].position[2] == pytest.approx(held[2], abs=2e-3)
    assert gripper.move(0.08).wait().succeeded
    cell.step(300)
    assert not gripper.state().is_grasped
    assert cell.objects()["box"].position[2] < before[2] + 0.01


def test_friction_does_not_hold_too_heavy_object(with_box):
    """Two contacts with 0.8 * 1 N of friction hold less than the weight of 0.3 kg."""
    cell, gripper = with_box()
    cell.step(300)
    before = cell.objects()["box"].position
    assert grasped(cell, gripper, width=0.04, force=1.0).succeeded
    lift(cell)
    cell.step(1000)
    assert cell.objects()["box"].position[2] < before[2] + 0.03
    assert not gripper.state().is_grasped  # The object slipped out.
    assert gripper.state().width == pytest.approx(0.0, abs=5e-4)


@pytest.mark.long
def test_grasped_object_stays_centred_under_lateral_push(with_box):
    """One belt drives both fingers, so a push of 10 N along them does not move them."""
    cell, gripper = with_box(mass=0.1)
    assert grasped(cell, gripper, width=0.04, force=30.0).succeeded
    lift(cell, 0.05)
    before = cell.objects()["box"].position - cell.pose("arm").position
    model, data = world(cell)
    data.xfrc_applied[model.body("box").id, 1] = 10.0
    cell.step(1000)
    moved = cell.objects()["box"].position - cell.pose("arm").position - before
    assert abs(moved[1]) < 2e-3


@pytest.mark.parametrize("speed", [0.02, 0.1, 0.2])
def test_fingers_move_at_commanded_speed(make_cell, speed):
    cell = make_cell(arms={"arm": {}})
    gripper = cell.gripper("arm")
    motion = gripper.move(0.02, speed)
    cell.step(round(0.01 / speed * 1e3))
    first = gripper.state().width
    cell.step(round(0.04 / speed * 1e3))
    assert (first - gripper.state().width) * speed / 0.04 == pytest.approx(speed, rel=0.03)
    assert gripper.state().is_moving
    assert not motion.done
    assert motion.wait().succeeded
    assert gripper.state().width == pytest.approx(0.02, abs=1e-4)
    assert not gripper.state().is_moving


def test_slow_grasp_with_high_force_started_at_twice_its_speed(make_cell):
    """Fingers at rest before a motion were taken for blocked fingers."""
    cell = make_cell(arms={"arm": {}})
    gripper = cell.gripper("arm")
    gripper.grasp(0.02, 0.02, 70.0)
    widths = []
    for _ in range(60):
        cell.step(1)
        widths.append(gripper.state().width)
    assert -np.diff(widths).min() / 1e-3 == pytest.approx(0.02, rel=0.02)


def test_stop_ends_motion_as_aborted(make_cell):
    cell = make_cell(arms={"arm": {}})
    gripper = cell.gripper("arm")
    motion = gripper.move(0.0, 0.05)
    cell.step(500)
    at = gripper.state().width
    assert gripper.stop().wait().succeeded
    assert motion.result.outcome is Outcome.ABORTED
    assert "ended by stop" in motion.result.text
    cell.step(1000)
    assert gripper.state().width == pytest.approx(at, abs=2e-3)


def test_move_against_object_is_unsuccessful_and_releases_it(with_box):
    cell, gripper = with_box()
    result = gripper.move(0.02).wait()
    assert result.outcome is Outcome.UNSUCCESSFUL
    assert result.width == pytest.approx(0.04, abs=1e-3)
    cell.step(200)
    assert forces_on(cell, "box").get("arm_fr3_leftfinger", 0.0) < 3.0


def test_homing_closes_and_opens_gripper(make_cell):
    cell = make_cell(arms={"arm": {}})
    gripper = cell.gripper("arm")
    widths = []
    motion = gripper.homing()
    while not motion.done:
        cell.step(10)
        widths.append(gripper.state().width)
    assert motion.result.succeeded
    assert min(widths) < 1e-3
    assert widths[-1] == pytest.approx(0.08, abs=1e-4)


@pytest.mark.parametrize("rate", [100.0, 500.0, 2000.0])
def test_gripper_works_at_every_cell_rate(with_box, rate):
    cell, gripper = with_box(rate=rate)
    assert gripper.grasp(0.04, 0.1, 20.0).wait().succeeded
    cell.step(round(0.3 * rate))
    assert forces_on(cell, "box")["arm_fr3_leftfinger"] == pytest.approx(20.0, rel=0.15)
    assert np.ptp(cell.state("arm").finger_positions) < 1e-3
    assert gripper.move(0.08, 0.2).wait().succeeded


def test_two_grippers_follow_their_own_commands(make_cell):
    cell = make_cell()
    left, right = cell.gripper("left"), cell.gripper("right")
    motions = left.move(0.01), right.move(0.05)
    assert [motion.wait().width for motion in motions] == pytest.approx([0.01, 0.05], abs=1e-4)
    assert np.allclose(cell.state("left").finger_positions, 0.005, atol=1e-4)
    assert np.allclose(cell.state("right").finger_positions, 0.025, atol=1e-4)


YAML = Path(__file__).parents[2] / "examples" / "wide_gripper" / "wide_gripper.yaml"
ARM = {"model": "ur5e", "gripper": {"extra": str(YAML)}}


@pytest.mark.long
def test_300_g_box_is_grasped_lifted_held_and_released(make_cell):
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
    assert cell.attached_objects() == {"arm": "box"}
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


def test_gripper_of_user_has_its_own_limits(make_cell):
    cell = make_cell(arms={"arm": ARM, "other": {"position": [0.0, 1.5, 0.0]}})
    gripper, other = cell.gripper("arm"), cell.gripper("other")
    assert (gripper.state().max_width, other.state().max_width) == pytest.approx((0.11, 0.08))
    motions = gripper.homing(), other.move(0.02)
    assert [motion.wait().width for motion in motions] == pytest.approx([0.11, 0.02], abs=2e-4)
    assert gripper.move(0.1, speed=0.16).wait().succeeded
    for request, sentence in (
        (lambda: gripper.move(0.12), r"width:.*0.12.*\[0, 0.11\] m"),
        (lambda: gripper.move(0.1, speed=0.2), r"speed:.*0.2.*\(0, 0.16\] m/s"),
        (lambda: gripper.grasp(0.1, force=61.0), r"force:.*61.0.*\(0, 60\] N"),
        (lambda: other.move(0.1), r"width:.*0.1.*\[0, 0.08\] m"),
    ):
        with pytest.raises(TargetRejected, match=sentence):
            request()
