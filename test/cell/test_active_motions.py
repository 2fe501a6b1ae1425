# SPDX-License-Identifier: Apache-2.0
"""Started motions: their replacement, completion, and conflicts with other plans."""

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
    """Return a plan that rotates the first joints, in the form of a planner result."""
    starts = {arm: cell.state(arm).q for arm in cell.arms}
    points = {}
    for arm, q in starts.items():
        limits = cell.descriptions[arm].limits
        path = via_configurations([q, q + np.eye(7)[0] * by], limits, speed=speed)
        points[arm] = path if arm in arms else np.array([[0.0, *q, *np.zeros(14)]])
    duration = max(rows[-1, 0] for rows in points.values())
    return MotionPlan(
        points, duration, starts, cell.objects(), cell.attached_objects(), 0.1, "by hand"
    )


def start_and_run_half(cell):
    plan = plan_of(cell, "left")
    cell.start_motion(plan)
    cell.step(int(plan.duration * 500))
    assert np.abs(cell.state("left").dq).max() > 0.1
    return plan


def test_motion_replaced_by_joint_target_was_reported_finished(cell):
    plan = start_and_run_half(cell)
    cell.set_target("left", q=cell.state("left").q)
    for _ in range(3):
        with pytest.raises(MotionFailed, match=r"^left: .*\btarget\b"):
            cell.is_finished(plan)
        cell.step(150)
    assert np.abs(cell.state("left").q - plan.points["left"][-1, 1:8]).max() > 0.05


def test_motion_replaced_by_trajectory_was_reported_finished(cell):
    plan = start_and_run_half(cell)
    cell.follow_trajectory("left", [])
    cell.step(300)
    with pytest.raises(MotionFailed, match=r"^left: .*\btarget\b"):
        cell.is_finished(plan)


def test_motion_replaced_by_another_controllet_was_reported_finished(cell):
    plan = start_and_run_half(cell)
    cell.switch(["left/soft"], strictness="force_auto")
    cell.step(100)
    with pytest.raises(MotionFailed, match=r"^left: .*left/soft"):
        cell.is_finished(plan)
    cell.switch([f"left/{TRAJECTORY}"], strictness="force_auto")
    cell.step(100)
    with pytest.raises(MotionFailed, match=r"^left: .*\btarget\b"):
        cell.is_finished(plan)


def test_motion_after_finished_one_was_reported_finished_before_start(cell):
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
    assert cell.is_finished(second)  # reported at its goal; later motions do not matter


def test_motion_was_reported_finished_in_last_cycles_before_start(cell):
    first = plan_of(cell, "left", by=0.05)
    ends = cell.start_motion(first)
    cell.wait(lambda: cell.time > ends and cell.is_finished(first), 10.0)
    second = plan_of(cell, "left", by=-0.05)
    cell.start_motion(second)
    for _ in range(60):
        assert not cell.is_finished(second)
        cell.step(1)


def test_plan_that_was_not_started_is_refused(cell):
    first, never = plan_of(cell, "left"), plan_of(cell, "left")
    ends = cell.start_motion(first)
    cell.wait(lambda: cell.time > ends and cell.is_finished(first), 10.0)
    for wrong in (never, None, "left"):
        with pytest.raises(PlanRejected, match=r"^plan: .*start_motion"):
            cell.is_finished(wrong)
    for wrong in (None, "left"):
        with pytest.raises(PlanRejected, match=r"^plan: "):
            cell.start_motion(wrong)


def test_two_plans_with_other_arm_at_rest_were_both_started(cell):
    one, other = plan_of(cell, "left"), plan_of(cell, "right")
    cell.start_motion(one)
    for cycles in (0, 1, 39, 15, 7):
        cell.step(cycles)
        with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
            cell.start_motion(other)
    q = cell.state("right").q
    cell.step(200)
    np.testing.assert_allclose(cell.state("right").q, q, atol=1e-3)


def test_slow_motion_was_taken_for_rest(cell):
    slow, other = plan_of(cell, "left", speed=0.005), plan_of(cell, "right")
    cell.start_motion(slow)
    cell.step(300)
    assert np.abs(cell.state("left").dq).max() < 0.02
    with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
        cell.start_motion(other)
    with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
        cell.plan({"right": cell.state("right").q})


def test_joint_targets_count_as_motions(cell):
    other = plan_of(cell, "right")
    cell.set_target("left", q=cell.state("left").q + 0.04)
    with pytest.raises(PlanRejected, match=rf"^left: .*{TRAJECTORY}"):
        cell.start_motion(other)
    cell.step(1200)
    assert np.abs(cell.state("left").dq).max() < 1e-3
    with pytest.raises(PlanRejected, match=r"^plan: .*\bleft\b.*0\.040 rad"):
        cell.start_motion(other)


def test_restarted_controllet_is_at_rest_despite_previous_report(cell):
    start_and_run_half(cell)
    cell.hold()
    cell.step(500)
    cell.switch([f"left/{TRAJECTORY}"], strictness="force_auto")
    ends = cell.start_motion(plan := plan_of(cell, "left", by=0.1))
    cell.wait(lambda: cell.time > ends and cell.is_finished(plan), 5.0)
    np.testing.assert_allclose(cell.state("left").q, plan.points["left"][-1, 1:8], atol=2e-3)


def test_object_attached_after_planning_was_ignored(cell):
    plan = plan_of(cell, "left")
    cell.attach("left", "cube")
    with pytest.raises(PlanRejected, match=r"^plan: left .*\bcube\b.*nothing"):
        cell.start_motion(plan)
    held = plan_of(cell, "left")
    cell.detach("left")
    with pytest.raises(PlanRejected, match=r"^plan: left .*nothing.*\bcube\b"):
        cell.start_motion(held)
    cell.start_motion(plan)  # the state of the plan is restored
