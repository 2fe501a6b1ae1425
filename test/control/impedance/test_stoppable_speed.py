# SPDX-License-Identifier: Apache-2.0
"""The bound of a spring's approach: speed that joints stand, braking that torques can follow."""

from __future__ import annotations

import numpy as np
import pytest
from postures import READY

from multipanda_py.control.impedance.limit_scaling import BrakingSpeedLimit
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

WAY = np.array([1.0, 0.5, -0.3, 0.2, 0.0, 0.4])


@pytest.mark.parametrize("steepness", [20.0, 40.0])
def test_an_approach_from_afar_is_braked_by_what_was_allowed_and_no_later(steepness):
    """A tool that moves as it is told, integrated: its braking torques, by the mass matrix."""
    state = StateMaker().at([READY])[0]
    bound = BrakingSpeedLimit(ArmDescription("arm", "fr3"), 0.25)
    bound.set_damping(2.0 * steepness)
    inverse = state.jacobian @ np.linalg.solve(state.mass, state.jacobian.T)
    torque = np.abs(state.jacobian.T @ np.linalg.solve(inverse, WAY))  # of 1 m/s^2 along it
    most = 0.6 * np.minimum(FR3_LIMITS.torque, FR3_LIMITS.torque_rate / (2.0 * steepness))
    hardest = (most / torque).min()
    gap, step, speeds = 0.5, 1e-4, []
    while gap > 1e-3:
        twist = steepness * gap * WAY
        speeds.append(bound.scale(state, twist, steepness * twist) * steepness * gap)
        gap -= speeds[-1] * step
    braking = -np.diff(speeds) / step
    assert braking.max() == pytest.approx(hardest, rel=1e-2)
    to_the_end = braking[np.argmax(braking > 0.99 * hardest) :]
    assert np.abs(np.diff(to_the_end)).max() < 0.01 * hardest  # no kink
    assert len(speeds) * step < 0.5 / max(speeds) + max(speeds) / hardest + 7.0 / steepness


def test_what_is_negligible_is_not_bounded_in_any_posture():
    rng = np.random.default_rng(1)
    maker = StateMaker()
    for _ in range(300):
        state = maker.random(rng)[0]
        for steepness in (5.0, 20.0, 40.0):
            bound = BrakingSpeedLimit(ArmDescription("arm", "fr3"), 0.25)
            bound.set_damping(2.0 * steepness)
            twist = rng.normal(size=6)
            twist *= BrakingSpeedLimit.negligible(steepness) / np.linalg.norm(twist)
            assert bound.scale(state, twist, steepness * twist) == 1.0


def test_a_spring_lets_go_of_joints_that_are_fast_already():
    dq = np.zeros(7)
    bound = BrakingSpeedLimit(ArmDescription("arm", "fr3"), 0.25)
    bound.set_damping(20.0)
    shares = []
    for part in (0.7, 0.86, 1.0, 1.05):
        dq[3] = part * FR3_LIMITS.velocity[3]
        state = StateMaker().at([READY], [dq])[0]
        shares.append(bound.scale(state, 0.01 * WAY, 0.1 * WAY))
    assert shares == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=1e-9)
