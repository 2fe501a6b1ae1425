# SPDX-License-Identifier: Apache-2.0
"""Conversion and checks of the goals of arms."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py import Pose
from multipanda_py.cell.goals import GoalConverter, goals_by_arm
from multipanda_py.cell.names import CellNames
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import PlanRejected, UnknownName

pytestmark = pytest.mark.inline

HERE = Pose.identity()


@pytest.fixture(scope="module")
def converter():
    arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    return GoalConverter(CellNames(CellConfig.from_dict({"arms": arms})))


WRONG = {
    "^goals: .*by arm": [[HERE], "left", None, HERE, 3],
    r"^goals: .*\bnone\b": [{}],
    "^left: .*pose .*7 joint": [
        {"left": bad} for bad in ("home", None, ["a"] * 7, [1j] * 7, [True] * 7, [[1.0], [1, 2]])
    ],
    r"^left: .*\(.*\).*7 joint": [{"left": bad} for bad in (3.0, [0.0] * 6, np.zeros((7, 1)))],
    r"^left: joint 3: .*\bnan\b": [{"left": [0, 0, np.nan, 0, 0, 0, 0]}],
}


@pytest.mark.parametrize("reported", WRONG)
def test_invalid_goals_raised_python_errors(converter, reported):
    for goals in WRONG[reported]:
        with pytest.raises(PlanRejected, match=reported):
            converter.waypoints((), goals, "")


@pytest.mark.parametrize("via", ["x", HERE, {"left": HERE}, None, 3, [HERE], ["x"], [{}]])
def test_invalid_waypoints_raised_python_errors(converter, via):
    with pytest.raises(PlanRejected, match="via"):
        converter.waypoints(via, {"left": HERE}, "")


def test_waypoints_of_one_arm_must_be_list():
    for via in ("x", HERE, None):
        with pytest.raises(PlanRejected, match=r"via:.*goals"):
            goals_by_arm("left", HERE, via)


def test_goals_are_in_world_and_joint_configurations_are_copies(converter):
    configuration = [0, 1, 0, -1, 0, 1, 0]
    first, last = converter.waypoints([{"left": HERE}], {"right": configuration}, "")
    np.testing.assert_allclose(first["left"].position, [0.0, 0.3, 0.0])
    assert last["right"].dtype == np.float64
    with pytest.raises(UnknownName, match="third"):
        converter.waypoints([{"third": HERE}], {"right": configuration}, "")
