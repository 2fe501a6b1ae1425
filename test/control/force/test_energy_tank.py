# SPDX-License-Identifier: Apache-2.0
"""Energy tanks against independent energy balances."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.force.energy_tank import EnergyTank, SpringTank

pytestmark = pytest.mark.inline

DT = 1e-3


def filled(energy, limit=100.0, power=0.0, tank=EnergyTank):
    made = tank(DT)
    made.limit, made.power = limit, power
    made.grant(energy)
    return made


def test_goal_adds_only_energy_above_previous_maximum():
    tank = filled(2.0)
    tank.settle(1.5)
    tank.grant(1.0)
    assert tank.energy == pytest.approx(0.5)
    tank.grant(5.0)
    assert tank.energy == pytest.approx(3.5)
    tank.grant(500.0)
    assert tank.granted == 100.0


def test_allowance_is_bounded_in_power_and_replaces_losses_only():
    tank = filled(2.0, power=3.0)
    for _ in range(100):
        tank.settle(0.0)
    assert tank.energy == 2.0
    tank.settle(1.0)
    for _ in range(100):
        tank.settle(0.0)
    assert tank.allowed == pytest.approx(101 * 3.0 * DT)
    assert tank.energy == pytest.approx(1.0 + tank.allowed)
    for _ in range(1000):
        tank.settle(0.0)
    assert tank.energy == pytest.approx(2.0)


def test_overflow_is_returned():
    tank = filled(9.5, limit=10.0)
    assert tank.receive(0.4) == 0.0
    assert tank.receive(0.4) == pytest.approx(0.3)
    assert tank.settle(-2.0) == pytest.approx(2.0)
    assert tank.energy == pytest.approx(10.0)


def test_spring_energy_does_not_count_towards_limit():
    tank = filled(10.0, limit=10.0, tank=SpringTank)
    assert tank.settle(-5.0, held=5.0) == 0.0  # pushed from outside
    assert tank.energy == pytest.approx(15.0)


def spring_on_a_mass(granted, jumps, rng, cycles=4000, mass=2.0, stiffness=400.0):
    """Return the maximum kinetic energy of an undamped mass on a spring with a tank [J]."""
    tank = filled(granted, tank=SpringTank)
    x = v = goal = work = largest = force = 0.0
    for k in range(cycles):
        tank.settle(work, tank.held)
        if k % jumps == 0:
            goal = x + rng.choice([-0.1, 0.1])
        pull = stiffness * (goal - x)
        force = pull * tank.soften(0.5 * pull * (goal - x), pull * v)
        after = v + DT * force / mass
        work = force * 0.5 * (v + after) * DT
        v, x = after, x + DT * after
        largest = max(largest, 0.5 * mass * v * v)
    return largest


@pytest.mark.parametrize("seed", range(10))
def test_kinetic_energy_never_exceeds_granted_energy(seed):
    """No damping, with jumps of the set point at adverse times."""
    rng = np.random.default_rng(seed)
    largest = spring_on_a_mass(0.02, int(rng.integers(50, 500)), rng)
    assert 0.01 < largest <= 0.02


def test_spring_with_full_tank_is_unchanged():
    """With sufficient energy, the spring oscillates with its own period."""
    tank = filled(5.0, tank=SpringTank)
    x, v, work, crossings = 0.1, 0.0, 0.0, []
    for k in range(3000):
        tank.settle(work, tank.held)
        pull = -400.0 * x
        force = pull * tank.soften(-0.5 * pull * x, pull * v)
        after = v + DT * force / 2.0
        work, before = force * 0.5 * (v + after) * DT, x
        v, x = after, x + DT * after
        if before > 0.0 >= x:
            crossings.append(k * DT)
    assert np.diff(crossings) == pytest.approx(2 * np.pi * np.sqrt(2.0 / 400.0), abs=2e-3)
    tank.settle(work)
    assert tank.energy + 0.5 * 2.0 * v * v == pytest.approx(5.0, abs=1e-9)


def test_jump_is_scaled_until_tank_fills():
    tank = filled(1.0 + tank_reserve(), tank=SpringTank)
    assert tank.soften(5.0, 0.0) == pytest.approx(0.2)
    for _ in range(1000):
        tank.receive(0.005, tank.held)
        scale = tank.soften(5.0, 0.0)
    assert scale == 1.0
    assert tank.free == pytest.approx(1.0, abs=0.01)


def tank_reserve():
    return EnergyTank.RESERVE


def test_returning_set_point_returns_its_energy():
    tank = filled(3.0, tank=SpringTank)
    for stored in (0.0, 2.0, 0.0, 2.5, 0.5, 0.0):
        tank.settle(0.0, tank.held)
        assert tank.soften(stored, 0.0) == 1.0
        assert tank.free == pytest.approx(3.0 - stored)
