# SPDX-License-Identifier: Apache-2.0
"""The share of a wrench that joints can bear, in random postures."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.impedance.limit_scaling import NO_CHECK_BELOW, TorqueSaturation
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def test_the_weakest_joint_ends_at_nine_tenths_of_its_limit():
    maker, rng = StateMaker(), np.random.default_rng(2)
    bearable = TorqueSaturation(ArmDescription("arm", "fr3"))
    for _ in range(50):
        (state,) = maker.random(rng, margin=0.2)
        wrench = rng.normal(size=6) * [200, 200, 200, 20, 20, 20]
        share = bearable.scale(wrench, state)
        used = np.abs(state.jacobian.T @ (share * wrench)) / FR3_LIMITS.torque
        assert used.max() == pytest.approx(0.9) or (share == 1.0 and used.max() < 0.9)


def test_an_arm_that_carries_itself_does_not_press_with_that_torque_again():
    """Its weight and 0.9 of the limits together were more than its motors have."""
    maker, rng = StateMaker(model="kinova_gen3"), np.random.default_rng(2)
    arm = maker.context.arms[0]
    bearable, limit = TorqueSaturation(arm), arm.limits.torque
    for _ in range(50):
        (state,) = maker.random(rng, margin=0.2)
        state.tau_gravity[:] = rng.uniform(-0.6, 0.6, 7) * limit
        wrench = rng.normal(size=6) * [200, 200, 200, 20, 20, 20]
        pressed = bearable.scale(wrench, state) * (state.jacobian.T @ wrench)
        assert (np.abs(pressed) + np.abs(state.tau_gravity) < limit * (1.0 - 1e-9)).all()


def test_what_is_not_looked_at_is_borne_in_any_posture():
    """The longest lever of an FR3 with a tool is about a metre; the weakest joint has 12 Nm."""
    maker, rng = StateMaker(), np.random.default_rng(3)
    for _ in range(50):
        (state,) = maker.random(rng, margin=0.05)
        columns = np.linalg.norm(state.jacobian, axis=0)
        assert (NO_CHECK_BELOW * columns < 0.9 * FR3_LIMITS.torque).all()
