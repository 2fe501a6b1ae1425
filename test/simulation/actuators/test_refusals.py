# SPDX-License-Identifier: Apache-2.0
"""Rejected parameters and inputs of actuators."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Qbmove, Sea

pytestmark = pytest.mark.inline

PAPER = {"k_1": 6.257, "a_1": 0.01038, "k_2": 3.9, "a_2": 0.08918}
"""Springs of a joint as printed in the paper, which exchanges k and a."""


@pytest.mark.parametrize(
    ("name", "n", "params", "reason"),
    [
        ("sea", 1, {"k": 1.0}, "sea: parameter 'k'.*max_defl.*, stiffness"),
        ("sea", 1, {"preset_high": 1.0}, "sea: parameter 'preset_high'"),
        ("sea", 1, {"stiffness": 0.0}, r"sea: stiffness: .*\b0\.0\b"),
        ("sea", 1, {"stiffness": math.nan}, "sea: stiffness:.*nan"),
        ("sea", 1, {"stiffness": "soft"}, "sea: stiffness:.*'soft'"),
        ("sea", 1, {"stiffness": True}, "sea: stiffness:.*True"),
        ("sea", 3, {"stiffness": [1.0, 2.0]}, r"sea: stiffness:.*\b2\b.*\b3\b"),
        ("sea", 3, {"stiffness": []}, r"sea: stiffness:.*\b0\b.*\b3\b"),
        ("sea", 0, {}, r"sea: joints:.*\b0\b.*\b1\b"),
        ("qbmove", 2, {"k_1": [0.1, -0.1]}, "qbmove: k_1:.*-0.1"),
        ("qbmove", 1, {"max_deflection": -1.0}, "max_deflection:.*-1.0"),
        ("qbmove", 1, {"preset_low": 0.7}, "preset_low.*joint 1:.*0.7.*prese"),
        ("qbmove", 1, {"preset_high": 0.9}, r"\b0\b.*0.9 rad.*max_defl.* 0.8"),
        ("awas2", 1, {"preset_high": 40.0}, r"preset_high .*joint 1: .*\b40\b.*\b0\.05 m"),
        ("awas2", 1, {"preset_low": -0.01}, "awas2: preset_low:.*-0.01"),
        ("awas2", 1, {"max_deflection": 0.9}, r"max_deflection: .*\b0\.9\b.*\b0\.78\b"),
    ],
)
def test_invalid_parameters_are_rejected(name, n, params, reason):
    with pytest.raises(ActuatorRejected, match=reason):
        registry.find("actuators", name)(n, params)


@pytest.mark.parametrize(
    ("preset", "reason"),
    [
        (0.2, r"stiffness preset.*joint 1:.*0\.2.*\b0\b.*0\.04 m$"),  # A preset in rad.
        ([0.01, 0.05], r"stiffness preset.*joint 2:.*0\.05.*\b0\b.*0\.04 m$"),
        ([0.01, math.nan], "stiffness preset.*joint 2:.*nan"),
        ([0.01] * 3, r"stiffness preset:.*\b3\b.*\b2\b"),
        ([[0.01, 0.01]], r"stiffness preset:.*\b2\b.*\b2\b"),
        ("soft", "stiffness preset:.*'soft'"),
    ],
)
def test_preset_out_of_range_is_rejected_in_its_unit(preset, reason):
    springs = Awas2(2)
    with pytest.raises(ActuatorRejected, match=f"awas2: {reason}"):
        springs.checked_preset(preset)
    with pytest.raises(ActuatorRejected, match=reason):
        springs.equilibrium_for(np.zeros(2), np.zeros(2), preset)
    assert springs.checked_preset(0.01).tolist() == [0.01, 0.01]


def test_spring_without_preset_accepts_only_zero():
    with pytest.raises(ActuatorRejected, match=r"joint 1:.*0\.2.*\b0\b.*0$"):
        Sea(1).checked_preset(0.2)
    assert Sea(2).checked_preset(0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("q", "torque", "reason"),
    [
        (0.0, 3.0, r"torque.*joint 1:.*3 Nm.*-2\.\d+.*2\.\d+ Nm"),
        (0.0, [0.1, -3.0], r"torque .*joint 2: .*-3 Nm.*-2\.\d+ .*2\.\d+ Nm"),
        (0.0, math.nan, "torque.*joint 1:.*nan"),
        ([0.0, math.inf], 0.0, r"q .*joint 2: .*\binf\b"),
        ([0.0, 0.0, 0.0], 0.0, r"q: .*\b3\b.*\b2\b"),
        (0.0, [1.0], r"torque:.*\b1\b.*\b2\b"),
    ],
)
def test_torque_beyond_springs_is_rejected(q, torque, reason):
    with pytest.raises(ActuatorRejected, match=f"qbmove: {reason}"):
        Qbmove(2).equilibrium_for(q, torque, 0.2)


def test_nearest_equilibrium_saturates_at_spring_limit():
    springs = Qbmove(3)
    q, preset = np.array([0.0, 0.1, -0.2]), np.full(3, 0.2)
    found = springs.nearest_equilibrium(q, np.array([100.0, 0.2, -100.0]), preset)
    assert found[[0, 2]] == pytest.approx(
        [1.0, -1.2], abs=0.41
    )  # The equilibrium saturates at the limit.
    torque = springs.elastic_torque(q, *springs.references(found, preset)).link
    maximum = 2 * 0.0019 * math.sinh(8.9992 * 0.8)
    assert torque == pytest.approx([maximum, 0.2, -maximum])
    again = springs.nearest_equilibrium(q, np.array([100.0, 0.2, -100.0]), preset, start=found)
    assert springs.elastic_torque(q, *springs.references(again, preset)).link == pytest.approx(
        torque
    )


def test_joint_without_stiffness_stayed_at_its_motor():
    """At preset 0 the lever exerts nothing; the bisection ran to a limit of the deflection."""
    assert Awas2(2).equilibrium_for([0.3, -0.2], 0.0, 0.0) == pytest.approx([0.3, -0.2])


def test_printed_parameters_are_rejected_until_exchanged():
    """As printed, the stiffness is 0.413 Nm/rad at any preset, as a and k are exchanged."""
    with pytest.raises(
        ActuatorRejected,
        match=r"stiffness.*joint 1:.*\b0\.4127\b.*\b0\.413\d\b.*\ba_1\b.*\bk_1\b",
    ):
        Qbmove(1, PAPER)
    exchanged = {name.translate(str.maketrans("ak", "ka")): v for name, v in PAPER.items()}
    springs = Qbmove(1, exchanged)
    stiffness = []
    for preset in (0.2, 0.6):
        theta = springs.references(np.zeros(1), np.array([preset]))
        stiffness.append(springs.link_stiffness(np.zeros(1), *theta)[0])
    assert stiffness == pytest.approx([0.58, 3.21], rel=0.01)
    rest = springs.equilibrium_for(0.0, 0.0, 0.6)[
        0
    ]  # The springs differ, so the rest angle is not zero.
    assert abs(rest) > 0.05
