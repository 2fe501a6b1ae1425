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


def test_no_fast_joint_is_among_what_counts_as_slow():
    maker, rng, found = StateMaker(), np.random.default_rng(1), 0
    margin = VelocityLimitScaling(FR3_LIMITS)
    for _ in range(200):
        (state,) = maker.random(rng)
        state.dq[:] = rng.normal(size=7) * rng.choice([0.2, 1.0], 7)
        maximum = (np.abs(state.dq) / FR3_LIMITS.velocity).max()
        used = margin.used(state)
        assert used == pytest.approx(maximum) or (used == 0.0 and maximum <= 0.35)
        found += maximum > 0.35
    assert found > 50


def test_a_spring_is_whole_up_to_what_a_reference_may_ask_for_and_gone_at_the_limit():
    shares = [VelocityLimitScaling.spring(used) for used in (0.0, 0.7, 0.72, 0.86, 1.0, 1.1)]
    assert shares == pytest.approx([1.0, 1.0, 1.0, 0.5, 0.0, 0.0])


@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.0, 5.0])
def test_a_damper_becomes_critical_and_brakes_no_faster_than_latency_stands(ratio):
    """Against the eigenvalues of inertia and stiffness, found without the law."""
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


WAY = np.array([1.0, 0.5, -0.3, 0.2, 0.0, 0.4])


@pytest.mark.parametrize("steepness", [20.0, 40.0])
def test_an_approach_from_afar_is_braked_by_what_was_allowed_and_no_later(steepness):
    """A tool that moves as it is told, integrated: its braking torques, by the mass matrix."""
    state = StateMaker().states_at([READY])[0]
    bound = BrakingSpeedLimit(ArmDescription("arm", "fr3"), 0.25)
    bound.set_damping(2.0 * steepness)
    inverse = state.jacobian @ np.linalg.solve(state.mass_matrix, state.jacobian.T)
    torque = np.abs(state.jacobian.T @ np.linalg.solve(inverse, WAY))  # of 1 m/s^2 along it
    maximum = 0.6 * np.minimum(FR3_LIMITS.torque, FR3_LIMITS.torque_rate / (2.0 * steepness))
    hardest = (maximum / torque).min()
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
        state = StateMaker().states_at([READY], [dq])[0]
        shares.append(bound.scale(state, 0.01 * WAY, 0.1 * WAY))
    assert shares == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=1e-9)
