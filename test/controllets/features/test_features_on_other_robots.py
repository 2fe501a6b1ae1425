# SPDX-License-Identifier: Apache-2.0
"""Features on other robots, some with six joints or continuous ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from models import OTHERS
from residual_weights import write_residual

from multipanda_py import registry
from multipanda_py.controllets.features.joint_limits import JointLimits
from multipanda_py.controllets.features.nullspace import Nullspace, NullspaceParams
from multipanda_py.controllets.features.residual import Residual
from multipanda_py.controllets.features.singularity import (
    Manipulability,
    ManipulabilityParams,
    Singularity,
    SingularityParams,
)
from multipanda_py.parameters import ParameterSet
from multipanda_py.realtime.events import Event
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = [pytest.mark.parametrize("model", OTHERS), pytest.mark.inline]
SIX = [name for name in OTHERS if StateMaker(1, name).joints == (6,)]


def made(maker, feature, **values):
    """Return a feature with the defaults of its robot; write weights for a residual."""
    if feature is Residual:
        for arm in maker.context.arms:
            write_residual(values["file"], arm.robot)
            object.__setattr__(arm, "residual_file", str(values["file"]))
        values = {}
    parameters = ParameterSet(feature.Params, robots=maker.robots)
    defaults = {spec.name: spec.default for spec in parameters.specs}
    return feature(maker.context, parameters.decode(parameters.encode(defaults | values)))


def added(feature, state, configuration=None):
    """Return the torque that a feature adds for a state, (n,) [Nm]."""
    target, tau = CartesianTarget(1, n_joints=state.n_joints), [np.zeros(state.n_joints)]
    target.nullspace_configuration[0][:] = state.q if configuration is None else configuration
    feature.add([state], target, tau, PERIOD)
    return tau[0]


def slope(maker, q, value, h=1e-6):
    """Return the gradient of a function of a state, by central differences, (n,)."""
    steps = np.eye(len(q)) * h
    ahead = [value(maker.states_at([q + step])[0]) for step in steps]
    behind = [value(maker.states_at([q - step])[0]) for step in steps]
    return (np.array(ahead) - behind) / (2 * h)


def test_manipulability_torque_follows_its_gradient(model):
    rng, maker = np.random.default_rng(2), StateMaker(1, model)
    threshold, gain = 1.0, ManipulabilityParams().gain
    feature = made(maker, Manipulability, threshold=threshold, in_nullspace=False)

    def potential(state):
        m = np.sqrt(max(np.linalg.det(state.jacobian @ state.jacobian.T), 0.0))
        return gain * (m - threshold) ** 2

    checked = 0
    while checked < 5:
        (state,) = maker.random(rng)
        m = np.sqrt(max(np.linalg.det(state.jacobian @ state.jacobian.T), 0.0))
        if not 1e-3 < m < 0.99 * threshold:
            continue
        checked += 1
        q, tau = state.q.copy(), added(feature, state)
        np.testing.assert_allclose(tau, -slope(maker, q, potential), rtol=1e-5, atol=1e-6)


def test_damping_acts_only_along_lost_directions(model):
    rng, maker, params = np.random.default_rng(1), StateMaker(1, model), SingularityParams()
    feature, checked = made(maker, Singularity), 0
    while checked < 5:
        (state,) = maker.random(rng, speed=0.5)
        j, minv = state.jacobian, np.linalg.inv(state.mass_matrix)
        w, v = np.linalg.eigh(j @ minv @ j.T)
        if not 1e-5 < w[0] < 0.9 * params.threshold:
            continue
        checked += 1
        rho = params.rate * np.maximum(1 - w / params.threshold, 0) ** 2
        acceleration = v.T @ j @ minv @ added(feature, state)
        np.testing.assert_allclose(acceleration, -rho * (v.T @ j @ state.dq), rtol=1e-6, atol=1e-8)


def test_joint_barrier_is_gradient_of_its_potential(model):
    """Continuous joints have no barrier."""
    rng, maker = np.random.default_rng(3), StateMaker(1, model)
    feature = made(maker, JointLimits)
    (own,) = maker.states
    width = feature.params.range
    low, high = own.limits.lower + width, own.limits.upper - width
    spans = own.limits.span

    def potential(state):
        depth = np.maximum(np.maximum(state.q - high, low - state.q), 0.0) / width
        return float((feature.params.max_torque * width * depth**3 / 3).sum())

    for _ in range(5):
        edge = np.where(rng.random(len(width)) < 0.5, spans[0], spans[1])
        inside = np.where(edge == spans[0], 1.0, -1.0) * rng.uniform(0.05, 0.2, len(width))
        (state,) = maker.states_at([edge + inside])
        q, tau = state.q.copy(), added(feature, state)
        continuous = np.isinf(own.limits.lower)
        assert not tau[continuous].any()
        # Stiff barriers on light joints continue linearly and never exceed the potential's
        # gradient.
        gradient = slope(maker, q, potential)
        assert (tau * gradient <= 0.0).all()
        assert (np.abs(tau) <= np.abs(gradient) + 1e-6).all()


@pytest.mark.parametrize("projector", ["dynamic", "kinematic"])
def test_nullspace_torque_moves_no_end_effector(model, projector):
    """On six joints the projector is zero, and so is the torque."""
    rng, maker = np.random.default_rng(4), StateMaker(1, model)
    feature, checked = made(maker, Nullspace, projector=projector), 0
    while checked < 10:
        (state,) = maker.random(rng)
        if np.linalg.svd(state.jacobian, compute_uv=False)[-1] < 0.02:
            continue
        checked += 1
        tau = added(feature, state, state.q + rng.normal(size=state.n_joints))
        if state.n_joints == 6:
            assert np.abs(tau).max() < 1e-7
        else:
            assert np.abs(tau).max() > 1e-3
            weight = np.linalg.inv(state.mass_matrix) if projector == "dynamic" else np.eye(7)
            assert np.abs(state.jacobian @ weight @ tau).max() < 1e-7


def test_missing_nullspace_of_six_joints_is_reported_once_per_activation(model, make_cell):
    features = ["nullspace", "manipulability"]
    law = {"type": "cartesian_impedance", "features": features}
    cell = make_cell({"arm": {"model": model}}, {"law": law}, ["arm/law"])
    cell.step(50)
    reported = [e.text for e in cell.events() if e.event is Event.NOTICE and "joints" in e.text]
    if model in SIX:
        first, second = reported
        assert re.search(r"\barm\b.*\b6 joints\b.*\bnullspace\b", first)
        assert re.search(r"\bin_nullspace: false\b", second)
    else:
        assert reported == []


@pytest.mark.parametrize("name", sorted(registry.built_in("features")))
def test_every_feature_adds_finite_torques(model, name, tmp_path):
    found, rng, maker = registry.find("features", name), np.random.default_rng(5), None
    maker = StateMaker(1, model)
    feature = (
        made(maker, found, file=tmp_path / "residual.npz")
        if found is Residual
        else made(maker, found)
    )
    target = registry.find("controllets", "cartesian_impedance").Target(
        1, found.channels, maker.joints
    )
    for _ in range(10):
        states = maker.random(rng, speed=1.0, margin=0.0)
        target.seed(states)
        feature.on_activate(states, target)
        feature.prepare(states, target, PERIOD)
        tau = [np.zeros(maker.joints[0])]
        feature.add(states, target, tau, PERIOD)
        assert np.isfinite(tau[0]).all()


def test_nullspace_defaults_fit_joint_count(model):
    (n,) = StateMaker(1, model).joints
    assert made(StateMaker(1, model), Nullspace).params.stiffness.shape == (n,)
    assert NullspaceParams().stiffness.shape == (7,)
