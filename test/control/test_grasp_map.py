# SPDX-License-Identifier: Apache-2.0
"""Distribution of an object's wrench, against statics and rigid-body motion."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.grasp_map import GraspMap

pytestmark = pytest.mark.inline


def spd(rng):
    """Return the inertia of a gripper: kilograms, and hundredths of kg m^2."""
    a = rng.normal(size=(6, 6)) * np.sqrt([3.0, 3, 3, 0.02, 0.02, 0.02])[:, None]
    return a @ a.T + np.diag([2.0, 2, 2, 0.02, 0.02, 0.02])


def resultant(levers, wrenches):
    """Return force and moment at the origin of wrenches at the levers."""
    force = sum(w[:3] for w in wrenches)
    return np.concatenate(
        [force, sum(w[3:] + np.cross(r, w[:3]) for r, w in zip(levers, wrenches))]
    )


def made(rng, n, collinear=False):
    levers = rng.normal(size=(n, 3)) * 0.3
    if collinear:
        levers = np.outer(rng.uniform(0.1, 0.4, n) * (-1) ** np.arange(n), [1.0, 2, 0.5])
    levers -= levers.mean(axis=0)
    sharing = GraspMap(n)
    sharing.refresh(levers, [spd(rng) for _ in range(n)])
    return sharing, levers


@pytest.mark.parametrize("collinear", [False, True])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_distribution_has_exact_resultant_without_internal_force(n, collinear):
    rng = np.random.default_rng(n)
    for _ in range(20):
        sharing, levers = made(rng, n, collinear or n == 2)
        wrench = rng.normal(size=6) * [50, 50, 50, 10, 10, 10]
        sharing.wrench[:] = wrench
        shared = [w.copy() for w in sharing.distribute()]
        assert np.abs(resultant(levers, shared) - wrench).max() < 1e-9
        assert abs(sum(w[:3] @ i for w, i in zip(shared, sharing.inward))) < 1e-9
        # Formation and internal force keep the resultant.
        sharing.springs[:], sharing.dampers[:] = rng.normal(size=(2, 6 * n)) * 30.0
        sharing.internal_force[0] = 25.0
        shared = [w.copy() for w in sharing.distribute()]
        assert np.abs(resultant(levers, shared) - wrench).max() < 1e-8


def test_light_wrists_get_small_part_of_moment():
    """Equal pure torques would accelerate wrists of 0.02 kg m^2 strongly."""
    levers = np.array([[0.0, 0.3, 0.0], [0.0, -0.3, 0.0]])
    sharing = GraspMap(2)
    sharing.refresh(levers, [np.diag([3.0, 3, 3, 0.02, 0.02, 0.02])] * 2)
    sharing.wrench[3] = 10.0  # across the line between the grippers
    left, right = sharing.distribute()
    inertia = 2 * (0.02 + 3.0 * 0.3**2)
    assert left[3] == pytest.approx(10.0 * 0.02 / inertia)
    assert left[2] == pytest.approx(10.0 * 3.0 * 0.3 / inertia)
    assert right[2] == pytest.approx(-left[2])
    sharing.wrench[:] = [0, 0, 0, 0, 10.0, 0]  # along this line there is no lever
    left, right = sharing.distribute()
    assert left[4] == pytest.approx(5.0)
    assert np.abs(left[:3]).max() < 1e-12


def test_rigid_motion_leaves_no_grasp_error():
    rng = np.random.default_rng(1)
    for n in (2, 3):
        sharing, levers = made(rng, n)
        v, w = rng.normal(size=(2, 3))
        twists = np.array([[*(v + np.cross(w, r)), *w] for r in levers])
        sharing.grasp_errors[0], sharing.grasp_errors[1] = (
            0.01 * twists.reshape(-1),
            -twists.reshape(-1),
        )
        sharing.measure()
        assert np.allclose(sharing.rate, -np.array([*v, *w]), atol=1e-12)
        assert np.allclose(sharing.shift, 0.01 * np.array([*v, *w]), atol=1e-12)
        assert np.abs(sharing.rates).max() < 1e-12
        assert np.abs(sharing.errors).max() < 1e-12
