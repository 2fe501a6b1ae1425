# SPDX-License-Identifier: Apache-2.0
"""Target bounds: a follower limited in position and speed, without drift."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.controllets.features.workspace import Workspace, WorkspaceParams
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.pose import Pose
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline


class Law:
    """A follower with its target, updated as in the cycle of a controllet."""

    def __init__(self, n=1, **params):
        maker = StateMaker(n)
        self.states = maker.states_at([READY] * n)
        self.feature = Workspace(maker.context, WorkspaceParams(**params))
        self.target = CartesianTarget(n)
        for arm, state in enumerate(self.states):
            self.target.position_ee_in_base[arm][:] = state.position_ee_in_base
            self.target.rotation_ee_in_base[arm][:] = state.rotation_ee_in_base
        self.feature.on_activate(self.states, self.target)

    def request(self, position, rotation=None, arm=0):
        self.target.position_ee_in_base[arm][:] = position
        if rotation is not None:
            self.target.rotation_ee_in_base[arm][:] = rotation
        self.feature.on_target("pose", arm, self.target)

    def cycles(self, n, arm=0):
        observed = []
        for _ in range(n):
            self.feature.prepare(self.states, self.target, PERIOD)
            observed.append(self.target.position_ee_in_base[arm].copy())
        return np.array(observed)


def about(axis, angle):
    x, y, z = axis
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def test_target_moves_on_line_at_speed_and_arrives_exactly():
    law = Law(linear_speed=0.2)
    start = law.states[0].position_ee_in_base.copy()
    goal = start + [0.03, -0.04, 0.0]
    law.request(goal)
    observed = law.cycles(400)
    steps = np.linalg.norm(np.diff(np.vstack([start, observed]), axis=0), axis=1)
    assert steps.max() <= 0.2 * PERIOD * (1 + 1e-9)
    assert np.allclose(steps[:249], 0.2 * PERIOD)
    assert np.array_equal(observed[-1], goal)
    assert np.allclose(np.cross(observed - start, goal - start), 0.0, atol=1e-12)


def test_target_rotates_about_one_axis_at_rate_and_arrives_exactly():
    law = Law(angular_speed=0.5)
    start = law.states[0].rotation_ee_in_base.copy()
    goal = about(np.array([0.6, 0.0, 0.8]), 0.1) @ start
    law.request(law.states[0].position_ee_in_base, goal)
    law.cycles(100)
    halfway = about(np.array([0.6, 0.0, 0.8]), 0.05) @ start
    assert np.allclose(law.target.rotation_ee_in_base[0], halfway, atol=1e-9)
    law.cycles(110)
    assert np.array_equal(law.target.rotation_ee_in_base[0], goal)


def test_target_outside_is_clamped_without_windup():
    """After a long time at the bound, a target inside is followed at once."""
    law = Law(linear_speed=0.5, upper=np.array([0.35, 0.9, 1.2]))
    start = law.states[0].position_ee_in_base.copy()
    law.request(start + [2.0, 0.0, 0.0])
    observed = law.cycles(2000)
    assert (observed[:, 0] <= 0.35).all()
    assert observed[-1][0] == 0.35
    law.request(start)
    assert law.cycles(1)[0][0] == pytest.approx(0.35 - 0.5 * PERIOD)


def test_many_small_targets_do_not_drift():
    rng, law = np.random.default_rng(1), Law(linear_speed=0.3)
    for _ in range(500):
        goal = law.states[0].position_ee_in_base + rng.normal(size=3) * 0.01
        law.request(goal)
        law.cycles(3)
    law.cycles(1000)
    assert np.array_equal(law.target.position_ee_in_base[0], goal)


def test_activation_outside_box_moves_nothing_until_first_target():
    law = Law(upper=np.array([0.1, 0.9, 1.2]), linear_speed=0.5)
    start = law.states[0].position_ee_in_base.copy()
    assert start[0] > 0.3
    assert np.array_equal(law.cycles(100)[-1], start)
    law.request(start)
    assert law.cycles(1000)[-1][0] == 0.1


def test_changed_box_applies_without_jump():
    law = Law(linear_speed=0.5)
    law.request(law.states[0].position_ee_in_base + [0.1, 0.0, 0.0])
    before = law.cycles(1000)[-1]
    law.feature.params = WorkspaceParams(upper=np.array([0.3, 0.9, 1.2]), linear_speed=0.5)
    law.feature.on_parameters()
    observed = law.cycles(1000)
    assert np.linalg.norm(observed[0] - before) <= 0.5 * PERIOD + 1e-12
    assert observed[-1][0] == pytest.approx(0.3)


def test_arms_are_independent():
    law = Law(2)
    law.request(law.states[0].position_ee_in_base + [0.1, 0.0, 0.0], arm=1)
    before = law.target.position_ee_in_base[0].copy()
    law.cycles(100)
    assert np.array_equal(law.target.position_ee_in_base[0], before)


def test_workspace_refuses_joint_controllet():
    with pytest.raises(ConfigurationError, match=r"\bworkspace .*\bjoint_impedance\b"):
        CellConfig.from_dict(
            {
                "arms": {"left": {}},
                "controllets": {"joint": {"type": "joint_impedance", "features": ["workspace"]}},
            }
        )


def test_end_effector_stays_in_box_and_below_speed(make_cell):
    laws = {"cart": {"type": "cartesian_impedance",
                     "features": ["workspace", "nullspace", "coriolis"],
                     "params": {"workspace": {"upper": [0.4, 0.9, 1.2],
                                              "linear_speed": 0.1}}}}  # fmt: skip
    cell = make_cell(arms={"left": {}}, controllets=laws, active=["left/cart"])
    pose = cell.pose("left")
    cell.set_target("left", Pose(pose.position + [0.14, 0.0, 0.0], pose.rotation))
    fastest = furthest = 0.0
    for _ in range(300):
        cell.step(10)
        fastest = max(fastest, float(np.linalg.norm(cell.state("left").twist_ee_in_base[:3])))
        furthest = max(furthest, cell.pose("left").position[0])
    assert furthest < 0.405
    assert fastest < 0.14
    assert cell.pose("left").position[0] == pytest.approx(0.4, abs=1e-3)
