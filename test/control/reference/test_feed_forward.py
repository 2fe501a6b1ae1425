# SPDX-License-Identifier: Apache-2.0
"""Feed-forward velocity of a reference, limited to the motion of its goal."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.reference.target_estimation import ReferenceFeedForward
from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator
from multipanda_py.targets import ReferenceMotion

pytestmark = pytest.mark.inline

DT = 1e-3


def reference(speed):
    """Return a tracker that moves along x."""
    tracker = TrajectoryGenerator(3)
    tracker.start([speed, 0.0, 0.0], 5, DT)
    return tracker


def reported(distances, goal_rate=None, moves=0.3):
    """Return the feed-forward after goal steps every 10 ms, with a rotation of 1 rad/s."""
    motion = ReferenceMotion()
    reported_motion = ReferenceFeedForward(motion)
    reported_motion.start(DT)
    for distance in distances:
        reported_motion.step(distance, 0.01)
        for _ in range(10):
            reported_motion.advance()
    reported_motion.write(reference(moves), reference(1.0), goal_rate)
    return motion.twist


def test_jumped_goal_has_no_feed_forward():
    assert reported([0.025])[0] == 0.0
    assert reported([0.0] * 40 + [0.025])[0] == 0.0


def test_streamed_goal_has_full_feed_forward():
    assert reported([0.003] * 40)[0] == pytest.approx(0.3)


def test_slow_stream_has_slow_feed_forward():
    assert reported([0.0002] * 40)[0] == pytest.approx(3.0 * 0.02, rel=0.1)


def test_position_and_orientation_have_separate_feed_forward():
    twist = reported([0.0] * 39 + [0.025])
    assert twist[0] == 0.0
    assert twist[3] == pytest.approx(1.0)


def test_received_goal_twist_is_used():
    assert reported([0.025], np.array([0.3, 0, 0, 0, 0, 0]))[0] == pytest.approx(0.3)
