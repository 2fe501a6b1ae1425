# SPDX-License-Identifier: Apache-2.0
"""Links on springs with fixed motors, against the solution of their equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from long_form import every_nth
from scipy.optimize import brentq
from spring_links import (
    CASES,
    GRAVITY,
    INERTIA,
    LENGTH,
    MASS,
    exact,
    motors_at,
    pendulum,
    run,
)  # fmt: skip

from multipanda_py.simulation.actuators.compliant_actuators import Sea

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def robot_at_rest(name, equilibrium=0.8, **model):
    kind, params, preset, _ = CASES[name]
    robot = pendulum(kind, params, **model)
    if kind is not Sea:
        robot.joints.command("stiffness_preset", preset)
    robot.joints.command("equilibrium_position", equilibrium)
    return robot


@pytest.mark.parametrize("name", every_nth(3, CASES))
def test_step_of_1_ms_agrees_with_equations(name):
    kind, _, preset, torque = CASES[name]
    times = 1e-3 * np.arange(1, 501)
    expected = exact(torque, times, motors_at(kind, 0.8, preset))
    error = np.abs(run(robot_at_rest(name), 500)[:, 0] - expected).max()
    assert error <= (1e-3 if "soft" in name else 1e-2)


@pytest.mark.parametrize("name", CASES)
def test_link_rests_where_springs_carry_its_weight(name):
    kind, _, preset, torque = CASES[name]
    theta, weight = motors_at(kind, 0.8, preset), MASS * GRAVITY * LENGTH
    expected = brentq(lambda q: torque(q, *theta) - weight * math.sin(q), 0.3, 0.9)
    stiffness = (torque(expected - 1e-4, *theta) - torque(expected + 1e-4, *theta)) / 2e-4
    omega = math.sqrt((stiffness + weight * math.cos(expected)) / INERTIA)
    robot = robot_at_rest(name, damping=1.4 * INERTIA * omega)  # Damping ends the swing early.
    q = run(robot, 100 + math.ceil(20e3 / omega))[-1, 0]
    assert q == pytest.approx(expected, abs=1e-4)
    assert robot.link_torque[0] == pytest.approx(
        weight * math.sin(q), abs=1e-5 * (1.0 + stiffness)
    )


@pytest.mark.parametrize("k", [10.0, 400.0])
def test_undamped_vibration_keeps_its_energy(k, episodes):
    """The loss grows with time, so the bound scales with the duration."""
    robot = pendulum(Sea, {"stiffness": k}, damping=0.0, gravity=0.0)
    robot.joints.command("equilibrium_position", 0.2)
    seconds = episodes(1, 10)
    energies = []
    for _ in range(1000 * seconds):
        robot.step()
        energies.append(0.5 * INERTIA * robot.dq[0] ** 2 + 0.5 * k * (0.2 - robot.q[0]) ** 2)
    found = np.array(energies) / (0.5 * k * 0.04) - 1.0
    assert np.abs(found).max() <= 1e-3 * seconds / 10.0


def test_stiffest_spring_gets_substeps_of_its_frequency():
    robot = robot_at_rest("awas2 stiff", gravity=0.0, damping=0.0)
    robot.step()
    assert robot.joints.accuracy_warning == ""
    omega = math.sqrt(2.0 * 10.0 * (0.05 / 0.015 * 4.0) ** 2 / INERTIA)
    assert omega * 1e-3 > 1.2  # An explicit step of 1 ms is unstable here.
