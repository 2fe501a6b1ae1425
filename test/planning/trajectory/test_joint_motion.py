# SPDX-License-Identifier: Apache-2.0
"""Reference of joints: within limits, and continuous for any request at any time."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.planning.trajectory.trajectory import complete
from multipanda_py.robots.franka import LIMITS

pytestmark = pytest.mark.inline

LIMIT = LIMITS["fr3"]
T = 1e-3
REST = np.zeros(7)


def configurations(rng, n):
    return rng.uniform(LIMIT.lower + 0.1, LIMIT.upper - 0.1, (n, 7))


def run(motion, largest=20000):
    """Return the reference until it rests, (n, 3, 7), with the current state first."""
    states = [np.array([motion.q, motion.dq, motion.ddq])]
    while motion.moving:
        motion.advance(T)
        states.append(np.array([motion.q, motion.dq, motion.ddq]))
        assert len(states) < largest
    return np.array(states)


@pytest.mark.parametrize("speed", [0.2, 1.0])
def test_motion_to_configuration_keeps_limits_and_arrives(speed):
    rng = np.random.default_rng(1)
    motion = JointMotion(LIMIT)
    motion.set_speed(speed)
    for start, goal in zip(configurations(rng, 8), configurations(rng, 8)):
        motion.rest(start, REST)
        motion.go_to(goal)
        q, dq, ddq = run(motion).transpose(1, 0, 2)
        assert np.array_equal(q[-1], motion.goal)
        assert np.allclose(q[-1], goal, atol=1e-9)
        assert (np.abs(dq) <= speed * LIMIT.velocity + 1e-9).all()
        assert (np.abs(ddq) <= speed**2 * LIMIT.acceleration + 1e-9).all()
        jerk = np.abs(np.diff(ddq[:-1], axis=0)) / T
        assert (jerk <= speed**3 * LIMIT.jerk + 1e-6).all()
        assert (q >= np.minimum(start, goal) - 1e-9).all()
        assert (q <= np.maximum(start, goal) + 1e-9).all()
        assert np.abs(np.diff(q, axis=0)[:-1] / T - 0.5 * (dq[1:-1] + dq[:-2])).max() < 1e-3


def test_speed_scales_time_and_keeps_path():
    rng = np.random.default_rng(2)
    start, goal = configurations(rng, 2)
    paths = []
    for speed in (1.0, 0.25):
        motion = JointMotion(LIMIT)
        motion.set_speed(speed)
        motion.rest(start, REST)
        motion.go_to(goal)
        duration, path = motion.duration, [motion.q.copy()]
        while motion.moving:
            motion.advance(duration / 20)
            path.append(motion.q.copy())
        paths.append((duration * speed, path))
    assert paths[0][0] == pytest.approx(paths[1][0], rel=1e-6)
    assert np.allclose(paths[0][1], paths[1][1], atol=1e-6)


def test_stop_is_as_fast_as_limits_allow():
    rng = np.random.default_rng(3)
    motion = JointMotion(LIMIT)
    for _ in range(10):
        dq = rng.uniform(-1, 1, 7) * LIMIT.velocity
        motion.rest(configurations(rng, 1)[0], dq)
        _, rates, ddq = run(motion).transpose(1, 0, 2)
        assert (np.abs(ddq) <= LIMIT.acceleration + 1e-9).all()
        assert not rates[-1].any()
        smallest = np.abs(dq / LIMIT.acceleration).max()
        assert smallest <= motion.duration <= smallest + 0.07
        assert (np.abs(rates) <= np.abs(dq) + 1e-9).all()


def test_points_are_joined_by_quintics_at_their_times():
    rng = np.random.default_rng(4)
    start = configurations(rng, 1)[0]
    rows = rng.normal(size=(5, 22)) * 0.3
    rows[:, 0] = [0.5, 0.9, 1.3, 2.0, 2.4]
    rows[:, 1:8] += start
    rows[-1, 8:] = 0.0
    motion = JointMotion(LIMIT)
    motion.rest(start, REST)
    run(motion)
    motion.follow(rows, 5)
    states = run(motion)
    times = T * np.arange(1, len(states))
    expected = evaluate(
        np.vstack([[0.0, *start, *np.zeros(14)], rows]), np.minimum(times, rows[-1, 0])
    )
    assert np.allclose(states[1:-1], expected[:-1], atol=1e-8)
    assert np.array_equal(states[-1], [rows[-1, 1:8], REST, REST])
    assert times[-1] == pytest.approx(2.4, abs=1.5 * T)


def test_immediate_first_point_is_blended_in():
    rng = np.random.default_rng(5)
    start = configurations(rng, 1)[0]
    for first in (0.0, 0.04):
        rows = complete(
            [first, 1.0, 2.0], start + np.outer([0.1, 0.2, 0.3], rng.choice([-1, 1], 7)),
            [np.full(7, 0.1), np.full(7, 0.1), REST],
        )  # fmt: skip
        motion = JointMotion(LIMIT)
        motion.rest(start, REST)
        run(motion)
        motion.follow(rows, 3)
        states = run(motion)
        assert np.abs(np.diff(states[:, 0], axis=0)).max() < 1.2 * T
        assert np.abs(np.diff(states[:, 1], axis=0)).max() < 10.0 * T
        expected = evaluate(rows, T * np.arange(800, 1900))
        assert np.allclose(states[800:1900], expected, atol=1e-8)


def test_reference_is_continuous_for_any_request():
    rng = np.random.default_rng(6)
    motion = JointMotion(LIMIT)
    motion.rest(configurations(rng, 1)[0], REST)
    previous = np.array([motion.q, motion.dq])
    for _ in range(60):
        kind = rng.integers(4)
        if kind == 0:
            motion.set_speed(rng.uniform(0.2, 0.6))
            motion.go_to(configurations(rng, 1)[0])
        elif kind == 1:
            motion.stop()
        elif kind == 2:
            motion.stop_from(motion.q + rng.uniform(-0.1, 0.1, 7), motion.dq * 0.5)
        else:
            goal = np.clip(motion.q + rng.uniform(-0.3, 0.3, 7), LIMIT.lower, LIMIT.upper)
            rows = complete([0.0, 1.0], [motion.q + 0.01, goal])
            motion.follow(rows, 2)
        for _ in range(rng.integers(1, 600)):
            motion.advance(T)
            state = np.array([motion.q, motion.dq])
            assert np.abs(state - previous)[0].max() < 6.0 * T
            assert np.abs(state - previous)[1].max() < 25.0 * T
            previous = state


def test_excessive_speed_is_reduced_by_stop_first():
    """Braking at low speed is weak too; the path would exceed the position limits by far."""
    motion = JointMotion(LIMIT)
    start = 0.5 * (LIMIT.lower + LIMIT.upper)
    rates = np.zeros(7)
    rates[0] = 2.0
    motion.rest(start, rates)
    motion.advance(T)
    motion.set_speed(0.05)
    motion.go_to(start)
    q, dq, _ = run(motion, 40000).transpose(1, 0, 2)
    assert q[:, 0].max() < start[0] + 2.0**2 / (2 * 10.0) + 0.1
    assert np.allclose(q[-1], start, atol=1e-9)
    assert (np.abs(dq[600:]) <= 0.05 * LIMIT.velocity + 1e-9).all()


def test_reference_that_overshoots_limits_is_stopped_first():
    motion = JointMotion(LIMIT)
    motion.set_speed(0.3)
    for start, rate, goal in (
        (LIMIT.upper[0] - 0.1, 0.7, 0.0),  # slower than the requested speed, but near a limit
        (-1.5, 1.2, -1.5),  # far from limits, but faster than the requested speed
    ):
        q, dq = 0.5 * (LIMIT.lower + LIMIT.upper), np.zeros(7)
        q[0], dq[0] = start, rate
        motion.rest(q, dq)
        q[0] = goal
        motion.go_to(q)
        path = run(motion)[:, 0, 0]
        assert path.max() < start + rate**2 / (2 * LIMIT.acceleration[0]) + 0.03
        assert path[-1] == pytest.approx(goal)


def test_very_short_motion_made_ruckig_raise():
    """An arm almost at rest received a goal at its position of the previous cycle."""
    rng = np.random.default_rng(0)
    motion = JointMotion(LIMIT)
    motion.set_speed(0.3)
    for q in configurations(rng, 100):
        goal = q + 1e-12 * rng.normal(size=7)
        motion.reset_to(q, 1e-9 * rng.normal(size=7))
        motion.go_to(goal)
        np.testing.assert_allclose(run(motion)[-1], [goal, REST, REST], atol=1e-8)


def test_motion_keeps_position_limits():
    rng = np.random.default_rng(7)
    motion = JointMotion(LIMIT)
    for _ in range(400):
        speed = rng.uniform(0.05, 1.0)
        motion.set_speed(speed)
        motion.rest(rng.uniform(LIMIT.lower, LIMIT.upper), REST)
        motion.dq[:] = rng.uniform(-1, 1, 7) * LIMIT.velocity * speed
        motion.ddq[:] = rng.uniform(-1, 1, 7) * LIMIT.acceleration * rng.choice([0.0, 0.1])
        goal = rng.uniform(LIMIT.lower, LIMIT.upper)
        motion.go_to(goal)
        if not np.allclose(motion.goal, goal):
            continue  # a stop precedes the motion
        duration, path = motion.duration, [motion.q.copy()]
        while motion.moving:
            motion.advance(duration / 200)
            path.append(motion.q.copy())
        path = np.array(path)
        assert (path <= LIMIT.upper + 1e-6).all()
        assert (path >= LIMIT.lower - 1e-6).all()


def test_early_first_point_on_reference_needs_no_blending():
    rate, acceleration, first = 0.4, 2.0, 0.08
    row = np.concatenate([
        [first], np.full(7, rate * first + acceleration * first**2 / 2),
        np.full(7, rate + acceleration * first), np.full(7, acceleration),
    ])  # fmt: skip
    rows = np.vstack([row, [1.0, *np.full(7, 0.5), *np.zeros(14)]])
    motion = JointMotion(LIMIT)
    motion.rest(REST, np.full(7, rate))
    motion.ddq[:] = acceleration
    motion.follow(rows, 2)
    for t in T * np.arange(1, 80):
        motion.advance(T)
        assert np.allclose(motion.q, rate * t + acceleration * t**2 / 2, atol=1e-9)


def test_stop_from_measured_state_ends_there():
    motion = JointMotion(LIMIT)
    motion.rest(REST, REST)
    run(motion)
    measured = np.full(7, -0.15)
    motion.stop_from(measured, REST)
    states = run(motion)
    assert np.allclose(states[-1][0], measured)
    assert np.abs(np.diff(states[:, 0], axis=0)).max() < LIMIT.velocity.min() * T
    assert np.abs(states[:, 2]).max() <= LIMIT.acceleration.min()
