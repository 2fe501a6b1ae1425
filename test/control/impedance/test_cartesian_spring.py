# SPDX-License-Identifier: Apache-2.0
"""One product gives the wrench of spring and damper, and a bound of what the spring has in it."""

from __future__ import annotations

import numpy as np
import pytest
from postures import READY

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("in_tool", [False, True])
@pytest.mark.parametrize("stiffness", [400.0, 5000.0])  # of which bandwidth leaves all, or less
def test_the_wrench_is_that_of_spring_and_damper_and_no_spring_exceeds_its_bound(
    in_tool, stiffness
):
    rng, maker = np.random.default_rng(7), StateMaker(1)
    for _ in range(20):
        (state,) = maker.at([READY + rng.uniform(-0.2, 0.2, 7)], [rng.uniform(-0.5, 0.5, 7)])
        spring, parts = CartesianSpring(), CartesianSpring(np.zeros(6))
        root = rng.normal(size=(6, 6)) * np.sqrt([1.0, 1, 1, 0.05, 0.05, 0.05])
        full = root.T @ root * stiffness
        for one in (spring, parts):
            one.set_shape(np.full(6, 0.7), np.full(6, 0.1), in_tool)
            one.set_stiffness(full)
        goal = state.position_ee_in_base + rng.uniform(-0.1, 0.1, 3)
        twist = rng.uniform(-0.1, 0.1, 6)
        wrench = spring.wrench(state, goal, np.eye(3), twist).copy()
        parts.measure(state, goal, np.eye(3), twist)
        both = parts.spring + parts.damper
        assert wrench == pytest.approx(
            parts.rotation_to_base @ both if in_tool else both, rel=1e-12
        )
        assert np.linalg.norm(parts.spring) <= spring.wrench_bound * (1 + 1e-12)
        rate = twist - state.twist_ee_in_base
        if in_tool:
            rate = rate @ parts.rotation_to_base
        assert parts.damper == pytest.approx(parts.damping @ rate, rel=1e-12)
