# SPDX-License-Identifier: Apache-2.0
"""Estimator of a grasped object, and its internal force."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY
from scipy.spatial.transform import Rotation

from multipanda_py.control.grasped_object import (
    GraspedObject,
    InternalForceEstimator,
    buckling_warning,
)
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def grasped(n):
    maker = StateMaker(n)
    states = maker.states_at([READY + 0.05 * arm for arm in range(n)])
    grasped_body = GraspedObject(maker.context)
    grasped_body.grasp(states)
    return grasped_body, states


def rotate_end_effector(state, rotation):
    state.rotation_ee_in_base[:] = rotation.as_matrix() @ state.rotation_ee_in_base


@pytest.mark.parametrize("n", [2, 3])
def test_rigid_motion_of_end_effectors_is_motion_of_object(n):
    grasped_body, states = grasped(n)
    origin, hands = grasped_body.position.copy(), grasped_body.end_effector_positions.copy()
    rotation_of_object, displacement = (
        Rotation.from_rotvec([0.3, -0.2, 0.5]),
        np.array([0.05, -0.02, 0.1]),
    )
    for state, hand in zip(states, hands):
        moved = origin + displacement + rotation_of_object.apply(hand - origin)
        state.position_ee_in_base[:] += moved - hand
        rotate_end_effector(state, rotation_of_object)
    grasped_body.update(states)
    assert grasped_body.position == pytest.approx(origin + displacement, abs=1e-12)
    assert grasped_body.rotation == pytest.approx(rotation_of_object.as_matrix(), abs=1e-12)
    assert grasped_body.levers == pytest.approx(
        rotation_of_object.apply(hands - origin), abs=1e-12
    )
    assert np.abs(grasped_body.errors).max() < 1e-12
    assert np.abs(grasped_body.sharing.grasp_errors[0]).max() < 1e-12


@pytest.mark.parametrize("n", [2, 3])
def test_inconsistent_end_effectors_place_object_at_mean(n):
    grasped_body, states = grasped(n)
    hands = grasped_body.end_effector_positions.copy()
    vectors = 0.2 * np.random.default_rng(n).normal(size=(n, 3))
    steps = 0.01 * np.random.default_rng(n + 1).normal(size=(n, 3))
    for state, vector, step in zip(states, vectors, steps):
        state.position_ee_in_base[:] += step
        rotate_end_effector(state, Rotation.from_rotvec(vector))
    grasped_body.update(states)
    first, *others = (Rotation.from_rotvec(vector) for vector in vectors)
    mean = sum((one * first.inv()).as_rotvec() for one in others) / n
    rotation_of_object = Rotation.from_rotvec(mean) * first
    assert grasped_body.rotation == pytest.approx(rotation_of_object.as_matrix(), abs=1e-12)
    centre = (hands + steps).mean(axis=0)
    assert grasped_body.position == pytest.approx(centre, abs=1e-12)
    grasp_errors_of_arms = grasped_body.sharing.grasp_errors[0].reshape(n, 6)
    expected = centre + rotation_of_object.apply(hands - hands.mean(axis=0)) - (hands + steps)
    assert grasp_errors_of_arms[:, :3] == pytest.approx(expected, abs=1e-12)
    for displacement, vector in zip(grasp_errors_of_arms, vectors):
        off = rotation_of_object * Rotation.from_rotvec(vector).inv()
        assert displacement[3:] == pytest.approx(off.as_rotvec(), abs=1e-9 if n == 2 else 1e-12)


WIDTH = 0.6  # of the bases, and so of the grippers


@pytest.fixture
def grasped_pair():
    maker = StateMaker(2)
    states = maker.states_at([READY, READY])
    grasped_body = GraspedObject(maker.context)
    grasped_body.grasp(states)
    return grasped_body, states


def test_load_is_no_part_of_internal_force(grasped_pair):
    grasped_body, states = grasped_pair
    for state, reaction in zip(states, (-30.0, 30.0)):  # from the object on each gripper, along y
        state.wrench_ext_in_base[:3] = 7.0, reaction, -15.0
    assert InternalForceEstimator(grasped_body).estimate(states) == pytest.approx(30.0)
    for state in states:  # both in the same direction
        state.wrench_ext_in_base[:3] = 0.0, 20.0, 0.0
    assert InternalForceEstimator(grasped_body).estimate(states) == pytest.approx(0.0, abs=1e-9)


def test_grasp_buckles_beyond_half_stiffness_times_distance(grasped_pair):
    grasped_body, _ = grasped_pair
    dampers = [ModalDamping(), ModalDamping()]
    stiffness = np.array([200.0, 5000.0, 900.0, 30.0, 30.0, 30.0])  # softest across is x
    maximum = 0.5 * 200.0 * WIDTH
    assert buckling_warning(0.99 * maximum, dampers, stiffness, grasped_body) == ""
    assert f"{maximum:.1f} N" in buckling_warning(1.01 * maximum, dampers, stiffness, grasped_body)
