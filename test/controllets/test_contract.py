# SPDX-License-Identifier: Apache-2.0
"""The contract, for every registered controllet."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import every_nth
from models import over_others
from near_configurations import arrived, near_configurations

from multipanda_py import registry, testing
from multipanda_py.control.delay_margin import RADIUS_TOLERANCE, linearise
from multipanda_py.testing import ContractViolation, StateMaker, check_bandwidth, check_contract

pytestmark = pytest.mark.inline

BUILT_IN = [
    name for name in registry.names("controllets")
    if name != "misbehaving" and not name.startswith("unsteady")
]  # fmt: skip
TORQUE_LAWS = [
    name for name in BUILT_IN if registry.find("controllets", name).command_interface == "effort"
]


@pytest.mark.parametrize("name", BUILT_IN)
def test_contract_with_minimum_number_of_arms(name):
    check_contract(name)


@pytest.mark.parametrize("name", every_nth(3, BUILT_IN))
def test_contract_with_two_and_three_arms(name, episodes):
    """The short form checks latency with the minimum number of arms only."""
    law = registry.find("controllets", name)
    for n in (2, 3):
        if law.min_arms <= n <= (law.max_arms or n):
            check_contract(name, n_arms=n, seed=n, configurations=episodes(0, 2))


@pytest.mark.parametrize(("name", "model"), every_nth(3, over_others(BUILT_IN)))
def test_contract_with_other_arms_beside_fr3(name, model, episodes):
    """A controllet of one arm gets the other model."""
    law = registry.find("controllets", name)
    n = min(2, law.max_arms or 2)
    check_contract(
        name, n_arms=n, seed=4, model=("fr3", model)[-n:], configurations=episodes(1, 2)
    )


def test_contract_check_detects_violation(monkeypatch):
    law = registry.find("controllets", "joint_impedance")
    original = law.on_activate

    def seed_away(self, states, target):
        original(self, states, target)
        target.q[0][0] += 0.01

    monkeypatch.setattr(law, "on_activate", seed_away)
    with pytest.raises(ContractViolation, match="activation at rest"):
        check_contract("joint_impedance")


@pytest.mark.robustness
@pytest.mark.parametrize("name", TORQUE_LAWS)
def test_no_gains_within_bounds_damp_too_fast_in_any_configuration(name, episodes):
    check_bandwidth(name, configurations=episodes(1, 100), seed=7)


def test_controllet_that_damps_too_fast_breaks_contract(monkeypatch):
    monkeypatch.setattr(testing, "MAX_BANDWIDTH", 50.0)
    with pytest.raises(ContractViolation, match=r"\b\d+ 1/s .*\bq = "):
        check_bandwidth("joint_impedance")


def check_beside_dampers(name, values, features, configuration_count):
    """Check bandwidth and latency of a controllet with features, for arms close to obstacles."""
    law = registry.find("controllets", name)
    maker = StateMaker(min(2, law.max_arms or 2))
    probe = arrived(law, maker, values, features)
    for q in near_configurations(len(maker.states), configuration_count, 1):
        found = linearise(probe, q)
        assert found.bandwidth < testing.MAX_BANDWIDTH, q.tolist()
        for scale in (0.8, 1.2):
            assert found.oscillation_radius(5, 0.002, scale) < 1.0 + RADIUS_TOLERANCE, (
                q.tolist(),
                scale,
            )


DAMPERS = {"collision_avoidance": {"fixed_objects": "all"}, "joint_limits": {}, "singularity": {}}
STIFFEST = {
    "collision_avoidance": {
        "fixed_objects": "all", "max_force": 2000.0, "deceleration": 50.0, "bandwidth": 30.0,
    },
    "joint_limits": {"max_torque": [87.0] * 4 + [12.0] * 3, "range": np.full(7, 0.1)},
}  # fmt: skip


AVOIDING = [
    name
    for name in BUILT_IN
    if "collision_avoidance" in registry.find("controllets", name).default_features
]


@pytest.mark.robustness
@pytest.mark.parametrize("name", AVOIDING)
def test_avoidance_and_barriers_beside_stiff_controllet_damped_too_fast(name, episodes):
    """Together with the controllet's own 120 1/s they damped at up to 192 1/s."""
    law = registry.find("controllets", name)
    _, values = testing.corners(law)[-1]
    others = {own: {} for own in law.default_features} | DAMPERS
    check_beside_dampers(name, values, others, episodes(2, 100))


@pytest.mark.robustness
@pytest.mark.parametrize("ratio", [0.3, 5.0])
@pytest.mark.parametrize("name", ["gravity_compensation", "cartesian_impedance"])
def test_stiffest_avoidance_and_barriers_oscillated_on_late_arm(name, ratio, episodes):
    """They damped at up to 2500 1/s; 2000 N over 3 cm are 1.3e5 N/m on a light wrist."""
    law = registry.find("controllets", name)
    stiffest = {own: {"damping_ratio": ratio} | values for own, values in STIFFEST.items()}
    others = {own: {} for own in law.default_features} | stiffest
    check_beside_dampers(name, testing.corners(law)[0][1], others, episodes(2, 100))


@pytest.mark.robustness
@pytest.mark.parametrize(
    ("name", "bound"),
    [("gravity_compensation", "max_joint_speed"), ("teleoperation", "leader_speed")],
)
def test_brake_of_fast_joints_tolerates_latency(name, bound, episodes):
    """All joints at once, with the highest gains and arms close to obstacles."""
    law = registry.find("controllets", name)
    _, values = testing.corners(law)[-1]
    others = {own: {} for own in law.default_features} | DAMPERS
    check_beside_dampers(name, values | {bound: 0.0}, others, episodes(2, 100))
