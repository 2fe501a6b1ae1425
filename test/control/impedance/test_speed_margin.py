# SPDX-License-Identifier: Apache-2.0
"""What fast joints leave of a spring, and what they make of its damper."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.limit_scaling import VelocityLimitScaling
from multipanda_py.control.impedance.modal_damping import BANDWIDTH
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def test_no_fast_joint_is_among_what_counts_as_slow():
    maker, rng, found = StateMaker(), np.random.default_rng(1), 0
    margin = VelocityLimitScaling(FR3_LIMITS)
    for _ in range(200):
        (state,) = maker.random(rng)
        state.dq[:] = rng.normal(size=7) * rng.choice([0.2, 1.0], 7)
        most = (np.abs(state.dq) / FR3_LIMITS.velocity).max()
        used = margin.used(state)
        assert used == pytest.approx(most) or (used == 0.0 and most <= 0.35)
        found += most > 0.35
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
    seen = set()
    for _ in range(40):
        stiffness = rng.choice([50.0, 5000.0]) * np.array([1.0, 1.0, 1.0, 0.06, 0.06, 0.06])
        spring.set_stiffness(stiffness)
        (state,) = maker.random(rng, margin=0.3)
        spring.measure(state, state.position_ee_in_base, state.rotation_ee_in_base)
        inverse = state.jacobian @ np.linalg.solve(state.mass, state.jacobian.T)
        omega = np.sqrt(np.linalg.eigvals(inverse * stiffness).real.max())
        grown = VelocityLimitScaling.damper(1.0, ratio, spring.stiffness_scale)
        rate = np.linalg.eigvals(inverse @ spring.damping).real.max()
        expected = min(2.0 * max(1.0, ratio) * omega, BANDWIDTH)
        assert grown * rate == pytest.approx(expected, rel=1e-3)
        assert VelocityLimitScaling.damper(0.35, ratio, spring.stiffness_scale) == 1.0
        seen.add(spring.stiffness_scale < 1.0)
    assert len(seen) == 2
