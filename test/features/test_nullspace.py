# SPDX-License-Identifier: Apache-2.0
"""The posture feature: projectors by their defining properties, clamp, and a hand that rests."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.features.nullspace import Nullspace, NullspaceParams
from multipanda_py.nullspace_projector import NullspaceProjector
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

CONTEXT = StateMaker(2).context


def manipulability(state):
    return np.sqrt(np.linalg.det(state.jacobian @ state.jacobian.T))


def far_from_singular(state):
    space = state.jacobian @ np.linalg.inv(state.mass) @ state.jacobian.T
    return (
        np.linalg.eigvalsh(space)[0] > 0.022
        and manipulability(state) > NullspaceProjector.SMALL_MANIPULABILITY
    )


def added(params, states, postures):
    feature, target = Nullspace(CONTEXT, params), CartesianTarget(2)
    for mine, posture in zip(target.posture, postures):
        mine[:] = posture
    tau = [np.zeros(7), np.zeros(7)]
    feature.add(states, target, tau, PERIOD)
    return tau


@pytest.mark.parametrize("kind", ["none", "kinematic", "dynamic"])
def test_projected_posture_torque_is_the_textbook_one(kind):
    rng = np.random.default_rng(11)
    maker, checked = StateMaker(2), 0
    while checked < 40:
        states, postures = maker.random(rng, speed=1.0), rng.normal(size=(2, 7))
        params = NullspaceParams(
            stiffness=rng.uniform(0, 100, 7),
            damping_ratio=rng.uniform(0, 2, 7),
            projector=kind,
            max_torque=np.full(7, 8.0),
        )
        for s, posture, tau in zip(states, postures, added(params, states, postures)):
            if not far_from_singular(s):
                continue
            checked += 1
            j, minv = s.jacobian, np.linalg.inv(s.mass)
            k = params.stiffness
            free = k * (posture - s.q) - 2 * params.damping_ratio * np.sqrt(k) * s.dq
            free = np.clip(free, -8.0, 8.0)
            n = {
                "none": np.eye(7),
                "kinematic": np.eye(7) - j.T @ np.linalg.pinv(j).T,
                "dynamic": np.eye(7) - j.T @ np.linalg.inv(j @ minv @ j.T) @ j @ minv,
            }[kind]
            assert np.allclose(tau, n @ free, atol=1e-8)
            if kind == "kinematic":
                assert np.abs(j @ tau).max() < 1e-8
            if kind == "dynamic":
                assert np.abs(j @ minv @ tau).max() < 1e-8
            if kind != "none":
                assert np.allclose(n @ tau, tau, atol=1e-8)


@pytest.mark.parametrize("kind", ["kinematic", "dynamic"])
def test_projection_stays_bounded_and_continuous_through_a_singular_posture(kind):
    """Stretch the elbow: the projected torque never grows, and never jumps."""
    maker = StateMaker()
    project = getattr(NullspaceProjector(), kind)
    before, steps = None, []
    for elbow in np.linspace(-0.3, -0.0, 3001):
        (state,) = maker.at([np.array([0.3, 0.0, 0.2, elbow, 0.1, 0.0, 0.4])])
        tau = project(state, np.linspace(-5.0, 5.0, 7))
        assert np.isfinite(tau).all()
        assert np.abs(tau).max() < 40.0
        if before is not None:
            steps.append(np.abs(tau - before).max())
        before = tau.copy()
    assert max(steps) < 0.1


def test_moved_posture_leaves_the_hand_within_a_tenth_of_a_millimetre(make_cell):
    laws = {"cart": {"type": "cartesian_impedance", "arms": ["left"],
                     "params": {"stiffness": [3000.0] * 3 + [300.0] * 3,
                                "nullspace": {"stiffness": [10.0] * 7}}}}  # fmt: skip
    cell = make_cell(controllets=laws, active=["cart"])
    start = cell.pose("left")
    q = cell.state("left").q
    elbow_before = q[0]
    posture = q + np.array([0.3, 0, -0.3, 0, 0, 0, 0])
    cell.set_target("left", q=posture)
    furthest = 0.0
    for _ in range(150):
        cell.step(20)
        furthest = max(furthest, cell.pose("left").distance(start)[0])
    assert furthest < 1e-4
    assert abs(cell.state("left").q[0] - elbow_before) > 0.1
