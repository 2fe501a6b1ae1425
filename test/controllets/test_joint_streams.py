# SPDX-License-Identifier: Apache-2.0
"""Joint targets streamed by a leader arm.

They were followed 100 to 172 ms late, with two to three times the operator's jerk, and worse if
their velocities were sent.
"""

from __future__ import annotations

import numpy as np
import pytest
from hand_motion import arrivals, jerk, lag, strokes

from multipanda_py.exceptions import TargetRejected
from multipanda_py.robots.franka import FR3_LIMITS

pytestmark = [pytest.mark.sim, pytest.mark.inline]
ARMS = {
    "ideal": {},
    "late": {"perturbation": {"state_delay": 0.005, "torque_lag": 0.002}},
}
WIDE = {"joint": 7.0}
START = [0.0, -0.6, 0.0, -2.2, 0.0, 1.7, 0.785]


def one_arm(make_cell, arm):
    cell = make_cell(
        arms={"arm": {"q_start": START, **ARMS[arm]}}, gate=WIDE, active=["arm/law"],
        controllets={"law": {"type": "joint_impedance"}},
    )  # fmt: skip
    cell.step(5)
    return cell


def followed(cell, q, dq, rate, seed=1):
    """Stream a motion from the current configuration; return measured positions and velocities."""
    start, arrival_cycles = (
        cell.state("arm").q.copy(),
        arrivals(np.random.default_rng(seed), len(q), rate),
    )
    first, _ = cell.records()
    for k in range(len(q)):
        if k in arrival_cycles:
            cell.set_target("arm", q=start + q[k], dq=None if dq is None else dq[k])
        cell.step()
    _, rows = cell.records(first)
    assert cell.state("arm").fault == ""
    return rows["arms"]["q"][:, 0] - start, rows["arms"]["dq"][:, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("arm", "rate", "largest"), [
    ("ideal", 30.0, 70), ("late", 100.0, 40), ("ideal", 500.0, 40),
])  # fmt: skip
def test_operator_motion_is_followed_with_little_lag_and_jerk(make_cell, arm, rate, largest):
    q, dq = strokes(np.random.default_rng(3), 4000)
    errors = []
    for velocities in (None, dq):
        measured, velocity = followed(one_arm(make_cell, arm), q, velocities, rate)
        assert lag(q[500:], measured[500:]) < largest
        assert jerk(velocity[500:]) < 1.3 * jerk(dq[500:])
        errors.append(np.sqrt(((measured - q)[500:] ** 2).mean()))
    assert errors[1] < errors[0]  # velocities help


@pytest.mark.parametrize(("rate", "largest"), [(30.0, 0.13), (100.0, 0.08)])
def test_interrupted_stream_at_full_speed_ends_on_last_target(make_cell, rate, largest):
    time = np.arange(600) * 1e-3
    q = np.zeros((600, 7))
    q[:, 0] = np.cumsum(0.95 * np.minimum(1.0, time / 0.3)) * 1e-3
    cell = one_arm(make_cell, "late")
    start = cell.state("arm").q.copy()
    followed(cell, q, None, rate)
    goal = q[max(arrivals(np.random.default_rng(1), 600, rate)), 0]
    first, _ = cell.records()
    cell.step(1500)
    _, rows = cell.records(first)
    positions = rows["arms"]["q"][:, 0, 0] - start[0]
    assert abs(positions[-1] - goal) < 1e-3
    assert positions.max() - goal < largest
    steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max()
    assert steps < 0.8 * FR3_LIMITS.torque_rate[0] * 1e-3


@pytest.mark.parametrize("joint", [3, 5])
def test_stream_into_joint_limit_does_not_carry_joint_past_it(make_cell, joint):
    cell = one_arm(make_cell, "late")
    start = cell.state("arm").q.copy()
    limit = FR3_LIMITS.upper[joint]
    positions = np.arange(start[joint], limit + 0.2, 0.95e-3)
    arrival_cycles = arrivals(np.random.default_rng(0), len(positions), 30.0)
    refused, first = 0, cell.records()[0]
    for k, position in enumerate(positions):
        if k in arrival_cycles:
            q = start.copy()
            q[joint] = position
            try:
                cell.set_target("arm", q=q)
            except TargetRejected:
                refused += 1
        cell.step()
    cell.step(500)
    _, rows = cell.records(first)
    assert refused > 0
    assert rows["arms"]["q"][:, 0, joint].max() < limit + 1e-3


@pytest.mark.parametrize("rate", [20.0, 200.0])
def test_random_target_steps_are_not_treated_as_stream(make_cell, rate):
    rng, cell = np.random.default_rng(5), one_arm(make_cell, "late")
    start = cell.state("arm").q.copy()
    low = high = start
    first, _ = cell.records()
    for _ in range(int(1.5 * rate)):
        goal = start + rng.uniform(-0.35, 0.35, 7)
        low, high = np.minimum(low, goal), np.maximum(high, goal)
        cell.set_target("arm", q=goal)
        cell.step(int(1000 / rate))
    cell.step(1000)
    _, rows = cell.records(first)
    q = rows["arms"]["q"][:, 0]
    assert (q < high + 1e-3).all()
    assert (q > low - 1e-3).all()
    assert np.abs(cell.state("arm").q - goal).max() < 1e-3
    steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max()
    assert steps < 0.8 * FR3_LIMITS.torque_rate[0] * 1e-3


def test_step_within_stream_has_bounds_of_any_step(make_cell):
    q, _ = strokes(np.random.default_rng(1), 3200)
    q[1200:] += 0.25 * np.array([1, -1, 1, 1, -1, 1, 1])
    cell = one_arm(make_cell, "ideal")
    first, _ = cell.records()
    measured, _ = followed(cell, q, None, 100.0)
    _, rows = cell.records(first)
    steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max()
    assert steps < 0.8 * FR3_LIMITS.torque_rate[0] * 1e-3
    assert np.abs(measured[-300:] - q[-330:-30]).max() < 0.02
