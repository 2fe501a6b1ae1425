# SPDX-License-Identifier: Apache-2.0
"""What a law is told of its reference: as much as the goal itself moves with."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.reference.target_estimation import ReferenceFeedForward
from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator
from multipanda_py.targets import ReferenceMotion

pytestmark = pytest.mark.inline

DT = 1e-3


def reference(speed):
    """A tracker that moves along x."""
    tracker = TrajectoryGenerator(3)
    tracker.start([speed, 0.0, 0.0], 5, DT)
    return tracker


def reported(distances, goal_rate=None, moves=0.3):
    """Return the twist that is told after steps of a goal, one per 10 ms, turning 1 rad/s."""
    motion = ReferenceMotion()
    reported_motion = ReferenceFeedForward(motion)
    reported_motion.start(DT)
    for distance in distances:
        reported_motion.step(distance, 0.01)
        for _ in range(10):
            reported_motion.advance()
    reported_motion.write(reference(moves), reference(1.0), goal_rate)
    return motion.twist


def test_nothing_is_told_of_the_way_to_a_goal_that_jumped():
    assert reported([0.025])[0] == 0.0
    assert reported([0.0] * 40 + [0.025])[0] == 0.0


def test_all_is_told_of_the_way_behind_a_stream():
    assert reported([0.003] * 40)[0] == pytest.approx(0.3)


def test_a_slow_stream_tells_of_no_fast_motion():
    assert reported([0.0002] * 40)[0] == pytest.approx(3.0 * 0.02, rel=0.1)


def test_position_and_orientation_are_told_of_apart():
    twist = reported([0.0] * 39 + [0.025])
    assert twist[0] == 0.0
    assert twist[3] == pytest.approx(1.0)


def test_a_twist_that_came_with_the_goal_is_believed():
    assert reported([0.025], np.array([0.3, 0, 0, 0, 0, 0]))[0] == pytest.approx(0.3)
