# SPDX-License-Identifier: Apache-2.0
"""Controlled force modes of several grippers, against statics by hand."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.force.multi_contact_force import controlled_modes

pytestmark = pytest.mark.inline


def six(*forces):
    return np.array([[*force, 0.0, 0.0, 0.0] for force in forces])


def net(wrenches, positions, mix):
    """Return force and moment about the centre for grippers with a mix of force sizes."""
    sizes = np.linalg.norm(wrenches, axis=1)
    levers = positions - positions.mean(axis=0)
    total = np.zeros(6)
    for wrench, size, lever, amount in zip(wrenches, sizes, levers, mix):
        total[:3] += amount * wrench[:3] / size
        total[3:] += amount * np.cross(lever, wrench[:3]) / size
    return total


def test_single_gripper_is_controlled_alone():
    assert controlled_modes(six([0, 0, -15.0]), np.zeros((1, 3))) == pytest.approx(np.eye(1))


def test_two_grippers_on_table_are_controlled_separately():
    positions_of_contacts = np.array([[0.4, 0.2, 0.3], [0.4, -0.3, 0.3]])
    found = controlled_modes(six([0, 0, -15.0], [0, 0, -15.0]), positions_of_contacts)
    assert found == pytest.approx(np.eye(2))


@pytest.mark.parametrize("offset", [0.0, 0.02])
@pytest.mark.parametrize("sizes", [(20.0, 20.0), (20.0, 21.0)])
def test_grasp_force_is_controlled_by_mean(offset, sizes):
    """Also for grippers that are not exactly opposite or have slightly different forces."""
    positions_of_contacts = np.array([[0.5, 0.15, 0.4], [0.5 + offset, -0.15, 0.4]])
    found = controlled_modes(six([0, -sizes[0], 0], [0, sizes[1], 0]), positions_of_contacts)
    assert found == pytest.approx(np.full((2, 2), 0.5))


def test_two_pairs_have_separate_grasp_forces():
    """Controlled modes exert no net force or moment on the object."""
    positions_of_contacts = np.array(
        [[0.3, 0.15, 0], [0.3, -0.15, 0], [0.7, 0.15, 0], [0.7, -0.15, 0]]
    )
    wrenches = six([0, -20.0, 0], [0, 20.0, 0], [0, -35.0, 0], [0, 35.0, 0])
    found = controlled_modes(wrenches, positions_of_contacts)
    for mix in found:
        assert net(wrenches, positions_of_contacts, mix) == pytest.approx(np.zeros(6), abs=1e-12)
    assert np.trace(found) == pytest.approx(2.0)
    sizes = np.linalg.norm(wrenches, axis=1)
    assert found @ sizes == pytest.approx(sizes)


def test_grippers_without_requested_force_have_no_part():
    positions_of_contacts = np.array([[0.5, 0.15, 0.4], [0.5, 0, 0.9], [0.5, -0.15, 0.4]])
    found = controlled_modes(six([0, -20.0, 0], [0, 0, 0], [0, 20.0, 0]), positions_of_contacts)
    assert found == pytest.approx(np.array([[0.5, 0, 0.5], [0, 0, 0], [0.5, 0, 0.5]]))
    assert not controlled_modes(np.zeros((3, 6)), positions_of_contacts).any()


def test_controlled_modes_are_projector():
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 4, 8, 9):
        found = controlled_modes(rng.normal(size=(n, 6)), rng.normal(size=(n, 3)))
        assert found == pytest.approx(found.T)
        assert found @ found == pytest.approx(found)
