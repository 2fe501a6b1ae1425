# SPDX-License-Identifier: Apache-2.0
"""Tools that stay as they are turned, and goals that have them turned otherwise."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py import Pose
from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.find_motion import find_move
from multipanda_py.planning.motions.motion_request import MotionRequest, frames_at
from multipanda_py.planning.optimiser import Scene
from multipanda_py.robots import ArmDescription


@pytest.fixture
def scene():
    return Scene([ArmDescription("arm")])


def tool(scene, q):
    found = frames_at(scene, "arm", q)["tool"]
    return Pose(found.translation.copy(), found.rotation.copy())


def test_a_goal_that_leans_was_searched_for(scene):
    here = tool(scene, scene.start)
    for keep, axis, word in (
        ("upright", 0, "lean"),
        ("orientation", 2, "rotat"),
    ):
        turn = pin.exp3(0.4 * np.eye(3)[axis])
        goal = Pose(here.position + [0.0, 0.1, 0.0], turn @ here.rotation)
        with pytest.raises(PlanRejected, match=rf"^goal of arm:.*\b{word}.*\b0\.400 rad"):
            find_move(scene, {}, MotionRequest([{"arm": goal}], path_constraint=keep))
    bent = scene.start + [0, 0, 0, 0, 0, 0.5, 0]
    with pytest.raises(PlanRejected, match=r"^goal of arm:.*\blean.*\b0\.500 rad"):
        find_move(scene, {}, MotionRequest([{"arm": bent}], path_constraint="upright"))


@pytest.mark.parametrize("keep", ["upright", "orientation"])
def test_a_milliradian_that_an_arm_gives_way_by_made_it_stay_for_good(scene, keep):
    here = tool(scene, scene.start)
    expected = pin.exp3(np.array([0.003, 0.0, 0.0])) @ here.rotation
    goal = Pose(here.position + [0.05, 0.1, 0.0], expected)
    found = find_move(scene, {}, MotionRequest([{"arm": goal}], path_constraint=keep))
    for q in found.points["arm"][1:, 1:8]:
        turned = tool(scene, q).rotation @ expected.T
        off = np.arccos(min(1.0, turned[2, 2])) if keep == "upright" else pin.log3(turned)
        assert np.abs(off).max() < 1e-3
