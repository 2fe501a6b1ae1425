# SPDX-License-Identifier: Apache-2.0
"""The contract, over every registered controllet."""

from __future__ import annotations

import pytest

from multipanda_py import registry, testing
from multipanda_py.testing import ContractBroken, check_bandwidth, check_contract

BUILT_IN = [name for name in registry.names("controllets") if name != "misbehaving"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_contract_with_the_fewest_arms(name):
    check_contract(name)


@pytest.mark.parametrize("name", BUILT_IN)
def test_contract_with_two_and_three_arms(name):
    law = registry.find("controllets", name)
    for n in (2, 3):
        if law.min_arms <= n <= (law.max_arms or n):
            check_contract(name, n_arms=n, seed=n)


def test_the_contract_test_can_fail(monkeypatch):
    law = registry.find("controllets", "joint_impedance")
    original = law.on_activate

    def seed_elsewhere(self, states, target):
        original(self, states, target)
        target.q[0][0] += 0.01

    monkeypatch.setattr(law, "on_activate", seed_elsewhere)
    with pytest.raises(ContractBroken, match="activation at rest"):
        check_contract("joint_impedance")


@pytest.mark.robustness
@pytest.mark.parametrize("name", BUILT_IN)
def test_no_gains_within_bounds_brake_too_fast_in_any_posture(name, episodes):
    check_bandwidth(name, postures=episodes(1, 100), seed=7)


def test_a_law_that_brakes_too_fast_breaks_the_contract(monkeypatch):
    monkeypatch.setattr(testing, "MOST_BANDWIDTH", 50.0)
    with pytest.raises(ContractBroken, match=r"with the defaults it brakes at \d+ 1/s at q = "):
        check_bandwidth("joint_impedance")
