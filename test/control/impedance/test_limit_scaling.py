# SPDX-License-Identifier: Apache-2.0
"""Scaling of wrenches to torque limits, speed limits and braking ability."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.limit_scaling import (
    NO_CHECK_BELOW,
    BrakingSpeedLimit,
    TorqueSaturation,
    VelocityLimitScaling,
)
from multipanda_py.control.impedance.modal_damping import BANDWIDTH
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def test_weakest_joint_is_limited_to_90_percent():
    maker, rng = StateMaker(), np.random.default_rng(2)
    saturation = TorqueSaturation(ArmDescription("arm", "fr3"))
    for _ in range(50):
        (state,) = maker.random(rng, margin=0.2)
        wrench = rng.normal(size=6) * [200, 200, 200, 20, 20, 20]
        scaling = saturation.scale(wrench, state)
        used = np.abs(state.jacobian.T @ (scaling * wrench)) / FR3_LIMITS.torque
        assert used.max() == pytest.approx(0.9) or (scaling == 1.0 and used.max() < 0.9)


def test_gravity_torque_was_ignored_in_torque_limit():
    """The weight and 90 % of the limits together exceeded the motors' torque."""
    maker, rng = StateMaker(model="kinova_gen3"), np.random.default_rng(2)
    arm = maker.context.arms[0]
    saturation, limit = TorqueSaturation(arm), arm.limits.torque
    for _ in range(50):
        (state,) = maker.random(rng, margin=0.2)
        state.tau_gravity[:] = rng.uniform(-0.6, 0.6, 7) * limit
        wrench = rng.normal(size=6) * [200, 200, 200, 20, 20, 20]
        pressed = saturation.scale(wrench, state) * (state.jacobian.T @ wrench)
        assert (np.abs(pressed) + np.abs(state.tau_gravity) < limit * (1.0 - 1e-9)).all()


def test_unchecked_wrenches_are_feasible_in_any_configuration():
    """The longest lever of an FR3 with a tool is about 1 m; the weakest joint has 12 Nm."""
    maker, rng = StateMaker(), np.random.default_rng(3)
    for _ in range(50):
        (state,) = maker.random(rng, margin=0.05)
        columns = np.linalg.norm(state.jacobian, axis=0)
        assert (NO_CHECK_BELOW * columns < 0.9 * FR3_LIMITS.torque).all()


def test_fast_joints_are_never_counted_as_slow():
    maker, rng, found = StateMaker(), np.random.default_rng(1), 0
    margin = VelocityLimitScaling(FR3_LIMITS)
    for _ in range(200):
        (state,) = maker.random(rng)
        state.dq[:] = rng.normal(size=7) * rng.choice([0.2, 1.0], 7)
        maximum = (np.abs(state.dq) / FR3_LIMITS.velocity).max()
        used = margin.limit_fraction(state)
        assert used == pytest.approx(maximum) or (used == 0.0 and maximum <= 0.35)
        found += maximum > 0.35
    assert found > 50


def test_spring_scale_falls_from_one_to_zero_at_limit():
    scales = [VelocityLimitScaling.spring(used) for used in (0.0, 0.7, 0.72, 0.86, 1.0, 1.1)]
    assert scales == pytest.approx([1.0, 1.0, 1.0, 0.5, 0.0, 0.0])


@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.0, 5.0])
def test_damper_becomes_critical_within_latency_limit(ratio):
    """Against eigenvalues of inertia and stiffness, independent of the implementation."""
    maker, rng = StateMaker(), np.random.default_rng(2)
    spring = CartesianSpring()
    spring.set_shape(np.full(6, ratio), np.ones(6), False)
    observed = set()
    for _ in range(40):
        stiffness = rng.choice([50.0, 5000.0]) * np.array([1.0, 1.0, 1.0, 0.06, 0.06, 0.06])
        spring.set_stiffness(stiffness)
        (state,) = maker.random(rng, margin=0.3)
        spring.measure(state, state.position_ee_in_base, state.rotation_ee_in_base)
        inverse = state.jacobian @ np.linalg.solve(state.mass_matrix, state.jacobian.T)
        omega = np.sqrt(np.linalg.eigvals(inverse * stiffness).real.max())
        grown = VelocityLimitScaling.damper(1.0, ratio, spring.stiffness_scale)
        rate = np.linalg.eigvals(inverse @ spring.damping).real.max()
        expected = min(2.0 * max(1.0, ratio) * omega, BANDWIDTH)
        assert grown * rate == pytest.approx(expected, rel=1e-3)
        assert VelocityLimitScaling.damper(0.35, ratio, spring.stiffness_scale) == 1.0
        observed.add(spring.stiffness_scale < 1.0)
    assert len(observed) == 2


DIRECTION = np.array([1.0, 0.5, -0.3, 0.2, 0.0, 0.4])


@pytest.mark.parametrize("steepness", [20.0, 40.0])
def test_distant_approach_brakes_at_allowed_torque(steepness):
    """A tool that follows its reference exactly; braking torques by the mass matrix."""
    state = StateMaker().states_at([READY])[0]
    bound = BrakingSpeedLimit(ArmDescription("arm", "fr3"), 0.25)
    bound.set_damping(2.0 * steepness)
    inverse = state.jacobian @ np.linalg.solve(state.mass_matrix, state.jacobian.T)
    torque = np.abs(state.jacobian.T @ np.linalg.solve(inverse, DIRECTION))  # of 1 m/s^2 along it
    maximum = 0.6 * np.minimum(FR3_LIMITS.torque, FR3_LIMITS.torque_rate / (2.0 * steepness))
    hardest = (maximum / torque).min()
    gap, step, speeds = 0.5, 1e-4, []
    while gap > 1e-3:
        twist = steepness * gap * DIRECTION
        speeds.append(bound.scale(state, twist, steepness * twist) * steepness * gap)
        gap -= speeds[-1] * step
    braking = -np.diff(speeds) / step
    assert braking.max() == pytest.approx(hardest, rel=1e-2)
    braking_phase = braking[np.argmax(braking > 0.99 * hardest) :]
    assert np.abs(np.diff(braking_phase)).max() < 0.01 * hardest  # no kink
    assert len(speeds) * step < 0.5 / max(speeds) + max(speeds) / hardest + 7.0 / steepness


def test_negligible_twist_is_never_bounded():
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


def test_spring_scale_falls_to_zero_for_fast_joints():
    dq = np.zeros(7)
    bound = BrakingSpeedLimit(ArmDescription("arm", "fr3"), 0.25)
    bound.set_damping(20.0)
    scales = []
    for part in (0.7, 0.86, 1.0, 1.05):
        dq[3] = part * FR3_LIMITS.velocity[3]
        state = StateMaker().states_at([READY], [dq])[0]
        scales.append(bound.scale(state, 0.01 * DIRECTION, 0.1 * DIRECTION))
    assert scales == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=1e-9)
