# SPDX-License-Identifier: Apache-2.0
"""The brake of arms drawn beyond their reach: its curvature, when it acts, that it only takes."""

from __future__ import annotations

import numpy as np
import pytest
from postures import stretched

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.singularity import SingularityDamping, curvature
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

THRESHOLD = 0.02  # [1/kg], as the documentation says


def test_curvature_is_what_finite_differences_of_the_jacobian_say():
    rng, maker, h = np.random.default_rng(0), StateMaker(), 1e-5
    for _ in range(20):
        q = maker.random(rng)[0].q.copy()
        u, wrench = rng.normal(size=7), rng.normal(size=6)
        ahead, behind = (maker.at([q + s * h * u])[0].jacobian.copy() for s in (1, -1))
        expected = wrench @ (ahead - behind) / (2 * h) @ u
        assert curvature(maker.at([q])[0], u, wrench) == pytest.approx(expected, abs=1e-6)


def test_a_lost_direction_is_braked_critically_against_the_pull_and_no_other():
    rng, maker = np.random.default_rng(1), StateMaker()
    braked = free = 0
    for _ in range(60):
        dq, wrench = 0.5 * rng.normal(size=7), rng.normal(size=6) * 10.0
        state = stretched(maker, rng.uniform(-0.6, -0.2), dq)
        j, minv = state.jacobian, np.linalg.inv(state.mass)
        w, v = np.linalg.eigh(j @ minv @ j.T)
        assert w[1] > THRESHOLD > w[0]
        stiffness = -curvature(state, minv @ j.T @ v[:, 0] / np.sqrt(w[0]), wrench)
        own = rng.uniform(0.0, 30.0) / w[0]
        found = SingularityDamping().damp(state, wrench, lambda v, own=own: own * v @ v)
        if stiffness <= 0.0:
            free += 1
            assert found is None
            continue
        braked += 1
        # critical for a mode that is damped by d and drawn by d^2 / 4, and by the pull
        d = own * w[0]
        rate = (1 - w[0] / THRESHOLD) * (2 * np.sqrt(d**2 / 4 + stiffness) - d)
        speed = v.T @ j @ dq
        expected = np.array([-rate * speed[0], 0, 0, 0, 0, 0])
        assert np.allclose(v.T @ j @ minv @ j.T @ found, expected, atol=1e-8)
        assert found @ j @ dq <= 0.0
    assert braked > 10
    assert free > 10


def test_nothing_is_braked_away_from_singular_postures():
    state = stretched(StateMaker(), -2.0, np.ones(7))
    assert SingularityDamping().damp(state, np.full(6, 50.0), lambda v: 0.0) is None


@pytest.mark.parametrize("in_tool", [False, True])
def test_what_a_damper_takes_along_a_twist_is_its_power_at_that_twist(in_tool):
    rng, maker = np.random.default_rng(2), StateMaker()
    spring = CartesianSpring()
    spring.set_shape(np.ones(6), np.ones(6), in_tool)
    spring.set_stiffness(np.array([900.0, 400.0, 100.0, 30.0, 20.0, 10.0]))
    for _ in range(20):
        state = maker.random(rng, speed=0.5)[0]
        there = state.position_ee_in_base.copy(), state.rotation_ee_in_base.copy()
        spring.measure(state, *there)
        power = -spring.wrench() @ state.twist_ee_in_base
        assert spring.damping_along(state.twist_ee_in_base) == pytest.approx(power, rel=1e-9)
        assert power > 0.0
