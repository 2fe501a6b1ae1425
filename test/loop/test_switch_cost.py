# SPDX-License-Identifier: Apache-2.0
"""What the start of laws costs the cycle in which they begin."""

from __future__ import annotations

import sys

import pytest

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
    switch = cell.ask_switch(["left/law", "right/law"])
    assert switch.look() is None
    started = calls_in(lambda: cell.step(1))
    assert switch.look() is not None
    assert 200 < started - usual < CALLS
