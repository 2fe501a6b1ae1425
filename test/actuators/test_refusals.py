# SPDX-License-Identifier: Apache-2.0
"""What an actuator is not made with, and what it does not take: refused in words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.actuators.awas2 import Awas2
from multipanda_py.actuators.qbmove import Qbmove
from multipanda_py.actuators.sea import Sea
from multipanda_py.exceptions import ActuatorRefused

pytestmark = pytest.mark.inline

PAPER = {"k_1": 6.257, "a_1": 0.01038, "k_2": 3.9, "a_2": 0.08918}
"""Springs of a joint as they are printed in the paper, where k and a are exchanged."""


@pytest.mark.parametrize(
    ("name", "n", "params", "reason"),
    [
        ("sea", 1, {"k": 1.0}, "sea: parameter 'k' does not exist; known: max_defl.*, stiffness"),
        ("sea", 1, {"preset_high": 1.0}, "sea: parameter 'preset_high' does not exist"),
        ("sea", 1, {"stiffness": 0.0}, "sea: stiffness: got 0.0, allowed a number in"),
        ("sea", 1, {"stiffness": math.nan}, "sea: stiffness: got nan, allowed"),
        ("sea", 1, {"stiffness": "soft"}, "sea: stiffness: got 'soft', allowed"),
        ("sea", 1, {"stiffness": True}, "sea: stiffness: got True, allowed"),
        ("sea", 3, {"stiffness": [1.0, 2.0]}, "sea: stiffness: got 2 numbers, allowed one or 3"),
        ("sea", 3, {"stiffness": []}, "sea: stiffness: got 0 numbers, allowed one or 3"),
        ("sea", 0, {}, "sea: joints: got 0, allowed 1 or more"),
        ("qbmove", 2, {"k_1": [0.1, -0.1]}, "qbmove: k_1: got -0.1, allowed"),
        ("qbmove", 1, {"max_deflection": -1.0}, "max_deflection: got -1.0, allowed"),
        ("qbmove", 1, {"preset_low": 0.7}, "preset_low of joint 1: got 0.7, allowed up to prese"),
        ("qbmove", 1, {"preset_high": 0.9}, "got 0 to 0.9 rad, allowed less than max_defl.* 0.8"),
        ("awas2", 1, {"preset_high": 40.0}, "preset_high of joint 1: got 40, .* the lever 0.05 m"),
        ("awas2", 1, {"preset_low": -0.01}, "awas2: preset_low: got -0.01, allowed"),
        ("awas2", 1, {"max_deflection": 0.9}, "max_deflection: got 0.9, allowed a number in"),
    ],
)
def test_parameters_that_are_none_are_refused(name, n, params, reason):
    with pytest.raises(ActuatorRefused, match=reason):
        registry.find("actuators", name)(n, params)


@pytest.mark.parametrize(
    ("preset", "reason"),
    [
        (0.2, r"stiffness preset of joint 1: got 0\.2, allowed 0 to 0\.04 m$"),  # in rad
        ([0.01, 0.05], r"stiffness preset of joint 2: got 0\.05, allowed 0 to 0\.04 m$"),
        ([0.01, math.nan], "stiffness preset of joint 2: got nan, allowed"),
        ([0.01] * 3, "stiffness preset: got 3 numbers, allowed one or 2"),
        ([[0.01, 0.01]], "stiffness preset: got 2 numbers, allowed one or 2"),
        ("soft", "stiffness preset: got 'soft', allowed numbers"),
    ],
)
def test_presets_out_of_range_are_refused_in_their_unit(preset, reason):
    springs = Awas2(2)
    with pytest.raises(ActuatorRefused, match=f"awas2: {reason}"):
        springs.checked_preset(preset)
    with pytest.raises(ActuatorRefused, match=reason):
        springs.equilibrium_for(np.zeros(2), np.zeros(2), preset)
    assert springs.checked_preset(0.01).tolist() == [0.01, 0.01]


def test_a_spring_without_presets_takes_none():
    with pytest.raises(ActuatorRefused, match=r"joint 1: got 0\.2, allowed 0 to 0$"):
        Sea(1).checked_preset(0.2)
    assert Sea(2).checked_preset(0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("q", "torque", "reason"),
    [
        (0.0, 3.0, r"torque of joint 1: got 3 Nm, allowed .*-2\.\d+ to 2\.\d+ Nm"),
        (0.0, [0.1, -3.0], "torque of joint 2: got -3 Nm, allowed what its springs can exert"),
        (0.0, math.nan, "torque of joint 1: got nan, allowed a finite number"),
        ([0.0, math.inf], 0.0, "q of joint 2: got inf, allowed a finite number"),
        ([0.0, 0.0, 0.0], 0.0, "q: got 3 numbers, allowed one or 2"),
        (0.0, [1.0], "torque: got 1 numbers, allowed one or 2"),
    ],
)
def test_what_springs_cannot_hold_is_refused(q, torque, reason):
    with pytest.raises(ActuatorRefused, match=f"qbmove: {reason}"):
        Qbmove(2).equilibrium_for(q, torque, 0.2)


def test_what_loops_ask_for_ends_at_what_the_springs_can_exert():
    springs = Qbmove(3)
    q, preset = np.array([0.0, 0.1, -0.2]), np.full(3, 0.2)
    found = springs.nearest_equilibrium(q, np.array([100.0, 0.2, -100.0]), preset)
    assert found[[0, 2]] == pytest.approx([1.0, -1.2], abs=0.41)  # somewhere at the limit
    torque = springs.elastic_torque(q, *springs.references(found, preset)).link
    most = 2 * 0.0019 * math.sinh(8.9992 * 0.8)
    assert torque == pytest.approx([most, 0.2, -most])
    again = springs.nearest_equilibrium(q, np.array([100.0, 0.2, -100.0]), preset, start=found)
    assert springs.elastic_torque(q, *springs.references(again, preset)).link == pytest.approx(
        torque
    )


def test_a_joint_without_stiffness_stayed_where_its_motor_was():
    """At preset 0 the lever exerts nothing; halving ran to one end of the deflection."""
    assert Awas2(2).equilibrium_for([0.3, -0.2], 0.0, 0.0) == pytest.approx([0.3, -0.2])


def test_springs_as_they_are_printed_in_the_paper_are_refused_and_exchanged_they_are_not():
    """As printed, the stiffness is 0.413 Nm/rad at any preset: a and k have changed places."""
    with pytest.raises(
        ActuatorRefused,
        match=r"stiffness of joint 1: got 0\.4127 Nm/rad at preset 0 and 0\.41\d+ at 0\.6, "
        r"allowed what changes with the preset; were parameters exchanged\? "
        r"a_1 \[1/rad\], k_1 \[Nm\], ",
    ):
        Qbmove(1, PAPER)
    exchanged = {name.translate(str.maketrans("ak", "ka")): v for name, v in PAPER.items()}
    springs = Qbmove(1, exchanged)
    stiffness = []
    for preset in (0.2, 0.6):
        theta = springs.references(np.zeros(1), np.array([preset]))
        stiffness.append(springs.link_stiffness(np.zeros(1), *theta)[0])
    assert stiffness == pytest.approx([0.58, 3.21], rel=0.01)
    rest = springs.equilibrium_for(0.0, 0.0, 0.6)[0]  # the springs differ: it rests beside it
    assert abs(rest) > 0.05
