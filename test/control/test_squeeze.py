# SPDX-License-Identifier: Apache-2.0
"""How hard two hands press what is between them."""

from __future__ import annotations

import numpy as np
import pytest
from postures import READY

from multipanda_py.control.grasped_object import (
    GraspedObject,
    InternalForceEstimator,
    buckling_warning,
)
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

WIDTH = 0.6  # of the bases, and so of the hands


@pytest.fixture
def grasped():
    maker = StateMaker(2)
    states = maker.at([READY, READY])
    held = GraspedObject(maker.context)
    held.grasp(states)
    return held, states


def test_what_carries_a_load_is_no_part_of_the_squeeze(grasped):
    held, states = grasped
    for state, reaction in zip(states, (-30.0, 30.0)):  # of the thing on each hand, along y
        state.wrench_ext_in_base[:3] = 7.0, reaction, -15.0
    assert InternalForceEstimator(held).estimate(states) == pytest.approx(30.0)
    for state in states:  # both are pushed the same way
        state.wrench_ext_in_base[:3] = 0.0, 20.0, 0.0
    assert InternalForceEstimator(held).estimate(states) == pytest.approx(0.0, abs=1e-9)


def test_hands_buckle_beyond_half_their_stiffness_times_their_distance(grasped):
    held, _ = grasped
    dampers = [ModalDamping(), ModalDamping()]
    stiffness = np.array([200.0, 5000.0, 900.0, 30.0, 30.0, 30.0])  # softest across is x
    most = 0.5 * 200.0 * WIDTH
    assert buckling_warning(0.99 * most, dampers, stiffness, held) == ""
    assert f"{most:.1f} N" in buckling_warning(1.01 * most, dampers, stiffness, held)
