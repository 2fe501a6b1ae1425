# SPDX-License-Identifier: Apache-2.0
"""Where what several hands hold is, against rigid motions of all of them."""

from __future__ import annotations

import numpy as np
import pytest
from postures import READY
from scipy.spatial.transform import Rotation

from multipanda_py.control.grasped_object import GraspedObject
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def grasped(n):
    maker = StateMaker(n)
    states = maker.at([READY + 0.05 * arm for arm in range(n)])
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
    wanted = place + turn.apply(hands - hands.mean(axis=0)) - (hands + steps)
    assert ways[:, :3] == pytest.approx(wanted, abs=1e-12)
    for way, vector in zip(ways, vectors):
        off = turn * Rotation.from_rotvec(vector).inv()
        assert way[3:] == pytest.approx(off.as_rotvec(), abs=1e-9 if n == 2 else 1e-12)
