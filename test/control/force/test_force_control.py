# SPDX-License-Identifier: Apache-2.0
"""Force controller on masses and floors, against independent energy balances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multipanda_py.control.force.force_control import ForceController, ForceParams

pytestmark = pytest.mark.inline

DT, MASS = 1e-3, 4.0


def controller(**params):
    force = ForceController(ForceParams(**params).gains(), DT)
    force.grant(30.0)
    return force


def rest(force, desired, measured, cycles=1, distance=0.0):
    for _ in range(cycles):
        pushed = force.step(desired, measured, distance, 0.0, MASS)
    return pushed


def test_goal_is_fed_forward_in_contact():
    force = controller(ki=0.0)
    assert rest(force, 10.0, 10.0, 1000) == pytest.approx(10.0, abs=1e-6)
    assert force.weight == pytest.approx(1.0, abs=1e-6)


def test_integral_grows_with_error_up_to_its_limit():
    force = controller(kp=0.0, ki=10.0, integral_limit=3.0)
    rest(force, 10.0, 10.0, 1000)
    before = rest(force, 10.0, 10.0)
    assert rest(force, 10.0, 9.0, 200) - before == pytest.approx(10.0 * 1.0 * 0.2, rel=0.15)
    rest(force, 10.0, 9.0, 2000)
    assert rest(force, 10.0, 10.0, 300) <= 13.0 + 1e-9


def test_rising_goal_causes_no_filter_lag_error():
    """The goal is compared with a measurement of the same age."""
    force = controller(kp=0.0, ki=15.0, filter_time=0.03)
    before = rest(force, 5.0, 5.0, 1000) - 5.0
    for k in range(1000):
        goal = 5.0 + 10.0 * k * DT
        pushed = force.step(goal, goal, 0.0, 0.0, MASS)
    assert pushed - goal == pytest.approx(before, abs=0.02)


@pytest.mark.parametrize(
    ("goal", "requested", "speed", "friction"),
    [
        (10.0, 0.01, 0.01, 0.0),
        (10.0, 0.01, 0.01, 3.0),
        (100.0, 0.03, 0.03, 1.0),
        (50.0, 0.03, 0.25 * 50.0 / math.sqrt(1e5 * MASS), 0.0),  # limit for hard contacts
        (10.0, 0.03, 0.01, 0.0),
        (2.0, 0.01, 0.0025, 0.0),  # slower, since an impact is large compared with this goal
    ],
)
def test_approach_speed_is_bounded(goal, requested, speed, friction):
    force = controller(approach_speed=requested, loss_distance=0.5)
    x = v = 0.0
    fastest = 0.0
    for _ in range(3000):
        pushed = force.step(goal, 0.0, x, v, MASS)
        resisting = min(friction, abs(pushed)) if v == 0.0 else friction * math.tanh(v / 1e-4)
        v += DT * (pushed - resisting) / MASS
        x += DT * v
        fastest = max(fastest, v)
    assert v == pytest.approx(speed, rel=0.05)
    assert fastest < 1.3 * speed


def test_search_without_contact_ends_within_double_loss_distance():
    force = controller()
    x = v = 0.0
    for _ in range(30000):
        v += DT * force.step(10.0, 0.0, x, v, MASS) / MASS
        x += DT * v
    assert 0.09 < x <= 0.1
    assert abs(v) < 1e-4
    assert force.is_lost


def test_lost_contact_fades_to_search_force():
    force = controller()
    rest(force, 20.0, 20.0, 1000)
    rest(force, 20.0, 0.0, 1000)
    pushed = force.step(20.0, 0.0, 0.0, 0.01, MASS)  # the tip moves at the search speed
    assert not force.touching
    assert pushed == pytest.approx(1.5, abs=0.05)


def test_regained_contact_restores_force():
    force = controller(ki=0.0)
    rest(force, 20.0, 20.0, 1000)
    rest(force, 20.0, 0.0, 500)
    assert rest(force, 20.0, 20.0, 1000) == pytest.approx(20.0, abs=0.1)


def test_controller_at_rest_never_pulls():
    force = controller(kp=0.5, ki=15.0)
    rest(force, 5.0, 5.0, 500)
    assert min(rest(force, 5.0, 60.0) for _ in range(2000)) >= -1e-9


def test_withdrawn_force_ends_without_step():
    force = controller(kp=0.5)
    rest(force, 10.0, 8.0, 3000)
    last = rest(force, 10.0, 8.0)
    steps = []
    for _ in range(500):
        pushed = rest(force, 0.0, 3.0)
        steps.append(abs(pushed - last))
        last = pushed
    assert force.is_idle
    assert last == 0.0
    assert max(steps) < 1.5  # of 30 N, including 20 N of the integral


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31))
def test_injected_energy_never_exceeds_energy_of_tank(seed):
    """Independent energy balance over random goals, contacts, motions and gains."""
    rng = np.random.default_rng(seed)
    tank_gain = float(rng.choice([0.01, 1.0, 200.0]))
    force = ForceController(ForceParams().gains(), DT)
    spent = filled = work = desired = speed = goal_speed = 0.0
    power = float(rng.choice([0.0, 1.0]))
    for k in range(3000):
        if k % 150 == 0:
            desired, goal_speed = rng.uniform(0, 40), rng.normal() * 0.5
            force.set_gains(
                ForceParams(
                    kp=rng.uniform(0, 0.5), ki=rng.uniform(0, 15), tank_gain=tank_gain,
                    tank_max=5.0, tank_power=power,
                ).gains()
            )  # fmt: skip
            force.grant(desired)
        measured, dissipated = rng.uniform(-5, 50) * (rng.random() < 0.7), rng.uniform(0, 1) * DT
        force.tank.settle(work)
        force.tank.receive(dissipated)
        pushed = force.step(desired, measured, rng.uniform(0, 0.1), speed, rng.uniform(1, 10))
        after = speed + 0.01 * (goal_speed - speed)
        work = pushed * 0.5 * (speed + after) * DT
        speed, spent, filled = after, spent + work, filled + dissipated
        given = force.tank.granted + power * (k + 1) * DT
        assert spent <= given + filled + 1e-9
        assert force.tank.granted <= 5.0
        assert force.tank.energy <= 5.0 + 1e-9


def mass_on_floor(force, goal, floor, cycles, late=5):
    """Yield position and speed of a mass on a floor [N/m] with delayed measurements."""
    x = v = 0.0
    estimated = [(0.0, 0.0)] * late
    for k in range(cycles):
        contact = max(0.0, floor(k) * x)
        estimated.append((contact, v))
        measured, speed = estimated.pop(0)
        pushed = force.step(goal, measured, 0.0 if force.touching else x, speed, MASS)
        force.tank.settle(pushed * v * DT)
        v += DT * (pushed - contact) / MASS
        x += DT * v
        yield x, v


@pytest.mark.parametrize("release", [0.001, 0.05])
def test_tool_continued_after_floor_vanished_until_slow_filter_reacted(release):
    """60 N, 5 ms late: contact ended only at 0.1 N, and the tool moved by 178 mm."""
    force = controller(kp=0.5, ki=15.0, filter_time=0.03, release_time=release, tank_power=100.0)
    force.grant(60.0)
    path = np.array(list(mass_on_floor(force, 60.0, lambda k: 1e4 if k < 4000 else 0.0, 5000)))
    after = path[4000:]
    assert path[3990, 0] * 1e4 == pytest.approx(60.0, abs=3.0)
    assert after[300, 0] - after[0, 0] < 0.034  # the search for contact follows
    assert after[:, 1].max() < 0.35


def test_empty_tank_was_relay_in_sign_of_speed():
    """Full force in the retreat of the tool and none in its advance caused chattering."""
    force = ForceController(ForceParams(tank_max=0.0, tank_power=0.0).gains(), DT)
    force.resume(40.0)
    speeds = np.linspace(-1e-3, 1e-3, 21)
    pushed = []
    for speed in speeds:
        force.resume(40.0)
        pushed.append(force.step(40.0, 40.0, 0.0, float(speed), MASS))
    assert np.abs(np.diff(pushed)).max() < 2.0 * force.BRAKE_RATE * MASS * 1e-4
    assert all(push * speed <= 0.0 for push, speed in zip(pushed, speeds))
