# SPDX-License-Identifier: Apache-2.0
"""A point that tracks a goal: bounds, no overshoot, and exact end."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator

pytestmark = pytest.mark.inline

T = 1e-3


class Follower:
    """Tracker with the point it moves, and all its outputs."""

    def __init__(self, size, cycles, acceleration, speed, start=None):
        self.tracker = TrajectoryGenerator(size)
        self.tracker.set_bounds(acceleration, speed)
        self.tracker.start([0.0] * size if start is None else start, cycles, T)
        self.point = np.array(self.tracker.lag)
        self.observed = []

    def run(self, goals, rates=None):
        self.tracker.resume()
        for k, goal in enumerate(goals):
            rate = None if rates is None else rates[k].tolist()
            if self.tracker.step((goal - self.point).tolist(), rate, T):
                self.point = np.array(goal)
            else:
                self.point = self.point + T * np.array(self.tracker.speed)
            self.observed.append(self.point - self.tracker.lag)
        return np.array(self.observed)


@pytest.mark.parametrize("distance", [1e-6, 1e-3, 0.1, 2.0])
def test_step_has_no_overshoot_and_ends_exactly(distance):
    follower = Follower(1, 40, 5.0, 0.8)
    observed = follower.run([np.array([distance])] * 4000)[:, 0]
    assert (np.diff(observed) >= -1e-12).all()
    assert observed.max() <= distance + 1e-12
    assert not follower.tracker.moving
    assert observed[-1] == distance
    ideal = 2 * np.sqrt(distance / 5.0) if distance < 0.8**2 / 5 else distance / 0.8 + 0.8 / 5
    assert T * np.argmax(observed >= distance - 1e-9) < ideal + 0.05


def test_velocity_acceleration_and_jerk_stay_within_bounds():
    rng = np.random.default_rng(3)
    n, a, v = 40, 6.0, 1.0
    follower = Follower(3, n, a, v)
    goals = np.repeat(rng.uniform(-0.5, 0.5, (60, 3)), rng.integers(1, 300, 60), axis=0)
    observed = follower.run(goals)
    rate = np.diff(observed, axis=0) / T
    acceleration = np.diff(rate, axis=0) / T
    jerk = np.diff(acceleration, axis=0) / T
    assert np.linalg.norm(rate, axis=1).max() <= v * (1 + 1e-9)
    assert np.linalg.norm(acceleration, axis=1).max() <= a * (1 + 1e-6)
    assert np.linalg.norm(jerk, axis=1).max() <= 2 * a / (n * T) * (1 + 1e-4)


def test_reported_velocity_and_acceleration_agree_with_motion():
    follower = Follower(2, 20, 4.0, 1.0)
    rates, accelerations = [], []
    for _ in range(300):
        follower.run([np.array([0.2, -0.1])])
        rates.append(follower.tracker.output_velocity)
        accelerations.append(follower.tracker.acceleration)
    observed = np.array(follower.observed)
    assert np.allclose(np.diff(observed, axis=0) / T, rates[1:], atol=1e-9)
    assert np.allclose(np.diff(rates, axis=0) / T, accelerations[1:], atol=1e-6)


def test_start_with_velocity_is_continuous():
    follower = Follower(1, 40, 5.0, 2.0, start=[1.0])
    end = follower.point + 0.5 * 1.0 / 5.0 + T
    observed = np.concatenate([[0.0], follower.run([end] * 600)[:, 0]])
    rate = np.diff(observed) / T
    assert abs(rate[0] - 1.0) < 0.01
    assert (rate > -1e-9).all()
    assert observed[-1] == end[0]


def test_goal_with_known_velocity_has_lag_of_mean_only():
    t = T * np.arange(1, 3000)
    for speed in (0.2, 0.9):
        known, unknown = Follower(1, 40, 5.0, 1.0), Follower(1, 40, 5.0, 1.0)
        goals = (speed * t)[:, None]
        near = known.run(goals, np.full_like(goals, speed))[-1, 0]
        far = unknown.run(goals)[-1, 0]
        assert (goals[-1, 0] - near) / speed == pytest.approx(0.0195, abs=0.0015)
        expected = 0.0195 + speed / (2 * 5.0)
        assert (goals[-1, 0] - far) / speed == pytest.approx(expected, abs=0.0025)


def test_reduced_bounds_still_allow_stop_at_goal():
    follower = Follower(1, 40, 8.0, 1.0)
    goal = np.array([0.3])
    follower.run([goal] * 250)
    follower.tracker.set_bounds(0.5, 0.1)
    observed = follower.run([goal] * 6000)
    assert observed.max() <= 0.3 + 1e-9
    assert observed[-1] == 0.3
