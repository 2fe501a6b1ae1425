# SPDX-License-Identifier: Apache-2.0
"""Hold, statics and steps of arms whose figures mostly follow from their limits and inertia."""

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
def test_hold_comes_to_rest_within_a_second_from_any_motion(name, episodes):
    """With delay, lag and inertia that is off; from the limits' speeds and torques at once.

    An iiwa with a torque rate of 1000 Nm/s, a third of a second from its torque limit to zero,
    was thrown to 18 rad/s by the torque of before, and a UR5e took up to 1.2 s.
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
    """An arm with the law's own answer: no governor in front of it, no posture beside it."""
    loose = {"stiffness": [0.0] * MODELS[name].n_joints}
    params = {"governor": {"enabled": False}, "nullspace": loose}
    law = {"type": "cartesian_impedance", "features": ["nullspace"], "params": params}
    cell = make_cell({"arm": {"model": name}}, {"cartesian_impedance": law}, [LAW])
    cell.step(200)
    return cell


@pytest.mark.parametrize("name", ROBOTS)
def test_a_pushed_tool_gives_way_by_force_over_stiffness(make_cell, name):
    cell = soft_cell(make_cell, name)
    before = cell.pose("arm")
    flange = f"arm_{name}_{MODELS[name].flange.name}"
    force = np.array([2.0, -3.0, 2.5])
    cell.simulation.apply_wrench(flange, force)
    cell.step(4000)
    moved = cell.pose("arm").position - before.position
    # As the push has its point at the body, which is the tool, it turns nothing.
    np.testing.assert_allclose(moved, force / 400.0, rtol=0.01, atol=2e-5)
    assert not cell.state("arm").fault


@pytest.mark.parametrize("name", ROBOTS)
def test_a_step_is_that_of_the_designed_linear_system(make_cell, name):
    assert step_difference(soft_cell(make_cell, name), LAW, name, K) < 0.03


def check_all(name, laws):
    for law in laws:
        check_contract(law, model=name)


def test_the_contract_holds_for_joints_that_turn_without_end():
    check_all("kinova_gen3", ["hold", "joint_impedance", "cartesian_impedance"])


@pytest.mark.robustness
@pytest.mark.parametrize("name", ROBOTS)
def test_every_law_keeps_the_contract_on_every_robot(name, episodes):
    """Its velocity loop among it: with figures that follow from limits and inertia."""
    laws = registry.built_in("controllets")
    check_all(name, laws[: episodes(1, len(laws))])


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_every_feature_takes_part_at_once_on_every_robot(make_cell, name):
    """Barriers at limits that are infinite, distances of links that turn about any axis."""
    # Nothing was learned of these robots.
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
