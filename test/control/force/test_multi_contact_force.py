# SPDX-License-Identifier: Apache-2.0
"""Which forces of several hands are controlled, against statics written down by hand."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.force.multi_contact_force import controlled_modes

pytestmark = pytest.mark.inline


def six(*forces):
    return np.array([[*force, 0.0, 0.0, 0.0] for force in forces])


def net(wrenches, positions, mix):
    """Force and moment about the middle of what hands exert with a mix of sizes."""
    sizes = np.linalg.norm(wrenches, axis=1)
    levers = positions - positions.mean(axis=0)
    total = np.zeros(6)
    for wrench, size, lever, amount in zip(wrenches, sizes, levers, mix):
        total[:3] += amount * wrench[:3] / size
        total[3:] += amount * np.cross(lever, wrench[:3]) / size
    return total


def test_one_hand_is_controlled_by_itself():
    assert controlled_modes(six([0, 0, -15.0]), np.zeros((1, 3))) == pytest.approx(np.eye(1))


def test_two_hands_on_a_table_are_controlled_each_by_itself():
    places = np.array([[0.4, 0.2, 0.3], [0.4, -0.3, 0.3]])
    found = controlled_modes(six([0, 0, -15.0], [0, 0, -15.0]), places)
    assert found == pytest.approx(np.eye(2))


@pytest.mark.parametrize("aside", [0.0, 0.02])
@pytest.mark.parametrize("sizes", [(20.0, 20.0), (20.0, 21.0)])
def test_a_squeeze_is_controlled_by_the_mean_and_the_plan_keeps_the_middle(aside, sizes):
    """Also where hands are not quite opposite, or are asked for forces that differ by little."""
    places = np.array([[0.5, 0.15, 0.4], [0.5 + aside, -0.15, 0.4]])
    found = controlled_modes(six([0, -sizes[0], 0], [0, sizes[1], 0]), places)
    assert found == pytest.approx(np.full((2, 2), 0.5))


def test_two_pairs_squeeze_apart_from_one_another():
    """What turns or pushes the thing is none of the controlled mixes; each pair has its own."""
    places = np.array([[0.3, 0.15, 0], [0.3, -0.15, 0], [0.7, 0.15, 0], [0.7, -0.15, 0]])
    wrenches = six([0, -20.0, 0], [0, 20.0, 0], [0, -35.0, 0], [0, 35.0, 0])
    found = controlled_modes(wrenches, places)
    for mix in found:
        assert net(wrenches, places, mix) == pytest.approx(np.zeros(6), abs=1e-12)
    assert np.trace(found) == pytest.approx(2.0)
    sizes = np.linalg.norm(wrenches, axis=1)
    assert found @ sizes == pytest.approx(sizes)


def test_hands_that_are_asked_for_nothing_have_no_part():
    places = np.array([[0.5, 0.15, 0.4], [0.5, 0, 0.9], [0.5, -0.15, 0.4]])
    found = controlled_modes(six([0, -20.0, 0], [0, 0, 0], [0, 20.0, 0]), places)
    assert found == pytest.approx(np.array([[0.5, 0, 0.5], [0, 0, 0], [0.5, 0, 0.5]]))
    assert not controlled_modes(np.zeros((3, 6)), places).any()


def test_any_is_a_projector():
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 4, 8, 9):
        found = controlled_modes(rng.normal(size=(n, 6)), rng.normal(size=(n, 3)))
        assert found == pytest.approx(found.T)
        assert found @ found == pytest.approx(found)
