# SPDX-License-Identifier: Apache-2.0
"""Hold, statics and steps of robots with parameters derived from limits and inertia."""

from __future__ import annotations

import numpy as np
import pytest
from dense_impedance import step_difference
from stopping import Rigs, Throw

from multipanda_py import registry
from multipanda_py.pose import Pose
from multipanda_py.robots.models import MODELS
from multipanda_py.testing import check_contract

pytestmark = [pytest.mark.sim, pytest.mark.inline]

ROBOTS = ["ur5e", "kinova_gen3", "iiwa14"]
LAW = "arm/cartesian_impedance"
K = np.diag([400.0] * 3 + [20.0] * 3)


@pytest.mark.robustness
@pytest.mark.parametrize("name", ROBOTS)
def test_hold_comes_to_rest_within_one_second_from_any_motion(name, episodes):
    """With delay, lag and wrong inertia, from the maximum speeds and torques together.

    An iiwa with a torque rate of 1000 Nm/s needs a third of a second from its torque limit to
    zero. The previous torque accelerated it to 18 rad/s, and a UR5e took up to 1.2 s.
    """
    limits, rigs, late = MODELS[name].limits, Rigs(), []
    rng = np.random.default_rng(5)
    for episode in range(episodes(4, 1000)):
        throw = Throw.random(rng, payload=False, limits=limits)
        rig = rigs.of(throw.perturbation, name)
        rig.throw(throw)
        rest = rig.run(1.1).rest_time(0.05)
        if rest > 1.0:
            late.append((episode, rest, throw))
    rigs.close()
    assert not late, late


def soft_cell(make_cell, name):
    """Return an arm with the bare controllet: no governor, no nullspace torque."""
    loose = {"stiffness": [0.0] * MODELS[name].n_joints}
    params = {"governor": {"enabled": False}, "nullspace": loose}
    law = {"type": "cartesian_impedance", "features": ["nullspace"], "params": params}
    cell = make_cell({"arm": {"model": name}}, {"cartesian_impedance": law}, [LAW])
    cell.step(200)
    return cell


@pytest.mark.parametrize("name", ROBOTS)
def test_pushed_end_effector_deflects_by_force_over_stiffness(make_cell, name):
    cell = soft_cell(make_cell, name)
    before = cell.pose("arm")
    flange = f"arm_{name}_{MODELS[name].flange.name}"
    force = np.array([2.0, -3.0, 2.5])
    cell.simulation.apply_wrench(flange, force)
    cell.step(4000)
    moved = cell.pose("arm").position - before.position
    # The force acts at the end effector and therefore causes no rotation.
    np.testing.assert_allclose(moved, force / 400.0, rtol=0.01, atol=2e-5)
    assert not cell.state("arm").fault


@pytest.mark.parametrize("name", ROBOTS)
def test_step_matches_designed_linear_system(make_cell, name):
    assert step_difference(soft_cell(make_cell, name), LAW, name, K) < 0.03


def check_all(name, laws):
    for law in laws:
        check_contract(law, model=name)


def test_contract_holds_for_continuous_joints():
    check_all("kinova_gen3", ["hold", "joint_impedance", "cartesian_impedance"])


@pytest.mark.robustness
@pytest.mark.parametrize("name", ROBOTS)
def test_every_controllet_keeps_contract_on_every_robot(name, episodes):
    """Including the velocity loop, with parameters derived from limits and inertia."""
    laws = registry.built_in("controllets")
    check_all(name, laws[: episodes(1, len(laws))])


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_all_features_together_work_on_every_robot(make_cell, name):
    """Barriers at infinite limits, distances of links with any axis of rotation."""
    # No residual was learned for these robots.
    features = sorted({*registry.built_in("features")} - {"target_filter", "residual"})
    law = {"type": "cartesian_impedance", "features": features}
    arms = {"arm": {"model": name}, "other": {"position": [0.0, 1.5, 0.0]}}
    cell = make_cell(arms, {"law": law | {"arms": ["arm"]}}, ["law"])
    start = cell.pose("arm")
    goal = start.position + [0.03, -0.03, 0.02]
    cell.set_target("arm", Pose(goal, start.rotation))
    cell.step(1500)
    assert not cell.state("arm").fault
    np.testing.assert_allclose(cell.pose("arm").position, goal, atol=2e-3)
