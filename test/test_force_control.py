# SPDX-License-Identifier: Apache-2.0
"""The force controller and the spring's tank, by their books."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multipanda_py.controllets.force_impedance import ForceParams
from multipanda_py.energy_tank import SpringTank
from multipanda_py.force_control import ForceController

DT = 1e-3


def controller(**params):
    return ForceController(ForceParams(**params).gains(), DT)


def in_contact(force, desired, cycles=500):
    for _ in range(cycles):
        force.step(desired, desired, 0.0, 0.0, 0.0)


def test_feed_forward_in_contact_is_the_goal():
    force = controller(ki=0.0)
    force.grant(10.0)
    in_contact(force, 10.0)
    assert force.step(10.0, 10.0, 0.0, 0.0, 0.0) == pytest.approx(10.0, abs=1e-6)
    assert force.weight == pytest.approx(1.0, abs=1e-6)


def test_integral_grows_with_the_error_and_stops_at_its_limit():
    force = controller(kp=0.0, ki=10.0, filter_time=0.0, integral_limit=3.0)
    force.grant(10.0)
    in_contact(force, 10.0)
    out = [force.step(10.0, 9.0, 0.0, 0.0, 0.0) for _ in range(1000)]
    assert out[99] - 10.0 == pytest.approx(10.0 * 1.0 * 0.1, rel=0.05)
    assert out[-1] == pytest.approx(13.0, abs=1e-3)


@pytest.mark.parametrize("distance", [0.0, 0.01, 0.05, 0.1])
def test_before_contact_the_force_is_shaped_by_distance_only(distance):
    force = controller()
    force.grant(8.0)
    pushed = force.step(8.0, 0.0, distance, 0.0, 0.0)
    assert pushed == pytest.approx(8.0 * math.exp(-((distance / 0.05) ** 2)), rel=1e-9)


def test_lost_contact_fades_to_the_search_force():
    force = controller()
    force.grant(20.0)
    in_contact(force, 20.0)
    for _ in range(1000):
        pushed = force.step(20.0, 0.0, 0.0, 0.0, 0.0)
    assert not force.touching
    assert pushed == pytest.approx(1.5, rel=1e-3)


def test_contact_found_again_restores_the_force():
    force = controller(ki=0.0)
    force.grant(20.0)
    in_contact(force, 20.0)
    for _ in range(500):
        force.step(20.0, 0.0, 0.0, 0.0, 0.0)
    in_contact(force, 20.0)
    assert force.step(20.0, 20.0, 0.0, 0.0, 0.0) == pytest.approx(20.0, abs=0.1)


def test_it_pushes_and_never_pulls():
    force = controller(kp=5.0)
    force.grant(5.0)
    in_contact(force, 5.0)
    assert force.step(5.0, 60.0, 0.0, 0.0, 0.0) >= 0.0


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31))
def test_injected_energy_never_exceeds_grant_plus_dissipation(seed):
    """A book of our own over random goals, contacts, motions and gains."""
    rng = np.random.default_rng(seed)
    force = controller(tank_gain=float(rng.choice([0.01, 1.0, 200.0])), tank_max=5.0)
    spent = filled = 0.0
    desired = speed = 0.0
    for k in range(3000):
        if k % 150 == 0:
            desired, speed = rng.uniform(0, 40), rng.normal() * 0.5
            force.gains = ForceParams(
                kp=rng.uniform(0, 3), ki=rng.uniform(0, 50), tank_gain=force.gains.tank_gain,
                tank_max=5.0,
            ).gains()  # fmt: skip
            force.grant(desired)
        measured, dissipated = rng.uniform(-5, 50) * (rng.random() < 0.7), rng.uniform(0, 1)
        pushed = force.step(desired, measured, rng.uniform(0, 0.1), speed, dissipated)
        spent += pushed * speed * DT
        filled += dissipated * DT
        assert spent <= force.granted + filled + 1e-9
        assert force.granted <= 5.0
        assert -1e-9 <= force.energy <= 5.0 + 1e-9


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31))
def test_set_point_jumps_never_store_more_than_the_tank_holds(seed):
    rng = np.random.default_rng(seed)
    tank = SpringTank(DT)
    start = float(rng.uniform(0, 2))
    tank.reset(start)
    stored, book, error, k = 0.0, start, np.zeros(6), np.eye(6)
    for step in range(500):
        motion = rng.normal(size=6) * 0.1
        if step % 40 == 0:
            error = rng.normal(size=6) * 0.1
            a = rng.normal(size=(6, 6))
            k = a @ a.T * rng.uniform(1, 200)
        else:
            error = error - DT * motion
        before = stored
        scale = tank.step(error, k, k @ error, motion, 0.0, 100.0)
        stored = 0.5 * scale**2 * error @ k @ error
        assert 0.0 <= scale <= 1.0
        if step % 40 == 0:
            moved_on = stored - before  # energy that the jump itself put into the spring
            book -= max(0.0, moved_on) if moved_on > 0 else 0.0
            assert tank.energy >= -1e-9
    assert tank.energy >= -1e-9


def test_tank_holds_back_what_it_cannot_pay_and_lets_go_as_it_fills():
    tank = SpringTank(DT)
    tank.reset(1.0)
    k = np.diag([1000.0] * 6)
    error = np.array([0.1, 0, 0, 0, 0, 0])  # 5 J
    scale = tank.step(error, k, k @ error, np.zeros(6), 0.0, 100.0)
    assert 0.5 * 1000.0 * (scale * 0.1) ** 2 == pytest.approx(1.0)
    for _ in range(1000):
        scale = tank.step(error, k, k @ error, np.zeros(6), 10.0, 100.0)
    assert scale == pytest.approx(1.0)
    assert tank.energy == pytest.approx(1.0 + 10.0 - 5.0, abs=0.05)
