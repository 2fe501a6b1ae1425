# SPDX-License-Identifier: Apache-2.0
"""Arms with delay, lag, scaled inertia or unknown payload against their equations."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from world import world

pytestmark = [pytest.mark.sim, pytest.mark.inline]

FLOAT = {"float": {"type": "gravity_compensation"}}


def arms(**perturbation):
    return {"left": {"perturbation": perturbation}, "right": {"position": [0.0, -0.8, 0.0]}}


def test_states_have_age_of_delay(make_cell):
    cell = make_cell(arms(state_delay=0.004), FLOAT, ["left/float"])
    _, data = world(cell)
    data.qvel[:7] = 0.3
    truth = []
    for _ in range(50):
        truth.append(data.qpos[:7].copy())
        cell.step(1)
    observed = cell.state("left").q  # The last cycle reads it at its start, 4 cycles late.
    np.testing.assert_allclose(observed, truth[-5], atol=1e-15)


def test_torque_follows_with_lag(make_cell):
    cell = make_cell(arms(torque_lag=0.01), FLOAT, ["left/float"])
    backend = cell.loop.backends[0]
    lagging = backend.drives[0]
    lagging.execute(np.zeros(7))
    tau = np.zeros(7)
    for _ in range(10):
        tau = np.ones(7)
        lagging.execute(tau)
    np.testing.assert_allclose(tau, 1.0 - math.exp(-1.0), rtol=1e-12)


def test_inertia_scale_acts_only_on_its_arm(make_cell):
    models = [world(make_cell(arms(inertia_scale=scale)))[0] for scale in (1.0, 1.2)]
    masses = []
    for model in models:
        data = mujoco.MjData(model)
        data.qpos[:7] = [0.1, -0.4, 0.3, -2.0, 0.2, 1.4, 0.5]
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        try:
            mujoco.mj_fullM(model, data, full)  # MuJoCo 4
        except TypeError:
            mujoco.mj_fullM(model, full, data.qM)
        masses.append(full)
    np.testing.assert_allclose(masses[1][:7, :7], 1.2 * masses[0][:7, :7], rtol=1e-9)
    other = slice(-9, -2)
    np.testing.assert_allclose(masses[1][other, other], masses[0][other, other], rtol=1e-12)


def test_unknown_payload_pulls_by_its_weight_and_is_estimated(make_cell):
    cell = make_cell(arms(payload=2.0, payload_com=[0.03, 0.0, 0.1]))
    cell.step(1500)
    estimated = cell.state("left").wrench_ext_in_base
    assert estimated[2] == pytest.approx(-2.0 * 9.81, rel=0.01)
    assert np.abs(estimated[:2]).max() < 0.3
    # Hold carries the payload, so it commands the torque of the weight.
    model, data = world(cell)
    jacobian = np.zeros((3, model.nv))
    body = model.body("left_fr3_payload").id
    mujoco.mj_jac(model, data, jacobian, None, data.xipos[body], body)
    expected = -jacobian[:, :7].T @ (2.0 * model.opt.gravity)
    np.testing.assert_allclose(cell.state("left").tau, expected, atol=0.05)


def test_payload_hung_at_twice_its_offset(make_cell):
    """MuJoCo added the position of the body to a centre of mass that was not given."""
    cell = make_cell(arms(payload=2.0, payload_com=[0.03, -0.02, 0.1]))
    model, data = world(cell)
    flange = model.body("left_fr3_link8").id
    off = data.xipos[model.body("left_fr3_payload").id] - data.xpos[flange]
    in_flange = data.xmat[flange].reshape(3, 3).T @ off
    np.testing.assert_allclose(in_flange, [0.03, -0.02, 0.1], atol=1e-12)
