# SPDX-License-Identifier: Apache-2.0
"""Sets of features: switches without torque steps, and joint nullspace projection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cell_names import LEFT_CARTESIAN

from multipanda_py.controllets.features.nullspace import Nullspace, NullspaceParams
from multipanda_py.controllets.features.singularity import Manipulability, ManipulabilityParams
from multipanda_py.exceptions import ParameterRejected
from multipanda_py.feature import Feature
from multipanda_py.pose import Pose
from multipanda_py.realtime.feature_set import FADE_TIME, FeatureSet, SharedNullspace
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def features_of(cell, name=LEFT_CARTESIAN):
    """Return the features of an active instance."""
    active = cell.loop.owners.active
    return next(i.features for i in active if i.spec.name == name)


@pytest.mark.sim
def test_feature_torque_fades_out_and_in(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    cell.step(50)
    displaced = cell.state("left").q + [0.0, 0, 0.3, 0, 0, 0, 0]
    cell.set_parameters(LEFT_CARTESIAN, {"nullspace.projector": "none", "governor.enabled": False})
    cell.step()
    cell.set_target("left", q=displaced)
    cell.step(200)
    for expected in (False, True):
        _, before = cell.records()
        cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": expected})
        cell.step(round(FADE_TIME * 1000) + 20)
        _, rows = cell.records(before["cycle"][-1])
        steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max()
        assert steps < 0.1
    assert not features_of(cell).changing


@pytest.mark.sim
def test_disabled_feature_is_not_evaluated(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": False, "coriolis.enabled": False})
    cell.step(150)
    adding = [type(f).__name__ for f in features_of(cell).adding]
    assert not {"Nullspace", "Coriolis"} & set(adding)


@pytest.mark.sim
def test_feature_disabled_in_cell_file_starts_disabled(make_cell):
    law = {"type": "cartesian_impedance", "params": {"nullspace": {"enabled": False}}}
    cell = make_cell(controllets={"law": law}, active=["left/law"])
    assert cell.parameters("left/law")["nullspace.enabled"] is False
    assert "Nullspace" not in [type(f).__name__ for f in features_of(cell, "left/law").adding]


@pytest.mark.sim
def test_switch_during_fade_causes_no_torque_step(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    cell.set_parameters(LEFT_CARTESIAN, {"nullspace.projector": "none", "governor.enabled": False})
    cell.step()
    cell.set_target("left", q=cell.state("left").q + [0.0, 0, 0.3, 0, 0, 0, 0])
    cell.step(200)
    start = cell.records()[1]["cycle"][-1]
    for expected in (False, True, False, True):
        cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": expected})
        cell.step(37)
    _, rows = cell.records(start)
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() < 0.15


@pytest.mark.sim
def test_enabled_parameter_accepts_only_booleans(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    with pytest.raises(ParameterRejected, match="true or false"):
        cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": 0.5})


PERIOD = 1e-3


@pytest.fixture
def rig():
    """Return two arms in random configurations with nullspace and manipulability features."""
    maker = StateMaker(2)
    params = [NullspaceParams(), ManipulabilityParams(threshold=1.0)]
    features = FeatureSet(
        [kind(maker.context, own) for kind, own in zip((Nullspace, Manipulability), params)],
        [True, True],
        PERIOD,
    )
    rng, target = np.random.default_rng(3), CartesianTarget(2)
    states = maker.random(rng, speed=0.5)
    features.activate(states, target)
    for configuration, state in zip(target.nullspace_configuration, states):
        configuration[:] = state.q + rng.uniform(-0.3, 0.3, 7)
    return features, params, states, target


def torques(parts, states, target):
    tau = [np.zeros(7), np.zeros(7)]
    for part in parts:
        part.add(states, target, tau, PERIOD)
    return np.array(tau)


def kinds(parts):
    return [type(part) for part in parts]


def test_joint_projection_equals_separate_ones_and_accelerates_no_tool(rig):
    features, _, states, target = rig
    assert kinds(features.working) == [SharedNullspace]
    together = torques(features.working, states, target)
    separate = torques(features.adding, states, target)
    assert together == pytest.approx(separate, abs=1e-12)
    for feature in features.adding:
        assert np.abs(torques([feature], states, target)).max(axis=1).min() > 0.01
    for state, tau in zip(states, together):
        assert np.abs(state.jacobian @ np.linalg.solve(state.mass_matrix, tau)).max() < 1e-9


def test_inactive_feature_leaves_joint_projection_correct(rig):
    features, params, states, target = rig
    features.set_parameters([params[0], replace(params[1], threshold=1e-6)])
    together = torques(features.working, states, target)
    assert kinds(features.working) == [SharedNullspace]
    assert together == pytest.approx(torques(features.adding[:1], states, target), abs=1e-12)


def test_different_projectors_separate_features_of_inactive_controllet(rig):
    features, params, *_ = rig
    features.deactivate()
    features.set_parameters([params[0], replace(params[1], in_nullspace=False)])
    assert kinds(features.working) == [Nullspace, Manipulability]
    features.set_parameters([replace(params[0], projector="kinematic"), params[1]])
    assert kinds(features.working) == [Nullspace, Manipulability]
    features.set_parameters(params)
    assert kinds(features.working) == [SharedNullspace]


def test_projected_feature_without_torques_before_projection_lost_its_torque(rig, monkeypatch):
    features, params, states, target = rig

    def push(self, states, target, tau, period):
        for torque in tau:
            torque += 1.0

    monkeypatch.setattr(Manipulability, "add", push)
    monkeypatch.setattr(Manipulability, "before_projection", Feature.before_projection)
    features.set_parameters(params)
    assert kinds(features.working) == [Nullspace, Manipulability]
    alone = torques(features.adding[:1], states, target)
    assert torques(features.working, states, target) == pytest.approx(alone + 1.0)


def test_fading_feature_is_projected_alone(rig):
    features, _, states, target = rig
    features.switch([True, False], states, target)
    assert features.working == features.adding


def test_torques_differed_in_last_bits_while_terms_were_recorded(make_cell):
    features = ["friction", "nullspace", "coriolis", "manipulability"]
    params = {"manipulability.threshold": 1.0}
    law = {"type": "cartesian_impedance", "features": features, "params": params}
    runs = []
    for is_traced in (False, True):
        cell = make_cell(controllets={"cart": law}, active=["left/cart", "right/cart"])
        cell.trace_torques(is_traced)
        cell.step(1)
        for arm in ("left", "right"):
            pose = cell.pose(arm)
            cell.set_target(arm, Pose(pose.position + [0.05, 0.02, 0.03], pose.rotation))
        cell.step(400)
        runs.append(cell.records()[1]["arms"])
    plain, traced = runs
    assert (traced["torque_terms_recorded"][1:] > 4).all()
    np.testing.assert_array_equal(plain["tau"], traced["tau"])
    np.testing.assert_array_equal(plain["q"], traced["q"])
    total = traced["torque_terms"].sum(axis=2)
    moving = total[5:], traced["tau_desired"][5:]
    np.testing.assert_allclose(*moving, atol=1e-9)
    assert (np.abs(traced["torque_terms"]).max(axis=(0, 1, 3))[1:5] > 1e-3).all()


def test_jointly_projected_features_are_recorded_individually(rig):
    features, _, states, target = rig
    tau, before = [np.full(7, 3.0), np.full(7, -2.0)], np.full((2, 7), [[3.0], [-2.0]])
    assert features.feature_indices == [0, 1]
    for step, feature in zip(features.steps, features.adding):
        step.add(states, target, tau, PERIOD)
        assert np.array(tau) - before == pytest.approx(
            torques([feature], states, target), abs=1e-12
        )
        before = np.array(tau)
