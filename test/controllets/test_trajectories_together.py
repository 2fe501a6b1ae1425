# SPDX-License-Identifier: Apache-2.0
"""Trajectories of several arms: common clock, start and end."""

from __future__ import annotations

import re

import numpy as np
import pytest

from multipanda_py.control.reference.trajectory_monitor import (
    CONTACT_JOINT,
    MOTIONS,
    STATE,
    TIME,
    MotionState,
)
from multipanda_py.controllets.targets.joint import Trajectory
from multipanda_py.exceptions import TargetRejected
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.planning.trajectory.trajectory import complete
from multipanda_py.robots.franka import LIMITS
from multipanda_py.testing import PERIOD

pytestmark = [pytest.mark.sim, pytest.mark.inline]

ARMS = {"left": {"position": [0.0, 0.5, 0.0]}, "right": {"position": [0.0, -0.5, 0.0]}}
STEP = np.array([0.12, -0.1, 0.1, 0.08, -0.12, 0.15, 0.2])
LIMIT = LIMITS["fr3"]
BOTH = "both"


def make_pair(make_cell, **params):
    laws = {BOTH: {"type": "joint_trajectory", "arms": ["left", "right"], "params": params}}
    cell = make_cell(ARMS, laws, active=[BOTH])
    cell.step(5)
    return cell, cell.state("left").q, cell.state("right").q


def make_two(make_cell):
    laws = {"jt": {"type": "joint_trajectory"}}
    cell = make_cell(ARMS, laws, active=["left/jt", "right/jt"])
    cell.step(5)
    return cell


def state_of(cell, name=BOTH):
    return MotionState(int(cell.report(name).value(STATE)))


def time_of_start(cell, name, cycles):
    """Step until a controllet has started a motion; return the simulation time."""
    for _ in range(cycles):
        cell.step()
        if cell.report(name).value(MOTIONS):
            return cell.state("left").time
    raise AssertionError(f"{name} has not begun within {cycles} cycles")


def test_both_arms_follow_one_clock(make_cell):
    cell, left, right = make_pair(make_cell)
    times = np.array([0.6, 1.2, 1.8])
    paths = {
        "left": complete(times, [left + STEP, left - 0.5 * STEP, left]),
        "right": complete(times, [right, right - STEP, right + STEP]),
    }
    start, _ = cell.records()
    cell.follow_trajectories(BOTH, {arm: Trajectory(rows) for arm, rows in paths.items()})
    cell.step(1900)
    _, record = cell.records(start)
    assert state_of(cell) is MotionState.DONE
    assert cell.report(BOTH).value(MOTIONS) == 2.0
    at = PERIOD * np.arange(1, 1800)
    for index, (arm, begin) in enumerate((("left", left), ("right", right))):
        whole = np.vstack([[0.0, *begin, *np.zeros(14)], paths[arm]])
        planned = evaluate(whole, at)[:, 0]
        assert np.abs(record["arms"]["q"][1:1800, index] - planned).max() < 2e-3
    assert cell.events() == []


def test_goals_with_common_start_began_tens_of_milliseconds_apart(make_cell):
    """Each motion began on arrival of its goal."""
    cell = make_two(make_cell)
    start = cell.state("left").time + 0.2
    before = {}
    for arm, late in (("left", 0), ("right", 33)):
        cell.step(late)
        before[arm] = cell.state(arm).q
        cell.follow_trajectory(arm, complete([0.5], [before[arm] + STEP]), start=start)
    cell.step(160)
    for arm, q in before.items():
        assert np.abs(cell.state(arm).q - q).max() < 1e-4, "it moves before its start"
        assert not cell.report(f"{arm}/jt").value(MOTIONS)
    assert time_of_start(cell, "left/jt", 20) == pytest.approx(start, abs=2.1 * PERIOD)
    for _ in range(5):
        left, right = (cell.report(f"{arm}/jt") for arm in ("left", "right"))
        assert left.value(TIME) == right.value(TIME) > 0.0
        cell.step(90)
    cell.step(100)
    for arm, q in before.items():
        assert np.abs(cell.state(arm).q - q - STEP).max() < 2e-3


def test_newer_target_replaces_pending_trajectory(make_cell):
    cell, left, right = make_pair(make_cell)
    ahead = cell.state("left").time + 0.3
    later = {
        arm: Trajectory(complete([0.5], [q + STEP]), start=ahead)
        for arm, q in (("left", left), ("right", right))
    }
    cell.follow_trajectories(BOTH, later)
    cell.step(10)
    cell.follow_trajectory("left", [])  # the pending motion of the other arm is dropped
    cell.step(600)
    assert cell.report(BOTH).value(MOTIONS) == 1.0
    for arm, q in (("left", left), ("right", right)):
        assert np.abs(cell.state(arm).q - q).max() < 1e-3


def test_activation_clears_pending_trajectory(make_cell):
    cell = make_two(make_cell)
    q = cell.state("left").q
    cell.follow_trajectory(
        "left", complete([0.5], [q + STEP]), start=cell.state("left").time + 0.1
    )
    cell.step(5)
    cell.switch(["left/jt"], ["left/jt"])
    cell.step(700)
    assert np.abs(cell.state("left").q - q).max() < 1e-3


def test_blocked_arm_stops_other_arm_smoothly(make_cell):
    cell, left, right = make_pair(make_cell, path_tolerance=[0.04] * 7, contact_torque=[0.0] * 7)
    paths = {
        "left": Trajectory(complete([2.0], [left + 3 * STEP])),
        "right": Trajectory(complete([2.0], [right + 3 * STEP])),
    }
    cell.follow_trajectories(BOTH, paths)
    cell.step(600)
    sim = cell.simulation
    body = sim.model.body("left_fr3_hand").id
    sim.data.xfrc_applied[body][:3] = [0.0, -60.0, -60.0]
    start, _ = cell.records()
    cell.wait(lambda: state_of(cell) is not MotionState.RUNNING, 2.0, "end")
    sim.data.xfrc_applied[body][:3] = 0.0
    assert state_of(cell) is MotionState.PATH_TOLERANCE_VIOLATED
    cell.step(500)
    _, rows = cell.records(start)
    rates = rows["arms"]["dq"][:, 1]
    assert np.abs(rates[0]).max() > 0.1
    assert np.abs(rates[-1]).max() < 1e-2
    change = np.diff(rates, axis=0) / PERIOD
    assert (np.abs(change) < 1.1 * LIMIT.acceleration).all()
    # The arm stops on its path: all joints have covered the same fraction of it.
    fraction = (cell.state("right").q - right) / (3 * STEP)
    assert 0.05 < fraction.min() <= fraction.max() < 0.95
    assert np.ptp(fraction) < 0.03
    assert state_of(cell) is MotionState.PATH_TOLERANCE_VIOLATED
    (event,) = cell.events()
    assert re.match(r"left: .*\bjoint \d", event.text)


def test_contact_joint_numbers_second_arm_after_first(make_cell):
    cell, left, right = make_pair(make_cell, path_tolerance=[0.0] * 7)
    sim = cell.simulation
    sim.data.xfrc_applied[sim.model.body("right_fr3_hand").id][:3] = [0.0, 60.0, 0.0]
    cell.step(500)
    right = cell.state("right").q
    against = np.array([-0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    cell.follow_trajectories(
        BOTH,
        {
            "left": Trajectory(complete([1.0], [left])),
            "right": Trajectory(complete([1.0], [right + against])),
        },
    )
    cell.step(800)
    assert state_of(cell) is MotionState.CONTACT
    assert cell.report(BOTH).value(CONTACT_JOINT) in (8.0, 10.0)


def test_invalid_trajectory_of_one_arm_moves_no_arm(make_cell):
    cell, left, right = make_pair(make_cell)
    good, bad = complete([0.5], [left + STEP]), complete([0.5], [right + 3.0])
    for paths, reason in (
        ({"left": Trajectory(good), "right": Trajectory(bad)}, r"\bright: point 0\b"),
        ({"left": Trajectory(good)}, r"\bleft\b.*\bleft, right\b"),
        ({"left": Trajectory(good, start=1e9), "right": Trajectory(good)}, "start:"),
    ):
        with pytest.raises(TargetRejected, match=reason):
            cell.follow_trajectories(BOTH, paths)
        cell.step(50)
        assert not cell.report(BOTH).value(MOTIONS)
    assert np.abs(cell.state("left").q - left).max() < 1e-3


def test_future_start_requires_arms_at_rest(make_cell):
    cell = make_two(make_cell)
    q = cell.state("left").q
    cell.follow_trajectory("left", complete([1.0], [q + 2 * STEP]))
    cell.step(400)
    with pytest.raises(TargetRejected, match=r"^left: start: .*\d s\b"):
        cell.follow_trajectory("left", complete([1.0], [q]), start=cell.state("left").time + 1.0)
    cell.step(700)
    assert np.abs(cell.state("left").q - q - 2 * STEP).max() < 2e-3


def test_newer_goal_and_stop_continue_from_current_velocity(make_cell):
    cell, left, right = make_pair(make_cell)
    law = next(one for one in cell.loop.instances if one.spec.name == BOTH).law
    references = []

    def step(cycles):
        for _ in range(cycles):
            cell.step()
            references.append([[m.q.copy(), m.dq.copy(), m.ddq.copy()] for m in law.motions])

    def both(*fractions):
        return {
            arm: Trajectory(complete([1.0], [q + fraction * STEP]) if fraction else [])
            for arm, q, fraction in zip(("left", "right"), (left, right), fractions)
        }

    cell.follow_trajectories(BOTH, both(2.0, -2.0))
    step(400)
    cell.follow_trajectories(BOTH, both(3.0, -1.0))
    step(400)
    stop_index = len(references)
    assert max(np.abs(motion.dq).max() for motion in law.motions) > 0.2
    cell.follow_trajectories(BOTH, both(0.0, 0.0))
    step(400)
    assert state_of(cell) is MotionState.IDLE
    q, dq, ddq = np.moveaxis(np.array(references), 2, 0)
    assert np.allclose(np.diff(q, axis=0) / PERIOD, (dq[1:] + dq[:-1]) / 2, atol=1e-4)
    assert (np.abs(np.diff(dq, axis=0)) / PERIOD < 1.01 * LIMIT.acceleration).all()
    jerk = np.abs(np.diff(ddq[stop_index - 1 :], axis=0)) / PERIOD
    assert (jerk < 1.01 * np.minimum(LIMIT.jerk, LIMIT.acceleration / 0.03)).all()
    assert not dq[-1].any()
