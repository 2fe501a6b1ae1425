# SPDX-License-Identifier: Apache-2.0
"""The damping design against its defining properties."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.modal_damping import ModalDamping
from multipanda_py.testing import StateMaker


def root(matrix):
    w, v = np.linalg.eigh(matrix)
    return v @ np.diag(np.sqrt(np.maximum(w, 0))) @ v.T


def inertia_inv(rng, n):
    maker = StateMaker()
    found = []
    while len(found) < n:
        (state,) = maker.random(rng)
        inverse = state.jacobian @ np.linalg.inv(state.mass) @ state.jacobian.T
        if np.linalg.eigvalsh(inverse)[0] > 0.01:
            found.append(inverse)
    return found


@pytest.mark.parametrize("ratio", [0.3, 0.7, 2.0])
def test_every_mode_has_the_ratio(ratio):
    rng = np.random.default_rng(3)
    for inverse in inertia_inv(rng, 20):
        a = rng.normal(size=(6, 6))
        stiffness = 40 * (a @ a.T) + np.diag([400.0, 400, 400, 20, 20, 20])
        d = ModalDamping().of(root(stiffness), inverse, ratio)
        # x'' = -Lambda^-1 (K x + D x'): the poles of every mode w are -ratio w +- w sqrt(..).
        poles = np.linalg.eigvals(
            np.block([[np.zeros((6, 6)), np.eye(6)], [-inverse @ stiffness, -inverse @ d]])
        )
        w = np.sqrt(np.linalg.eigvals(inverse @ stiffness).real.astype(complex))
        expected = np.concatenate([w * (-ratio + s * np.sqrt(ratio**2 - 1 + 0j)) for s in (1, -1)])
        for pole in expected:
            assert np.abs(poles - pole).min() < 1e-6 * abs(pole)


def test_a_direction_without_a_spring_is_neither_braked_nor_driven():
    rng = np.random.default_rng(4)
    for inverse in inertia_inv(rng, 20):
        half = np.diag(np.sqrt([400.0, 400, 0, 20, 0, 20]))
        d = ModalDamping().of(half, inverse, 1.0)
        assert np.abs(d[[2, 4]]).max() == 0.0
        assert np.linalg.eigvalsh(d)[0] > -1e-9
        held = [0, 1, 3, 5]
        # In the held directions: critical on the inertia that they have with the others free.
        inertia = np.linalg.inv(inverse[np.ix_(held, held)])
        reduced = ModalDamping().of(
            half, np.linalg.inv(np.diag([0.0, 0, 1, 0, 1, 0]) + embed(inertia, held)), 1.0
        )
        assert np.allclose(d, reduced, rtol=1e-8, atol=1e-8)
        # The sum of products that is often used instead drives some motion.
        sum_of_products = root(np.linalg.inv(inverse)) @ half
        assert np.linalg.eigvalsh(sum_of_products + sum_of_products.T)[0] < -1e-3


def embed(small, where):
    full = np.zeros((6, 6))
    full[np.ix_(where, where)] = small
    return full


def test_finite_where_the_tool_cannot_move():
    (state,) = StateMaker().at([np.array([0.0, 0, 0, 0, 0, np.pi / 2, 0])])
    inverse = state.jacobian @ np.linalg.inv(state.mass) @ state.jacobian.T
    assert np.linalg.eigvalsh(inverse)[0] < 1e-9
    half = np.diag(np.sqrt([800.0] * 3 + [40.0] * 3))
    d = ModalDamping().of(half, inverse, 1.0)
    torque_per_rate = state.jacobian.T @ d @ state.jacobian
    rates = np.linalg.eigvals(np.linalg.inv(state.mass) @ torque_per_rate).real
    assert rates.max() < 2 * np.sqrt(np.linalg.eigvals(inverse @ half @ half).real.max()) * 1.001
