# SPDX-License-Identifier: Apache-2.0
"""``governor.smoothing`` set while a controllet is active.

The change was accepted but waited for the next activation, while the bounds already used it.
"""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.reference.governor_base import ReferenceGovernor
from multipanda_py.pose import Pose

pytestmark = [pytest.mark.sim, pytest.mark.inline]
LAWS = {"cartesian_impedance": "pose", "joint_impedance": "joint"}


def made(make_cell, law, **params):
    config = {"type": law, "params": params}
    cell = make_cell(arms={"arm": {}}, controllets={"law": config}, active=["arm/law"])
    cell.step(20)
    return cell


def request(cell, law, distance):
    """Request a goal at a distance from the current pose or configuration."""
    if LAWS[law] == "pose":
        pose = cell.pose("arm")
        cell.set_target("arm", Pose(pose.position + [0.0, distance, 0.0], pose.rotation))
    else:
        cell.set_target("arm", q=cell.state("arm").q + [distance, 0, 0, 0, 0, 0, 0])


def references(cell, law, cycles):
    """Return the reference of each cycle, (cycles, n)."""
    owner, observed = cell.loop.owners.active[0], []
    for _ in range(cycles):
        cell.step()
        observed.append(owner.target.data[LAWS[law]][0][:7].copy())
    return np.array(observed)


def fastest_change(rows):
    """Return the largest change of acceleration [unit/s^2] within 1 ms."""
    return np.abs(np.diff(rows, 3, axis=0)).max() * 1e6


@pytest.mark.parametrize("law", LAWS)
def test_smoothing_set_at_rest_applies_to_next_motion(make_cell, law):
    initial, late = made(make_cell, law, **{"governor.smoothing": 0.3}), made(make_cell, law)
    late.set_parameters("arm/law", {"governor.smoothing": 0.3})
    found = []
    for cell in (initial, late):
        request(cell, law, 0.1)
        found.append(references(cell, law, 1500))
    assert np.abs(found[0] - found[1]).max() < 1e-6
    assert np.ptp(found[0][:, :2], axis=0).max() > 0.09


@pytest.mark.parametrize("law", LAWS)
def test_smoothing_set_in_motion_applies_from_next_rest_without_step(make_cell, law):
    cell = made(make_cell, law)
    request(cell, law, 0.1)
    first = references(cell, law, 100)
    cell.set_parameters("arm/law", {"governor.smoothing": 0.5})
    rows = np.concatenate([first, references(cell, law, 1500)])
    assert fastest_change(rows) < 3.0 * fastest_change(first)  # a change of sign doubles it
    request(cell, law, -0.1)
    again = references(cell, law, 2500)
    assert fastest_change(again) < 0.3 * fastest_change(first)
    assert np.abs(again[-1] - again[-2]).max() == 0.0


@pytest.mark.parametrize("law", LAWS)
def test_pending_change_applied_all_parameters_in_every_cycle(make_cell, monkeypatch, law):
    applied, apply = [], ReferenceGovernor.apply_parameters

    def counted(channel, params, period):
        applied.append(channel)
        apply(channel, params, period)

    cell = made(make_cell, law)
    request(cell, law, 0.1)
    cell.step(100)
    monkeypatch.setattr(ReferenceGovernor, "apply_parameters", counted)
    cell.set_parameters("arm/law", {"governor.smoothing": 0.5})
    cell.step(50)
    assert len(applied) == len(set(applied))  # once each, on arrival
    cell.step(1500)
    moved = {channel for channel in applied if applied.count(channel) == 2}
    assert len(moved) == 1  # the moving channel once more, at its rest
    assert all(channel.smoothing == 0.5 for channel in applied)
