# SPDX-License-Identifier: Apache-2.0
"""Constraints on tool orientation along a path, and goals that violate them."""

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


def test_goal_that_violates_constraint_was_searched_for(scene):
    here = tool(scene, scene.start)
    for keep, axis, word in (
        ("upright", 0, "lean"),
        ("orientation", 2, "rotat"),
    ):
        offset = pin.exp3(0.4 * np.eye(3)[axis])
        goal = Pose(here.position + [0.0, 0.1, 0.0], offset @ here.rotation)
        with pytest.raises(PlanRejected, match=rf"^goal of arm:.*\b{word}.*\b0\.400 rad"):
            find_move(scene, {}, MotionRequest([{"arm": goal}], path_constraint=keep))
    bent = scene.start + [0, 0, 0, 0, 0, 0.5, 0]
    with pytest.raises(PlanRejected, match=r"^goal of arm:.*\blean.*\b0\.500 rad"):
        find_move(scene, {}, MotionRequest([{"arm": bent}], path_constraint="upright"))


@pytest.mark.parametrize("keep", ["upright", "orientation"])
def test_milliradian_of_compliance_blocked_constrained_motion_forever(scene, keep):
    here = tool(scene, scene.start)
    expected = pin.exp3(np.array([0.003, 0.0, 0.0])) @ here.rotation
    goal = Pose(here.position + [0.05, 0.1, 0.0], expected)
    found = find_move(scene, {}, MotionRequest([{"arm": goal}], path_constraint=keep))
    for q in found.points["arm"][1:, 1:8]:
        deviation = tool(scene, q).rotation @ expected.T
        off = np.arccos(min(1.0, deviation[2, 2])) if keep == "upright" else pin.log3(deviation)
        assert np.abs(off).max() < 1e-3
