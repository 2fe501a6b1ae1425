# SPDX-License-Identifier: Apache-2.0
"""What the start of laws costs the cycle in which they begin."""

from __future__ import annotations

import sys

import pytest

from multipanda_py.controllets.cartesian_impedance import CartesianImpedance
from multipanda_py.planning.trajectory.joint_motion import JointMotion

pytestmark = pytest.mark.inline

CALLS = 800
"""Of Python and C functions beyond those of a cycle: half as many again took over 0.5 ms."""


def calls_in(run):
    """Count the functions that are called, whatever machine this is."""
    count = 0

    def look(frame, event, function):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("law", ["joint_impedance", "joint_trajectory", "cartesian_impedance"])
def test_a_switch_of_two_arms_took_most_of_its_period(make_cell, law):
    cell = make_cell(controllets={"law": {"type": law}}, active=[])
    cell.step(60)  # enough rows for what is handed over
    usual = calls_in(lambda: cell.step(1))
    switch = cell.request_switch(["left/law", "right/law"])
    assert switch.poll() is None
    started = calls_in(lambda: cell.step(1))
    assert switch.poll() is not None
    assert 200 < started - usual < CALLS


def test_what_is_handed_over_was_met_for_the_first_time_in_the_cycle_of_a_switch(
    make_cell, monkeypatch
):
    met = []
    take_over = CartesianImpedance.on_transfer

    def noted(law, states, target, handovers):
        met.extend(handover.is_significant for handover in handovers)
        return take_over(law, states, target, handovers)

    monkeypatch.setattr(CartesianImpedance, "on_transfer", noted)
    cell = make_cell(controllets={"law": {"type": "cartesian_impedance"}}, active=[])
    cell.step(1)
    assert met == [True, True]  # of two arms, in the warm-up
    assert cell.events() == []


def test_how_a_trajectory_law_comes_to_rest_was_planned_twice(make_cell, monkeypatch):
    cell = make_cell(controllets={"law": {"type": "joint_trajectory"}}, active=[])
    cell.step(60)
    plans, plan = [], JointMotion.stop
    monkeypatch.setattr(JointMotion, "stop", lambda motion: (plans.append(motion), plan(motion)))
    switch = cell.request_switch(["left/law"])
    assert switch.poll() is None
    cell.step(1)
    assert cell.state("left").owner == "left/law"
    assert len(plans) == 1
