# SPDX-License-Identifier: Apache-2.0
"""Payload identification from motion and from static joint configurations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from measured_arm import some_motion

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.payload import identify_payload
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import Load

pytestmark = pytest.mark.inline

ARM = ArmDescription("arm", "fr3")
LOAD = Load(1.7, np.array([0.03, -0.02, 0.12]), np.diag([6e-3, 5e-3, 3e-3]))


def log_of(q, dq, ddq, time, noise=0.05):
    loaded = ArmRegressor(ARM, LOAD)
    rows = loaded.rows(q, dq, ddq)
    tau = rows @ loaded.prior + rows[..., -10:] @ loaded.carried + ddq * ARM.robot.armature
    rng = np.random.default_rng(0)
    tau += 0.3 * np.tanh(dq / 0.01) + noise * rng.normal(size=tau.shape)
    return MeasuredMotion("load", time, q, tau, dq)


def test_motion_of_15_s_identifies_load():
    motion = some_motion(ARM, 1, period=14.0)
    time = motion.times(100.0)
    found = identify_payload([log_of(*motion.sample(time), time)], ARM)
    assert found.has_inertia
    assert found.load.mass == pytest.approx(LOAD.mass, abs=0.03)
    np.testing.assert_allclose(found.load.com, LOAD.com, atol=4e-3)
    assert np.linalg.eigvalsh(found.load.inertia).min() > 0.0


def static_log(tilts):
    time = np.arange(0.0, 3.0 * len(tilts), 0.01)
    q = np.repeat(ARM.robot.ready + np.array(tilts), 300, axis=0)
    still = np.zeros_like(q)
    log = log_of(q, still, still, time)
    return replace(log, starts=tuple(range(0, len(time), 300)))


def test_static_configurations_identify_mass_and_centre():
    tilts = [(0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0.5, 1), (0, 0.3, 0, 0, -1, -0.6, -1)]
    found = identify_payload([static_log(tilts)], ARM)
    assert not found.has_inertia
    assert found.load.mass == pytest.approx(LOAD.mass, abs=0.15)
    np.testing.assert_allclose(found.load.com, LOAD.com, atol=0.02)


def test_single_configuration_is_rejected():
    with pytest.raises(IdentificationRejected, match="cannot be separated"):
        identify_payload([static_log([(0,) * 7] * 3)], ARM)
