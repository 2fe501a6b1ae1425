# SPDX-License-Identifier: Apache-2.0
"""The force controller on masses, floors and books that the tests compute themselves."""

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


def test_in_contact_the_goal_is_fed_forward():
    force = controller(ki=0.0)
    assert rest(force, 10.0, 10.0, 1000) == pytest.approx(10.0, abs=1e-6)
    assert force.weight == pytest.approx(1.0, abs=1e-6)


def test_the_integral_grows_with_the_error_and_stops_at_its_limit():
    force = controller(kp=0.0, ki=10.0, integral_limit=3.0)
    rest(force, 10.0, 10.0, 1000)
    before = rest(force, 10.0, 10.0)
    assert rest(force, 10.0, 9.0, 200) - before == pytest.approx(10.0 * 1.0 * 0.2, rel=0.15)
    rest(force, 10.0, 9.0, 2000)
    assert rest(force, 10.0, 10.0, 300) <= 13.0 + 1e-9


def test_a_rising_goal_is_not_led_by_the_filter():
    """A goal that rises is compared with a measurement of the same age."""
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
        (50.0, 0.03, 0.25 * 50.0 / math.sqrt(1e5 * MASS), 0.0),  # as hard contacts stand it
        (10.0, 0.03, 0.01, 0.0),
        (2.0, 0.01, 0.0025, 0.0),  # slower, as an impact is large compared with this goal
    ],
)
def test_contact_is_looked_for_with_bounded_speed(goal, requested, speed, friction):
    force = controller(approach_speed=requested, loss_distance=0.5)
    x = v = 0.0
    fastest = 0.0
    for _ in range(3000):
        pushed = force.step(goal, 0.0, x, v, MASS)
        slowed = min(friction, abs(pushed)) if v == 0.0 else friction * math.tanh(v / 1e-4)
        v += DT * (pushed - slowed) / MASS
        x += DT * v
        fastest = max(fastest, v)
    assert v == pytest.approx(speed, rel=0.05)
    assert fastest < 1.3 * speed


def test_the_search_in_the_air_ends_within_twice_the_loss_distance():
    force = controller()
    x = v = 0.0
    for _ in range(30000):
        v += DT * force.step(10.0, 0.0, x, v, MASS) / MASS
        x += DT * v
    assert 0.09 < x <= 0.1
    assert abs(v) < 1e-4
    assert force.is_lost


def test_lost_contact_fades_to_the_search_force():
    force = controller()
    rest(force, 20.0, 20.0, 1000)
    rest(force, 20.0, 0.0, 1000)
    pushed = force.step(20.0, 0.0, 0.0, 0.01, MASS)  # the tip moves on as fast as it is to
    assert not force.touching
    assert pushed == pytest.approx(1.5, abs=0.05)


def test_contact_found_again_restores_the_force():
    force = controller(ki=0.0)
    rest(force, 20.0, 20.0, 1000)
    rest(force, 20.0, 0.0, 500)
    assert rest(force, 20.0, 20.0, 1000) == pytest.approx(20.0, abs=0.1)


def test_at_rest_it_pushes_and_never_pulls():
    force = controller(kp=0.5, ki=15.0)
    rest(force, 5.0, 5.0, 500)
    assert min(rest(force, 5.0, 60.0) for _ in range(2000)) >= -1e-9


def test_a_withdrawn_force_ends_without_a_step():
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
    assert max(steps) < 1.5  # of 30 N, the integral's 20 among them


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31))
def test_injected_energy_never_exceeds_what_the_tank_was_given(seed):
    """A book of our own over random goals, contacts, motions and gains."""
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


def pushed_about(force, goal, floor, cycles, late=5):
    """Yield way and speed of a mass on a floor [N/m] whose force and speed are felt late."""
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
def test_a_tool_whose_floor_was_gone_went_on_until_a_slow_filter_noticed(release):
    """60 N, 5 ms late: contact counted until 0.1 N were left, and the tool went 178 mm far."""
    force = controller(kp=0.5, ki=15.0, filter_time=0.03, release_time=release, tank_power=100.0)
    force.grant(60.0)
    way = np.array(list(pushed_about(force, 60.0, lambda k: 1e4 if k < 4000 else 0.0, 5000)))
    after = way[4000:]
    assert way[3990, 0] * 1e4 == pytest.approx(60.0, abs=3.0)
    assert after[300, 0] - after[0, 0] < 0.034  # from then on it looks for the floor
    assert after[:, 1].max() < 0.35


def test_an_empty_tank_was_a_relay_in_the_sign_of_the_speed():
    """It gave all of the force where a tool gave way, nothing where it went on: it chattered."""
    force = ForceController(ForceParams(tank_max=0.0, tank_power=0.0).gains(), DT)
    force.resume(40.0)
    speeds = np.linspace(-1e-3, 1e-3, 21)
    pushed = []
    for speed in speeds:
        force.resume(40.0)
        pushed.append(force.step(40.0, 40.0, 0.0, float(speed), MASS))
    assert np.abs(np.diff(pushed)).max() < 2.0 * force.BRAKE_RATE * MASS * 1e-4
    assert all(push * speed <= 0.0 for push, speed in zip(pushed, speeds))
