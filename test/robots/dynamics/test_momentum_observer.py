# SPDX-License-Identifier: Apache-2.0
"""Estimates of external torques that MuJoCo applies to an arm in motion."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.dynamics.external_torque import DEFAULT_BANDWIDTH, MomentumObserver
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("rate", [500, 1000])
def test_constant_torque_is_estimated_with_first_order_lag(rate):
    arm = ArmDescription("arm", "ur5e", compensates_gravity=False)
    model = build_scene([arm], timestep=1e-4).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = [0.4, -1.2, 1.4, -1.3, -1.4, 0.3]
    observer, found = MomentumObserver(model_with_gravity(arm)), []
    observer.update(data.qpos, data.qvel, np.zeros(6), 0.0)
    external = np.array([6.0, -4.0, 3.0, 1.0, -1.0, 0.5])
    for k in range(round(0.3 * rate)):
        mujoco.mj_forward(model, data)
        carrying = data.qfrc_bias + 2.0 * np.sin(6.0 * k / rate)
        data.ctrl[:], data.qfrc_applied[:] = carrying, external
        mujoco.mj_step(model, data, nstep=10_000 // rate)
        found.append(observer.update(data.qpos, data.qvel, carrying, 1.0 / rate).copy())
    assert np.abs(data.qvel).max() > 0.3  # it moved
    times = np.arange(1, len(found) + 1) / rate
    expected = external * (1.0 - np.exp(-DEFAULT_BANDWIDTH * times))[:, None]
    np.testing.assert_allclose(found, expected, atol=0.4)
    np.testing.assert_allclose(found[-1], external, atol=0.15)


def test_observer_resumes_from_last_estimate_after_gap():
    arm = ArmDescription("arm", "ur5e", compensates_gravity=False)
    model = model_with_gravity(arm)
    observer, q = MomentumObserver(model), np.array([0.4, -1.2, 1.4, -1.3, -1.4, 0.3])
    still, external = np.zeros(6), np.array([6.0, -4.0, 3.0, 1.0, -1.0, 0.5])
    carrying = pin.computeGeneralizedGravity(model, model.createData(), q)
    for _ in range(500):
        before = observer.update(q, still, carrying - external, 1e-3).copy()
    np.testing.assert_allclose(before, external, atol=1e-3)
    observer.resume()
    after = observer.update(q + 0.1, np.full(6, 0.3), carrying - external, 0.0)
    np.testing.assert_allclose(after, before, atol=1e-9)
    observer.restart()
    np.testing.assert_array_equal(observer.update(q, still, carrying, 0.0), still)
