"""Velocity, acceleration, jerk and position limits of commands, for any request."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import LONG

from multipanda_py.hardware.franka.position_control import SpeedNearLimits
from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.planning.trajectory.motion_limiter import MotionLimiter
from multipanda_py.robots import MODELS
from multipanda_py.robots.franka import FR3_LIMITS, LOWER_LIMITS, UPPER_LIMITS, velocity_towards
from multipanda_py.simulation.fci.cartesian import Bounds, Trend

T = 1e-3
FR3 = MODELS["fr3"]
BOUNDS = Bounds(FR3_LIMITS.acceleration, FR3_LIMITS.jerk)
EPISODES = 200 if LONG else 6
pytestmark = pytest.mark.inline


def differences(positions):
    """Return velocities, accelerations and jerks of commands that start at rest."""
    q = np.vstack([positions[:1]] * 3 + [positions])
    found = []
    for _ in range(3):
        q = np.diff(q, axis=0) / T
        found.append(q)
    return found


def keeps_limits(positions, limits):
    for found, largest in zip(
        differences(np.array(positions)), (limits.velocity, limits.acceleration, limits.jerk)
    ):
        assert (np.abs(found) <= largest * (1.0 + 1e-3)).all(), (np.abs(found) / largest).max()
    low, high = np.min(positions, axis=0), np.max(positions, axis=0)
    assert (low >= limits.lower - 1e-9).all(), (low - limits.lower).min()
    assert (high <= limits.upper + 1e-9).all(), (limits.upper - high).min()


@pytest.mark.parametrize("model", ["fr3", "fer", "ur5e", "kinova_gen3"])
@pytest.mark.parametrize("seed", range(EPISODES))
def test_limits_hold_for_any_request(model, seed):
    """Jumps, streams, velocities and stops in any order, over the whole range."""
    rng = np.random.default_rng(seed)
    limits = MODELS[model].limits
    n = limits.n_joints
    limiter = MotionLimiter(limits, T)
    low, high = np.maximum(limits.lower, -4.0), np.minimum(limits.upper, 4.0)  # some are unlimited
    q = rng.uniform(low, high)
    limiter.start(q)
    path = [q.copy()]
    while len(path) < 1200:
        kind, cycles = rng.integers(5), int(rng.integers(1, 200))
        goal = rng.uniform(low - 0.2, high + 0.2)
        speed = rng.uniform(-1.3, 1.3, n) * limits.velocity
        for _ in range(cycles):
            if kind == 0:
                limiter.follow(goal)
            elif kind == 1:
                limiter.follow(limiter.q + speed * T)
            elif kind == 2:
                limiter.follow_rate(speed)
            elif kind == 3:
                limiter.follow(rng.uniform(low, high))
            else:
                limiter.brake()
            path.append(limiter.q.copy())
    for _ in range(3000):
        if limiter.at_rest:
            break
        limiter.brake()
        path.append(limiter.q.copy())
    assert limiter.at_rest
    keeps_limits(path, limits)


def test_motion_within_limits_passes_unchanged():
    limits = FR3.limits
    motion, limiter = JointMotion(limits), MotionLimiter(limits, T)
    motion.rest(FR3.ready, np.zeros(7))
    limiter.start(FR3.ready)
    motion.set_speed(1.0)
    motion.go_to(FR3.ready + np.array([0.5, -0.3, 0.4, 0.3, -1.0, 0.5, 1.0]))
    while motion.moving:
        motion.advance(T)
        limiter.follow(motion.q)
        assert not limiter.limited
        assert limiter.q.tobytes() == motion.q.tobytes()


def test_goal_is_reached_exactly_after_jump():
    limiter = MotionLimiter(FR3.limits, T)
    limiter.start(FR3.ready)
    goal = FR3.ready + 0.3
    cycles = 0
    while (limiter.q != goal).any():
        limiter.follow(goal)
        cycles += 1
        assert cycles < 600
    slowest = 2.0 * np.sqrt(0.3 / FR3.limits.acceleration.min())  # without a jerk limit
    assert cycles * T < 1.1 * slowest
    limiter.follow(goal)
    assert not limiter.limited


def test_limiter_catches_up_with_stream():
    """The limiter reproduces the stream after a jump of 5 cm."""
    limiter = MotionLimiter(FR3.limits, T)
    limiter.start(FR3.ready)
    q = FR3.ready.copy()
    for k in range(1500):
        q = FR3.ready + 0.1 * np.sin(2.0 * np.pi * 0.5 * k * T) + (0.05 if k > 700 else 0.0)
        limiter.follow(q)
    assert not limiter.limited
    assert limiter.q.tobytes() == q.tobytes()


def test_robot_accepts_limited_commands():
    """Judged by the simulated FCI, whose estimates contain steps of 32-bit positions."""
    rng = np.random.default_rng(3)
    limiter, trend = MotionLimiter(FR3.limits, T), Trend(BOUNDS)
    limiter.start(FR3.ready)
    before = limiter.q.copy()
    for k in range(2000):
        if k % 100 == 0:
            goal = FR3.ready + rng.uniform(-0.3, 0.3, 7)
        limiter.follow(goal)
        trend.receive_position(limiter.q - before)
        assert trend.fault(FR3.limits.velocity) is None, k
        before = limiter.q.copy()


def test_stop_from_full_speed_takes_minimum_time():
    """Compared with the minimum time by acceleration and jerk."""
    limits = FR3.limits
    limiter = MotionLimiter(limits, T)
    limiter.start(FR3.ready)
    joint = np.eye(7)[6] * 2.0
    for _ in range(300):
        limiter.follow_rate(joint)
    assert limiter.dq[6] == pytest.approx(2.0)
    cycles = 0
    while not limiter.at_rest:
        limiter.brake()
        cycles += 1
    smallest = 2.0 / 10.0 + 10.0 / 5000.0
    assert smallest - T <= cycles * T <= 1.03 * smallest + T


@pytest.mark.long
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_robot_accepts_commands_up_to_position_limits(side):
    """The robot reduces the speed limit near position limits and refuses faster commands."""
    limits = FR3.limits
    limiter, trend = MotionLimiter(limits, T, fastest=SpeedNearLimits(limits)), Trend(BOUNDS)
    middle = 0.5 * (limits.lower + limits.upper)
    limiter.start(middle)
    goal = np.where(side > 0.0, limits.upper, limits.lower)
    before = limiter.q.copy()
    for k in range(6000):
        limiter.follow(goal)
        trend.receive_position(limiter.q - before)
        room = np.where(trend.velocity > 0.0, UPPER_LIMITS - before, before - LOWER_LIMITS)
        assert trend.fault(velocity_towards(room)) is None, (k, limiter.q - goal)
        before = limiter.q.copy()
    assert np.abs(limiter.q - goal).max() < 0.01
