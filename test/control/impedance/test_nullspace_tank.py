# SPDX-License-Identifier: Apache-2.0
"""Energy tank of projected joint springs."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.impedance.free_motion import regular_motion
from multipanda_py.control.impedance.nullspace_tank import (
    INITIAL_ENERGY,
    MAX_ENERGY,
    RECHARGING_POWER,
    REFERENCE_FORCE,
    NullspaceTank,
)
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

POSE = np.concatenate([[0.4, 0.0, 0.5], np.eye(3).ravel()])


def test_configuration_follows_tool_as_tank_empties():
    tank = NullspaceTank(PERIOD)
    assert (tank.energy, tank.followed) == (INITIAL_ENERGY, 0.0)
    tank.update(POSE, -0.5 * INITIAL_ENERGY)
    assert tank.followed == 0.0
    tank.update(POSE, -0.25 * INITIAL_ENERGY)
    assert tank.followed == pytest.approx(0.5, abs=1e-4)
    tank.update(POSE, -5.0)
    assert (tank.energy, tank.followed) == (0.0, 1.0)


def test_tank_recharges_slowly_while_reference_rests():
    tank = NullspaceTank(PERIOD)
    tank.update(POSE, -INITIAL_ENERGY)
    for _ in range(1000):
        tank.update(POSE, 0.0)
    assert tank.energy == pytest.approx(RECHARGING_POWER * 1.001, rel=1e-6)
    for _ in range(round(INITIAL_ENERGY / RECHARGING_POWER / PERIOD)):
        tank.update(POSE, 0.0)
    assert tank.energy == pytest.approx(INITIAL_ENERGY, abs=1e-4)


def test_reference_motion_refills_tank_up_to_its_capacity():
    tank, pose = NullspaceTank(PERIOD), POSE.copy()
    tank.update(pose, -1.0)
    before = tank.energy
    pose[0] += 0.01
    tank.update(pose, 0.0)
    assert tank.energy == pytest.approx(before + 0.01 * REFERENCE_FORCE, abs=1e-4)
    pose[1] += 1.0
    tank.update(pose, 0.0)
    assert tank.energy == MAX_ENERGY
    tank.reset()
    assert tank.energy == INITIAL_ENERGY


def test_regular_motion_moves_tool_except_along_singular_direction():
    maker, rng = StateMaker(), np.random.default_rng(2)
    twist = rng.normal(size=6)
    (state,) = maker.states_at([np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])])
    np.testing.assert_allclose(state.jacobian @ regular_motion(state, twist), twist, atol=1e-9)
    # Joints 4 and 6 of the UR5e are parallel, so that the wrist cannot rotate about one axis.
    (state,) = StateMaker(1, "ur5e").states_at([np.array([0.0, -1.5, 1.6, -1.7, 0.02, 0.0])])
    moved = state.jacobian @ regular_motion(state, twist)
    mobilities, directions = np.linalg.eigh(
        state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T
    )
    assert mobilities[0] < 1e-3 < 0.05 < mobilities[1]
    assert abs(directions[:, 0] @ moved) < 0.3 * abs(directions[:, 0] @ twist)
    np.testing.assert_allclose(directions[:, 1:].T @ moved, directions[:, 1:].T @ twist, atol=1e-9)
