# SPDX-License-Identifier: Apache-2.0
"""Arms of six and of seven joints in one cell."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, ParameterRejected, TargetRejected
from multipanda_py.pose import Pose

ARMS = {"left": {"position": [0, 0.5, 0]}, "right": {"model": "ur5e", "position": [0, -0.5, 0]}}


def test_six_joints_beside_seven_hold_follow_joints_and_poses_and_stop(make_cell):
    cell = make_cell(ARMS)
    left = cell.state("left").q
    cell.step(100)
    assert np.abs(cell.state("right").dq).max() < 1e-9  # held where they are
    cell.switch(["right/joint_impedance_controller"])
    goal = cell.state("right").q + 0.2 * np.array([1, 1, -1, 1, 1, 1])
    cell.set_target("right", q=goal)
    cell.step(2000)
    np.testing.assert_allclose(cell.state("right").q, goal, atol=1e-5)
    cell.switch(["right/cartesian_impedance_controller"], strictness=Strictness.FORCE_AUTO)
    start = cell.pose("right")
    to = start.position + np.array([0.05, -0.03, 0.04])
    cell.set_target("right", Pose(to, start.rotation))
    cell.step(150)
    assert np.abs(cell.state("right").dq).max() > 0.1  # on its way, and to be stopped there
    cell.switch([], ["right/cartesian_impedance_controller"])
    cell.step(1000)
    assert np.abs(cell.state("right").dq).max() < 1e-3
    cell.switch(["right/cartesian_impedance_controller"])
    cell.set_target("right", Pose(to, start.rotation))
    cell.step(2000)
    np.testing.assert_allclose(cell.pose("right").position, to, atol=1e-4)
    assert not cell.state("right").fault
    np.testing.assert_allclose(cell.state("left").q, left, atol=1e-6)


@pytest.mark.parametrize("law", sorted({*registry.built_in("controllets")} - {"hold"}))
def test_admittance_of_six_joints_did_not_start(make_cell, law):
    """Its inner target had seven joints whatever the arm: no law may count on its arm's number."""
    needed = registry.find("controllets", law).min_arms
    ys = np.linspace(-0.5, 0.5, needed) if needed > 1 else [0.0]
    arms = {f"a{i}": {"model": "ur5e", "position": [0.0, float(y), 0.0]} for i, y in enumerate(ys)}
    cell = make_cell(arms, {"law": {"type": law, "arms": list(arms)}}, [])
    cell.switch([spec.name for spec in cell.specs if not spec.is_hold])
    cell.step(20)
    assert cell.active == ("law",)


def test_a_wrong_number_of_joints_is_refused_with_both(make_cell):
    cell = make_cell(ARMS, active=["right/joint_impedance_controller"])
    with pytest.raises(TargetRejected, match=r"got 7 numbers, .*allowed 6 finite"):
        cell.set_target("right", q=[0.0] * 7)
    with pytest.raises(ParameterRejected, match="got 7 numbers, allowed 6 numbers, one per joint"):
        cell.set_parameters("right/joint_impedance_controller", {"damping_ratio": [1.0] * 7})
    assert cell.parameters("right/joint_impedance_controller")["stiffness"].shape == (6,)
    assert cell.parameters("left/joint_impedance_controller")["stiffness"].shape == (7,)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"q_start": [0.0] * 7}, "arms.right.q_start: got 7 numbers, allowed 6, one per joint"),
        ({"noise": {"tau_bias": [0.0] * 7}}, "noise.tau_bias: got 7 numbers, allowed 6"),
        ({"hand": True}, "arms.right.hand: got true, allowed false for a ur5e"),
    ],
)
def test_an_arm_is_described_for_its_own_number_of_joints(changed, sentence):
    arms = {**ARMS, "right": ARMS["right"] | changed}
    with pytest.raises(ConfigurationError, match=sentence):
        CellConfig.from_dict({"arms": arms})


def test_arms_of_one_controllet_have_one_number_of_joints():
    laws = {"both": {"type": "joint_impedance", "arms": ["left", "right"]}}
    with pytest.raises(ConfigurationError, match="got arms with 6 and 7 joints, allowed arms of"):
        CellConfig.from_dict({"arms": ARMS, "controllets": laws})
