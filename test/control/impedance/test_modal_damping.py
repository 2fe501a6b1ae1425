# SPDX-License-Identifier: Apache-2.0
"""Defining properties of the modal damping design."""

from __future__ import annotations

import numpy as np
import pytest
from dense_impedance import root

from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def designed(half, inverse, ratio=1.0, bandwidth=np.inf):
    """Return the design and its damping, without a bandwidth limit by default."""
    modal = ModalDamping(len(half), bandwidth)
    modal.set_root(half, ratio)
    modal.design(inverse)
    return modal, modal.damping.copy()


def inertia_inv(rng, n):
    maker = StateMaker()
    found = []
    while len(found) < n:
        (state,) = maker.random(rng)
        inverse = state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T
        if np.linalg.eigvalsh(inverse)[0] > 0.01:
            found.append(inverse)
    return found


@pytest.mark.parametrize("ratio", [0.3, 0.7, 2.0])
def test_every_mode_has_requested_ratio(ratio):
    rng = np.random.default_rng(3)
    for inverse in inertia_inv(rng, 20):
        a = rng.normal(size=(6, 6))
        stiffness = 40 * (a @ a.T) + np.diag([400.0, 400, 400, 20, 20, 20])
        _, d = designed(root(stiffness), inverse, ratio)
        # x'' = -Lambda^-1 (K x + D x'): the poles of every mode w are -ratio w +- w sqrt(..).
        poles = np.linalg.eigvals(
            np.block([[np.zeros((6, 6)), np.eye(6)], [-inverse @ stiffness, -inverse @ d]])
        )
        w = np.sqrt(np.linalg.eigvals(inverse @ stiffness).real.astype(complex))
        expected = np.concatenate([w * (-ratio + s * np.sqrt(ratio**2 - 1 + 0j)) for s in (1, -1)])
        for pole in expected:
            assert np.abs(poles - pole).min() < 1e-6 * abs(pole)


def test_direction_without_spring_has_no_damping():
    rng = np.random.default_rng(4)
    for inverse in inertia_inv(rng, 20):
        half = np.diag(np.sqrt([400.0, 400, 0, 20, 0, 20]))
        _, d = designed(half, inverse)
        assert np.abs(d[[2, 4]]).max() == 0.0
        assert np.linalg.eigvalsh(d)[0] > -1e-9
        sprung = [0, 1, 3, 5]
        # Along sprung directions: critical for their inertia with the other directions free.
        inertia = np.linalg.inv(inverse[np.ix_(sprung, sprung)])
        _, reduced = designed(
            half, np.linalg.inv(np.diag([0.0, 0, 1, 0, 1, 0]) + embed(inertia, sprung))
        )
        assert np.allclose(d, reduced, rtol=1e-8, atol=1e-8)
        # The common sum of products does positive work on some motion.
        sum_of_products = root(np.linalg.inv(inverse)) @ half
        assert np.linalg.eigvalsh(sum_of_products + sum_of_products.T)[0] < -1e-3


def embed(small, where):
    full = np.zeros((6, 6))
    full[np.ix_(where, where)] = small
    return full


def test_damping_is_finite_at_singularity():
    (state,) = StateMaker().states_at([np.array([0.0, 0, 0, 0, 0, np.pi / 2, 0])])
    inverse = state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T
    assert np.linalg.eigvalsh(inverse)[0] < 1e-9
    half = np.diag(np.sqrt([800.0] * 3 + [40.0] * 3))
    _, d = designed(half, inverse)
    torque_per_rate = state.jacobian.T @ d @ state.jacobian
    rates = np.linalg.eigvals(np.linalg.inv(state.mass_matrix) @ torque_per_rate).real
    assert rates.max() < 2 * np.sqrt(np.linalg.eigvals(inverse @ half @ half).real.max()) * 1.001


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0, "each its own"])
def test_modes_stay_within_bandwidth(ratio, coupled):
    """Stiff gains in light directions oscillate on a real arm because of delay and lag."""
    rng = np.random.default_rng(5)
    cut = 0
    for inverse in inertia_inv(rng, 40):
        stiffness = np.diag([5000.0] * 3 + [300.0] * 3)
        if coupled:
            a = np.linalg.qr(rng.normal(size=(6, 6)))[0]
            stiffness = a @ stiffness @ a.T
        half, z = root(stiffness), ratio if ratio != "each its own" else rng.uniform(0.3, 3, 6)
        modal, d = designed(half, inverse, z, bandwidth=100.0)
        assert np.linalg.eigvals(inverse @ d).real.max() < 100.0 * (1 + 1e-9)
        assert np.linalg.eigvalsh(d)[0] > -1e-6
        # Squared frequencies of the remaining spring: as requested, or at the bound.
        requested = np.sort(np.linalg.eigvals(inverse @ stiffness).real)
        left = stiffness if modal.stiffness_scale == 1.0 else modal.stiffness
        found = np.sort(np.linalg.eigvals(inverse @ left).real)
        np.testing.assert_allclose(found, np.minimum(requested, 2500.0), rtol=1e-6)
        assert modal.stiffness_scale == pytest.approx(min(1.0, 2500.0 / requested[-1]), rel=1e-9)
        assert np.linalg.eigvalsh(stiffness - left)[0] > -1e-6  # never stiffer in any direction
        cut += modal.stiffness_scale < 1.0
        if np.ndim(z) == 0:  # at least the requested damping, or critical
            for k, w in zip(requested, np.sort(np.linalg.eigvals(inverse @ d).real)):
                smallest = min(z, 1.0) * 2 * np.sqrt(min(k, 2500.0))
                assert w > smallest * (1 - 1e-6)
    assert cut > 10


def test_gains_within_bandwidth_are_unchanged_and_bound_is_continuous():
    inverse = inertia_inv(np.random.default_rng(6), 1)[0]
    half = np.diag(np.sqrt([4000.0] * 3 + [200.0] * 3))
    fastest = 2 * np.sqrt(np.linalg.eigvalsh(half @ inverse @ half)[-1])
    _, free = designed(half, inverse)
    above, d_above = designed(half, inverse, bandwidth=fastest * (1 + 1e-7))
    below, d_below = designed(half, inverse, bandwidth=fastest * (1 - 1e-7))
    assert above.stiffness_scale == 1.0
    assert 1.0 - 1e-6 < below.stiffness_scale < 1.0
    np.testing.assert_allclose(d_above, free, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(d_below, free, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(below.stiffness, half @ half, rtol=1e-4, atol=1e-3)
