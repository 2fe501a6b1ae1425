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
    held = GraspedObject(maker.context)
    held.grasp(states)
    return held, states


def turn_hand(state, rotation):
    state.rotation_ee_in_base[:] = rotation.as_matrix() @ state.rotation_ee_in_base


@pytest.mark.parametrize("n", [2, 3])
def test_a_rigid_motion_of_all_hands_is_the_objects_alone(n):
    held, states = grasped(n)
    origin, hands = held.position.copy(), held.end_effector_positions.copy()
    turn, way = Rotation.from_rotvec([0.3, -0.2, 0.5]), np.array([0.05, -0.02, 0.1])
    for state, hand in zip(states, hands):
        moved = origin + way + turn.apply(hand - origin)
        state.position_ee_in_base[:] += moved - hand
        turn_hand(state, turn)
    held.update(states)
    assert held.position == pytest.approx(origin + way, abs=1e-12)
    assert held.rotation == pytest.approx(turn.as_matrix(), abs=1e-12)
    assert held.levers == pytest.approx(turn.apply(hands - origin), abs=1e-12)
    assert np.abs(held.errors).max() < 1e-12
    assert np.abs(held.sharing.grasp_errors[0]).max() < 1e-12


@pytest.mark.parametrize("n", [2, 3])
def test_hands_that_do_not_agree_have_the_object_at_their_mean(n):
    held, states = grasped(n)
    hands = held.end_effector_positions.copy()
    vectors = 0.2 * np.random.default_rng(n).normal(size=(n, 3))
    steps = 0.01 * np.random.default_rng(n + 1).normal(size=(n, 3))
    for state, vector, step in zip(states, vectors, steps):
        state.position_ee_in_base[:] += step
        turn_hand(state, Rotation.from_rotvec(vector))
    held.update(states)
    first, *others = (Rotation.from_rotvec(vector) for vector in vectors)
    mean = sum((one * first.inv()).as_rotvec() for one in others) / n
    turn = Rotation.from_rotvec(mean) * first
    assert held.rotation == pytest.approx(turn.as_matrix(), abs=1e-12)
    place = (hands + steps).mean(axis=0)
    assert held.position == pytest.approx(place, abs=1e-12)
    ways = held.sharing.grasp_errors[0].reshape(n, 6)
    expected = place + turn.apply(hands - hands.mean(axis=0)) - (hands + steps)
    assert ways[:, :3] == pytest.approx(expected, abs=1e-12)
    for way, vector in zip(ways, vectors):
        off = turn * Rotation.from_rotvec(vector).inv()
        assert way[3:] == pytest.approx(off.as_rotvec(), abs=1e-9 if n == 2 else 1e-12)


WIDTH = 0.6  # of the bases, and so of the hands


@pytest.fixture
def held_pair():
    maker = StateMaker(2)
    states = maker.states_at([READY, READY])
    held = GraspedObject(maker.context)
    held.grasp(states)
    return held, states


def test_what_carries_a_load_is_no_part_of_the_squeeze(held_pair):
    held, states = held_pair
    for state, reaction in zip(states, (-30.0, 30.0)):  # of the thing on each hand, along y
        state.wrench_ext_in_base[:3] = 7.0, reaction, -15.0
    assert InternalForceEstimator(held).estimate(states) == pytest.approx(30.0)
    for state in states:  # both are pushed the same way
        state.wrench_ext_in_base[:3] = 0.0, 20.0, 0.0
    assert InternalForceEstimator(held).estimate(states) == pytest.approx(0.0, abs=1e-9)


def test_hands_buckle_beyond_half_their_stiffness_times_their_distance(held_pair):
    held, _ = held_pair
    dampers = [ModalDamping(), ModalDamping()]
    stiffness = np.array([200.0, 5000.0, 900.0, 30.0, 30.0, 30.0])  # softest across is x
    maximum = 0.5 * 200.0 * WIDTH
    assert buckling_warning(0.99 * maximum, dampers, stiffness, held) == ""
    assert f"{maximum:.1f} N" in buckling_warning(1.01 * maximum, dampers, stiffness, held)
