"""Commands keep velocity, acceleration, jerk and room to stop, whatever is asked for."""

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
    """Return velocities, accelerations and jerks of commands, which begin at rest."""
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
def test_limits_are_kept_whatever_is_asked_for(model, seed):
    """Jumps, streams, velocities and stops in any order, anywhere in the range."""
    rng = np.random.default_rng(seed)
    limits = MODELS[model].limits
    n = limits.n_joints
    limiter = MotionLimiter(limits, T)
    low, high = np.maximum(limits.lower, -4.0), np.minimum(limits.upper, 4.0)  # some are endless
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


def test_a_motion_within_the_limits_passes_to_the_last_bit():
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


def test_a_goal_is_reached_exactly_after_a_jump():
    limiter = MotionLimiter(FR3.limits, T)
    limiter.start(FR3.ready)
    goal = FR3.ready + 0.3
    cycles = 0
    while (limiter.q != goal).any():
        limiter.follow(goal)
        cycles += 1
        assert cycles < 600
    slowest = 2.0 * np.sqrt(0.3 / FR3.limits.acceleration.min())  # without a limit of jerk
    assert cycles * T < 1.1 * slowest
    limiter.follow(goal)
    assert not limiter.limited


def test_a_stream_is_caught_up_with():
    """After a jump of 5 cm ahead on the way the stream itself is sent again."""
    limiter = MotionLimiter(FR3.limits, T)
    limiter.start(FR3.ready)
    q = FR3.ready.copy()
    for k in range(1500):
        q = FR3.ready + 0.1 * np.sin(2.0 * np.pi * 0.5 * k * T) + (0.05 if k > 700 else 0.0)
        limiter.follow(q)
    assert not limiter.limited
    assert limiter.q.tobytes() == q.tobytes()


def test_the_robot_takes_what_the_limiter_lets_through():
    """The simulated FCI's own judgement, with steps of 32-bit positions in what it says."""
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


def test_the_shortest_stop_from_full_speed():
    """Beside the time that acceleration and jerk need at least."""
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
def test_the_robot_takes_what_goes_to_its_position_limits(side):
    """It lets joints move the slower the nearer they are; who does not know it is refused."""
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
