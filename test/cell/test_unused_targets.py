# SPDX-License-Identifier: Apache-2.0
"""Targets that the active controllet does not use are refused without effect."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import TargetRejected

pytestmark = pytest.mark.inline

RATES, ZERO = np.full(7, 0.1), np.zeros(7)


def one_arm(make_cell, law, **keys):
    return make_cell({"left": {"gripper": False}}, {"law": {"type": law, **keys}}, ["left/law"])


def record_of(cell, channel="joint"):
    """Return the newest record of a channel for the loop."""
    slot = cell.debug.mailbox.targets[cell.spec("left/law").index][channel][0]
    return slot.newest()


def refused(cell, reason, **target):
    before, count = record_of(cell), cell.rejected["left target"]
    with pytest.raises(TargetRejected, match=reason):
        cell.set_target("left", **target)
    assert cell.rejected["left target"] == count + 1
    after = record_of(cell)
    assert (after is None and before is None) or np.array_equal(after, before)


@pytest.mark.parametrize("law", ["joint_rate", "joint_velocity"])
def test_positions_for_velocity_controllet_were_ignored(make_cell, law):
    cell = one_arm(make_cell, law)
    q = cell.state("left").q
    refused(cell, "^left: joint: .*positions.*velocities", q=q)
    refused(cell, "^left: joint: .*positions", q=q, dq=RATES)
    cell.set_target("left", dq=RATES)
    np.testing.assert_array_equal(record_of(cell)[7:], RATES)


@pytest.mark.parametrize("law", ["joint_position", "joint_trajectory"])
def test_velocities_for_planning_controllet_were_ignored(make_cell, law):
    """Velocities alone even caused a motion to the current position."""
    cell = one_arm(make_cell, law)
    q = cell.state("left").q + 0.1
    refused(cell, "^left: joint: .*velocities.*positions", dq=RATES)
    refused(cell, "^left: joint: .*velocities", dq=ZERO)
    refused(cell, "velocities.*positions.*velocities of zero", q=q, dq=RATES)
    cell.set_target("left", q=q, dq=ZERO)  # zeros, as in joint states of an arm at rest
    np.testing.assert_allclose(record_of(cell)[:7], q)


@pytest.mark.parametrize("law", ["cartesian_impedance", "force_impedance", "admittance"])
def test_unused_nullspace_configuration_was_accepted(make_cell, law):
    cell = one_arm(make_cell, law, features=["coriolis"])
    q = cell.state("left").q
    refused(cell, "^left/law: joint: ", q=q)
    full = one_arm(make_cell, law)
    full.set_target("left", q=q)
    full.set_parameters("left/law", {"nullspace.enabled": False})
    refused(full, r"\bnullspace\.enabled\b", q=q)
    full.set_parameters("left/law", {"nullspace.enabled": True})
    full.set_target("left", q=q + 0.1)
    np.testing.assert_allclose(record_of(full)[:7], q + 0.1)


def test_wrench_for_disabled_feature_was_accepted(make_cell):
    cell = one_arm(make_cell, "cartesian_impedance", params={"wrench": {"enabled": False}})
    refused(cell, r"\bwrench: .*\bwrench\.enabled\b", wrench=[5.0, 0, 0, 0, 0, 0])
    cell.set_parameters("left/law", {"wrench.enabled": True})
    cell.set_target("left", wrench=[5.0, 0, 0, 0, 0, 0])
    assert record_of(cell, "wrench")[0] == 5.0


@pytest.mark.parametrize("law", ["operational_space", "cartesian_pose"])
def test_controllet_with_own_nullspace_accepts_configuration_without_feature(make_cell, law):
    cell = one_arm(make_cell, law, features=["coriolis"] if law == "operational_space" else [])
    q = cell.state("left").q + 0.1
    cell.set_target("left", q=q)
    np.testing.assert_allclose(record_of(cell)[:7], q)


def test_target_during_switch_was_written_for_inactive_controllet(make_cell):
    """The loop sets the activity flags one by one; for a moment none is set."""
    cell = one_arm(make_cell, "joint_impedance")
    flags = cell.debug.mailbox.active
    for index in range(len(flags)):
        flags[index] = 0
    refused(cell, "^left/hold ", q=cell.state("left").q)
