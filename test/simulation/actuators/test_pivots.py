# SPDX-License-Identifier: Apache-2.0
"""Substeps for the fast vibration of a light motor that moves a pivot."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from spring_links import INERTIA, awas2, pendulum

from multipanda_py.simulation.actuators import Motors
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Sea
from multipanda_py.simulation.actuators.integrator import SPRING_STEP_RATIO, choose_substeps

pytestmark = [pytest.mark.sim, pytest.mark.inline]
J, MASS, LOAD, PINION = 0.0233, 0.5, 150.0, 0.015
P, D, P_PIVOT, D_PIVOT = 2e4, 40.0, 4e6, 1e3
START = 0.035
STEPS = 150


def force(q, theta, s):
    """Return the holding force of the pivot below the limit of deflection [N]."""
    rise = 40.0 * (0.05 / 0.015) ** 2 * s * 0.05 / (0.05 - s) ** 3
    return 0.5 * rise * math.sin(theta - q) ** 2


def motors():
    """Return motors with a light pivot; the second row is in coordinates of a pinion."""
    angle = PINION**2
    return Motors.of(
        [(Awas2(1), [0])], inertia=[[J], [MASS * angle]], damping=0.0, friction=0.0,
        max_torque=[[4e3], [1e6]], max_velocity=1e3, p=[[P], [P_PIVOT * angle]],
        d=[[D], [D_PIVOT * angle]],
    )  # fmt: skip


def loaded():
    """Return a loaded link that its spring holds."""
    robot = pendulum(Awas2, mode=6, motors=motors(), gravity=0.0, damping=0.0)
    robot.joints.reset([0.0], [LOAD], [START])
    robot.external_torque[:] = -LOAD
    return robot


def plan_of(robot, duration=1e-3):
    joints, inverse = robot.joints, np.array([[1.0 / INERTIA]])
    flow = joints.flow
    return choose_substeps(
        joints.springs, joints.equations, flow.x, inverse, *np.zeros((2, 1)), duration, 10_000
    )


@pytest.mark.parametrize("s", [0.02, 0.035, 0.039])
def test_local_frequency_is_within_bound(s):
    """Eigenvalues of the torque slopes give the frequency; without the pivot it was half."""
    robot = loaded()
    flow = robot.joints.flow
    flow.x[:, 0] = 0.0, 0.29, s

    def rates(x):
        torque, held = awas2(*x), force(*x)
        return np.array([torque / INERTIA, -torque / J, -held / MASS])

    steps = 1e-7 * np.array([1.0, 1.0, 0.1])
    slopes = [(rates(flow.x[:, 0] + d) - rates(flow.x[:, 0] - d)) / (2.0 * d.max())
              for d in np.diag(steps)]  # fmt: skip
    omega = math.sqrt(np.abs(np.linalg.eigvals(np.array(slopes).T)).max())
    needed = 1e-3 * omega / SPRING_STEP_RATIO
    assert needed <= plan_of(robot).substeps <= 2.0 * needed + 10.0


def test_preset_motion_under_load_is_followed():
    robot = loaded()
    theta = robot.joints.theta[:, 0]
    aim = robot.joints.commanded("equilibrium_position")[0]
    first = robot.joints.commanded("stiffness_preset")[0]
    state, expected, found = np.array([0.0, *theta, 0.0, 0.0, 0.0]), [], []
    for step in range(STEPS):
        preset = first + 0.003 * math.sin(60e-3 * (step + 1))

        def rates(_, y, preset=preset):
            q, angle, s, *speeds = y
            torque = awas2(q, angle, s)
            return [
                *speeds, (torque - LOAD) / INERTIA,
                (P * (aim - angle) - D * speeds[1] - torque) / J,
                (P_PIVOT * (preset - s) - D_PIVOT * speeds[2] - force(q, angle, s)) / MASS,
            ]  # fmt: skip

        state = solve_ivp(rates, (0.0, 1e-3), state, method="DOP853", rtol=1e-9, atol=1e-12).y[
            :, -1
        ]
        expected.append(state[:3])
        robot.joints.command("stiffness_preset", preset)
        robot.step()
        found.append([robot.q[0], *robot.joints.theta[:, 0]])
    moved = np.ptp(np.array(expected), axis=0)
    assert moved[2] > 0.003
    assert moved[0] > 0.02
    off = np.abs(np.array(found) - expected).max(axis=0)
    assert (off < [1e-7, 1e-8, 1e-8]).all(), off
    assert robot.joints.n_inaccurate == 0


def test_joints_without_pivots_skip_pivot_slopes():
    assert not pendulum(Sea).joints.springs.moves_pivots
    assert pendulum(Awas2).joints.springs.moves_pivots
    own, mixed = pendulum(Awas2, n=2).joints.springs.pivot_slopes(
        np.zeros(2), np.array([[0.0, 0.2], [0.01, 0.01]])
    )
    assert own[0] == mixed[0] == 0.0  # No spring is deflected.
    slope = (force(0.0, 0.2, 0.01001) - force(0.0, 0.2, 0.00999)) / 2e-5
    assert own[1] == pytest.approx(slope, rel=1e-4)
