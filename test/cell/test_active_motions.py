# SPDX-License-Identifier: Apache-2.0
"""What becomes of motions that arms have begun, and which others cannot begin beside them."""

from __future__ import annotations

import numpy as np
import pytest
from cell_names import ARMS, TRAJECTORY

from multipanda_py.exceptions import MotionFailed, PlanRejected
from multipanda_py.planning.motions.motion_request import MotionPlan
from multipanda_py.planning.motions.paths import via_configurations

pytestmark = [pytest.mark.sim, pytest.mark.inline]
CUBE = {"cube": {"shape": "box", "size": [0.02, 0.02, 0.02], "mass": 0.05,
                 "position": [-0.5, 0.0, 0.02]}}  # fmt: skip


@pytest.fixture
def cell(make_cell):
    laws = {TRAJECTORY: {"type": "joint_trajectory"}, "soft": {"type": "joint_trajectory"}}
    made = make_cell(None, laws, [f"{arm}/{TRAJECTORY}" for arm in ARMS], objects=CUBE)
    made.step(5)
    return made


def plan_of(cell, *arms, by=0.4, speed=1.0):
    """Return a plan that turns the first joints, as a search would have found it."""
    starts = {arm: cell.state(arm).q for arm in cell.arms}
    points = {}
    for arm, q in starts.items():
        limits = cell.descriptions[arm].limits
        way = via_configurations([q, q + np.eye(7)[0] * by], limits, speed=speed)
        points[arm] = way if arm in arms else np.array([[0.0, *q, *np.zeros(14)]])
    duration = max(rows[-1, 0] for rows in points.values())
    return MotionPlan(
        points, duration, starts, cell.objects(), cell.attached_objects(), 0.1, "by hand"
    )


def half_way(cell):
    plan = plan_of(cell, "left")
    cell.start_motion(plan)
    cell.step(int(plan.duration * 500))
    assert np.abs(cell.state("left").dq).max() > 0.1
    return plan


def test_a_motion_that_a_posture_replaced_half_way_had_ended(cell):
    plan = half_way(cell)
    cell.set_target("left", q=cell.state("left").q)
    for _ in range(3):
        with pytest.raises(MotionFailed, match=r"^left: .*\btarget\b"):
            cell.is_finished(plan)
        cell.step(150)
    assert np.abs(cell.state("left").q - plan.points["left"][-1, 1:8]).max() > 0.05


def test_a_motion_that_a_trajectory_replaced_half_way_had_ended(cell):
    plan = half_way(cell)
    cell.follow_trajectory("left", [])
    cell.step(300)
    with pytest.raises(MotionFailed, match=r"^left: .*\btarget\b"):
        cell.is_finished(plan)


def test_a_motion_that_another_law_replaced_half_way_had_ended(cell):
    plan = half_way(cell)
    cell.switch(["left/soft"], strictness="force_auto")
    cell.step(100)
    with pytest.raises(MotionFailed, match=r"^left: .*left/soft"):
        cell.is_finished(plan)
    cell.switch([f"left/{TRAJECTORY}"], strictness="force_auto")
    cell.step(100)
    with pytest.raises(MotionFailed, match=r"^left: .*\btarget\b"):
        cell.is_finished(plan)


def test_a_motion_had_ended_before_it_began_as_the_one_before_it_was_done(cell):
    first = plan_of(cell, "left")
    ends = cell.start_motion(first)
    cell.wait(lambda: cell.time > ends and cell.is_finished(first), 10.0)
    second = plan_of(cell, "left", by=-0.3)
    begins = cell.time
    ends = cell.start_motion(second)
    while cell.time < ends - 0.05:
        assert not cell.is_finished(second), cell.time - begins
        cell.step(10)
    cell.wait(lambda: cell.is_finished(second), 2.0)
    cell.set_target("left", q=cell.state("left").q - 0.1)
    cell.step(100)
    assert cell.is_finished(second)  # seen at its goal: what comes later is another matter


def test_a_motion_had_ended_in_the_last_cycles_before_it_began(cell):
    first = plan_of(cell, "left", by=0.05)
    ends = cell.start_motion(first)
    cell.wait(lambda: cell.time > ends and cell.is_finished(first), 10.0)
    second = plan_of(cell, "left", by=-0.05)
    cell.start_motion(second)
    for _ in range(60):
        assert not cell.is_finished(second)
        cell.step(1)


def test_a_plan_that_nobody_has_begun_is_not_judged_by_the_motion_of_another(cell):
    first, never = plan_of(cell, "left"), plan_of(cell, "left")
    ends = cell.start_motion(first)
    cell.wait(lambda: cell.time > ends and cell.is_finished(first), 10.0)
    for wrong in (never, None, "left"):
        with pytest.raises(PlanRejected, match=r"^plan: .*start_motion"):
            cell.is_finished(wrong)
    for wrong in (None, "left"):
        with pytest.raises(PlanRejected, match=r"^plan: "):
            cell.start_motion(wrong)


def test_two_plans_that_took_the_other_arm_to_rest_were_both_begun(cell):
    one, other = plan_of(cell, "left"), plan_of(cell, "right")
    cell.start_motion(one)
    for cycles in (0, 1, 39, 15, 7):
        cell.step(cycles)
        with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
            cell.start_motion(other)
    q = cell.state("right").q
    cell.step(200)
    np.testing.assert_allclose(cell.state("right").q, q, atol=1e-3)


def test_a_motion_so_slow_that_joints_seemed_to_rest_was_taken_for_rest(cell):
    slow, other = plan_of(cell, "left", speed=0.005), plan_of(cell, "right")
    cell.start_motion(slow)
    cell.step(300)
    assert np.abs(cell.state("left").dq).max() < 0.02
    with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
        cell.start_motion(other)
    with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
        cell.plan({"right": cell.state("right").q})


def test_targets_that_are_no_plans_move_arms_as_well(cell):
    other = plan_of(cell, "right")
    cell.set_target("left", q=cell.state("left").q + 0.04)
    with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
        cell.start_motion(other)
    cell.step(1200)
    assert np.abs(cell.state("left").dq).max() < 1e-3
    with pytest.raises(PlanRejected, match=r"^plan: .*\bleft\b.*0\.040 rad"):
        cell.start_motion(other)


def test_a_law_that_begins_anew_is_at_rest_whatever_it_had_reported_before(cell):
    half_way(cell)
    cell.hold()
    cell.step(500)
    cell.switch([f"left/{TRAJECTORY}"], strictness="force_auto")
    ends = cell.start_motion(plan := plan_of(cell, "left", by=0.1))
    cell.wait(lambda: cell.time > ends and cell.is_finished(plan), 5.0)
    np.testing.assert_allclose(cell.state("left").q, plan.points["left"][-1, 1:8], atol=2e-3)


def test_what_was_put_into_a_hand_after_the_plan_was_not_looked_at(cell):
    plan = plan_of(cell, "left")
    cell.attach("left", "cube")
    with pytest.raises(PlanRejected, match=r"^plan: left .*\bcube\b.*nothing"):
        cell.start_motion(plan)
    held = plan_of(cell, "left")
    cell.detach("left")
    with pytest.raises(PlanRejected, match=r"^plan: left .*nothing.*\bcube\b"):
        cell.start_motion(held)
    cell.start_motion(plan)  # all is as it was
