# SPDX-License-Identifier: Apache-2.0
"""Computing cost of controllet starts in the cycle of a switch."""

from __future__ import annotations

import sys

import pytest

from multipanda_py.controllets.cartesian_impedance import CartesianImpedance
from multipanda_py.planning.trajectory.joint_motion import JointMotion

pytestmark = pytest.mark.inline

CALLS = 800
"""Limit of additional function calls in Python and C; 1.5 times as many took over 0.5 ms."""


def calls_in(run):
    """Count function calls, a cost independent of the machine."""
    count = 0

    def count_call(frame, event, function):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("law", ["joint_impedance", "joint_trajectory", "cartesian_impedance"])
def test_switch_of_two_arms_took_most_of_its_period(make_cell, law):
    cell = make_cell(controllets={"law": {"type": law}}, active=[])
    cell.step(60)  # enough rows for the transfer
    usual = calls_in(lambda: cell.step(1))
    switch = cell.request_switch(["left/law", "right/law"])
    assert switch.poll() is None
    started = calls_in(lambda: cell.step(1))
    assert switch.poll() is not None
    assert 200 < started - usual < CALLS


def test_first_transfer_ran_in_cycle_of_switch(make_cell, monkeypatch):
    significance = []
    take_over = CartesianImpedance.on_transfer

    def transfer_and_log(law, states, target, handovers):
        significance.extend(handover.is_significant for handover in handovers)
        return take_over(law, states, target, handovers)

    monkeypatch.setattr(CartesianImpedance, "on_transfer", transfer_and_log)
    cell = make_cell(controllets={"law": {"type": "cartesian_impedance"}}, active=[])
    cell.step(1)
    assert significance == [True, True]  # the warm-up includes a transfer for both arms
    assert cell.events() == []


def test_stop_of_trajectory_controllet_was_planned_twice(make_cell, monkeypatch):
    cell = make_cell(controllets={"law": {"type": "joint_trajectory"}}, active=[])
    cell.step(60)
    plans, plan = [], JointMotion.stop
    monkeypatch.setattr(JointMotion, "stop", lambda motion: (plans.append(motion), plan(motion)))
    switch = cell.request_switch(["left/law"])
    assert switch.poll() is None
    cell.step(1)
    assert cell.state("left").owner == "left/law"
    assert len(plans) == 1
