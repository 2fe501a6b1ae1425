# SPDX-License-Identifier: Apache-2.0
"""Refused switches: reasons of all requested arms and of no others."""

from __future__ import annotations

import re

import pytest

from multipanda_py.exceptions import SwitchRejected

pytestmark = [pytest.mark.sim, pytest.mark.inline]
LAWS = {"odd": {"type": "misbehaving"}, "joint": {"type": "joint_impedance"}}
ARMS = {"left": {}, "right": {"position": [0, -1, 0]}, "third": {"position": [0, -2, 0]}}


def refusal(cell, *names):
    with pytest.raises(SwitchRejected) as refused:
        cell.switch(names)
    return str(refused.value)


def test_refusal_by_two_arms_named_only_first(make_cell):
    cell = make_cell(ARMS, controllets=LAWS)
    for arm in ("left", "right"):
        cell.set_parameters(f"{arm}/odd", {"fault": "activate"})
    cell.step(5)
    for_left, for_right = refusal(cell, "left/odd", "right/odd", "third/odd").split("; ")
    assert for_left.startswith("left/odd: RuntimeError: ")
    assert for_right.startswith("right/odd: RuntimeError: ")
    assert cell.active == ("left/hold", "right/hold", "third/hold")


def test_each_faulted_arm_is_named_with_its_fault(make_cell):
    cell = make_cell(ARMS, controllets=LAWS, active=["left/odd", "right/odd"])
    cell.set_parameters("left/odd", {"fault": "raise"})
    cell.set_parameters("right/odd", {"fault": "nan"})
    cell.step(5)
    reported = refusal(cell, "left/joint", "right/joint")
    assert re.search(r"left/joint: [^;]*\(controllet_error\)", reported)
    assert re.search(r"right/joint: [^;]*\(non_finite_torque\)", reported)


def test_switch_result_included_notices_of_other_arms(make_cell):
    cell = make_cell(ARMS, controllets=LAWS, active=["third/odd"])
    cell.set_parameters("third/odd", {"fault": "notify"})
    without_notice = cell.switch(["left/joint"])
    cell.set_parameters("right/odd", {"fault": "notify"})
    with_notice = cell.switch(["right/odd"])
    assert {"third/odd", "right/odd"} <= {event.controllet for event in cell.events()}
    assert without_notice.notices == ()
    assert set(with_notice.notices) == {"this law is at its limit"}
