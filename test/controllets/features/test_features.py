# SPDX-License-Identifier: Apache-2.0
"""Features by their defining properties."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.controllets.features.coriolis import Coriolis
from multipanda_py.controllets.features.nullspace import Nullspace, NullspaceParams
from multipanda_py.parameters import NoParams
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

CONTEXT = {n: StateMaker(n).context for n in (1, 2)}


def test_nullspace_accelerates_no_task_coordinate():
    rng = np.random.default_rng(7)
    maker = StateMaker(2)
    params = NullspaceParams()
    feature, target = Nullspace(CONTEXT[2], params), CartesianTarget(2)
    checked = 0
    while checked < 40:
        states = maker.random(rng, speed=1.0)
        for configuration in target.nullspace_configuration:
            configuration[:] = rng.normal(size=7)
        tau = [np.zeros(7), np.zeros(7)]
        feature.add(states, target, tau, PERIOD)
        for s, t, configuration in zip(states, tau, target.nullspace_configuration):
            minv = np.linalg.inv(s.mass_matrix)
            if (
                np.linalg.eigvalsh(s.jacobian @ minv @ s.jacobian.T)[0]
                < 1.1 * TaskInertia.MIN_MANIPULABILITY
            ):
                continue
            checked += 1
            assert np.abs(s.jacobian @ minv @ t).max() < 1e-8
            free = params.stiffness * (configuration - s.q) - 2 * np.sqrt(params.stiffness) * s.dq
            free = np.clip(free, -params.max_torque, params.max_torque)
            lam = np.linalg.inv(s.jacobian @ minv @ s.jacobian.T)
            projector = np.eye(7) - s.jacobian.T @ lam @ s.jacobian @ minv
            assert np.allclose(t, projector @ free, atol=1e-8)
            assert np.allclose(projector @ projector, projector, atol=1e-8)


def test_nullspace_adds_to_existing_torques():
    rng = np.random.default_rng(8)
    states = StateMaker().random(rng)
    feature, target = Nullspace(CONTEXT[1], NullspaceParams()), CartesianTarget(1)
    alone, onto = [np.zeros(7)], [np.arange(7.0)]
    feature.add(states, target, alone, PERIOD)
    feature.add(states, target, onto, PERIOD)
    assert np.allclose(onto[0] - alone[0], np.arange(7.0))


def test_coriolis_power_is_half_that_of_inertia_change():
    """dq' (Mdot - 2C) dq = 0: the power of C dq is half that of the changing inertia."""
    rng = np.random.default_rng(9)
    maker = StateMaker()
    feature = Coriolis(CONTEXT[1], NoParams())
    for _ in range(20):
        (state,) = maker.random(rng, speed=1.0)
        q, dq = state.q.copy(), state.dq.copy()
        tau = [np.zeros(7)]
        feature.add([state], CartesianTarget(1), tau, PERIOD)
        power, h = float(tau[0] @ dq), 1e-6
        ahead = maker.states_at([q + h * dq])[0].mass_matrix.copy()
        behind = maker.states_at([q - h * dq])[0].mass_matrix.copy()
        rate = (ahead - behind) / (2 * h)
        assert np.isclose(power, 0.5 * dq @ rate @ dq, atol=1e-5)
