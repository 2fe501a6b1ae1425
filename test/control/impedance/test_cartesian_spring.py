# SPDX-License-Identifier: Apache-2.0
"""Wrench of spring and damper by one product, and the bound of the spring's part."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("in_tool", [False, True])
@pytest.mark.parametrize("stiffness", [400.0, 5000.0])  # the bandwidth reduces the second
def test_wrench_is_spring_plus_damper_within_spring_bound(in_tool, stiffness):
    rng, maker = np.random.default_rng(7), StateMaker(1)
    for _ in range(20):
        (state,) = maker.states_at(
            [READY + rng.uniform(-0.2, 0.2, 7)], [rng.uniform(-0.5, 0.5, 7)]
        )
        spring = CartesianSpring()
        root = rng.normal(size=(6, 6)) * np.sqrt([1.0, 1, 1, 0.05, 0.05, 0.05])
        full = root.T @ root * stiffness
        spring.set_shape(np.full(6, 0.7), np.full(6, 0.1), in_tool)
        spring.set_stiffness(full)
        goal = state.position_ee_in_base + rng.uniform(-0.1, 0.1, 3)
        twist = rng.uniform(-0.1, 0.1, 6)
        spring.measure(state, goal, np.eye(3), twist)
        wrench, scaled = spring.wrench().copy(), spring.wrench(0.3, 2.0).copy()
        pull, damper = spring.write_spring(np.zeros(6)), spring.write_damper(np.zeros(6))
        assert wrench == pytest.approx(pull + damper, rel=1e-12)
        assert scaled == pytest.approx(0.3 * pull + 2.0 * damper, rel=1e-12)
        assert spring.spring_wrench() == pytest.approx(pull, rel=1e-12)
        assert np.linalg.norm(pull) <= spring.wrench_bound * (1 + 1e-12)
        frame = np.kron(np.eye(2), state.rotation_ee_in_base) if in_tool else np.eye(6)
        rate = (twist - state.twist_ee_in_base) @ frame
        assert damper == pytest.approx(frame @ spring.damping @ rate, rel=1e-12)
        if not spring.is_free:
            assert pull == pytest.approx(frame @ spring.stiffness @ spring.error, rel=1e-9)
        assert spring.error_in_base == pytest.approx(frame @ spring.error, rel=1e-12)
