# SPDX-License-Identifier: Apache-2.0
"""Distances along a path against coal, and their derivatives against finite differences."""

from __future__ import annotations

import coal
import numpy as np
import pinocchio as pin
import pytest
from optimiser_scenes import scene_of_two

from multipanda_py.planning.optimiser.distance import GRADIENT_DISTANCE, Distance, clearances
from multipanda_py.planning.optimiser.goals import PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject, Tool
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio

pytestmark = pytest.mark.inline


SCENE = scene_of_two()
PAIRS = [
    ("left", "right"),
    ("left", "left"),
    ("left", "table"),
    ("right", "can"),
    ("left", "ball"),
]


def by_coal(solid, placed, row):
    """Return a solid in coal's form, rotated by pinocchio."""
    frame = coal.Transform3s(placed.rotation[row], placed.position[row])
    axis = solid.end - solid.start
    alignment = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), axis).toRotationMatrix()
    if solid.shape is not None or not axis.any():
        alignment = np.eye(3)
    shape = solid.shape or coal.Capsule(solid.radius, float(np.linalg.norm(axis)))
    return shape, frame * coal.Transform3s(alignment, 0.5 * (solid.start + solid.end))


def nearby_slices(distance, seed, count):
    """Return slices in which some solids are close but do not overlap."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < count:
        x = SCENE.start + rng.uniform(-1.2, 1.2, (50, SCENE.size))
        values, _ = distance.evaluate(Kinematics(SCENE, distance.frames).forward_kinematics(x))
        good = (values > -0.9 * GRADIENT_DISTANCE) & (values < distance.margin - 2e-3)
        found += list(x[good.any(axis=1)])
    return np.array(found[:count])


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_distances_agree_with_coal(pair):
    distance = Distance(SCENE, *pair)
    x = nearby_slices(distance, 1, 4)
    placed = Kinematics(SCENE, distance.frames).forward_kinematics(x)
    values, _ = distance.evaluate(placed)
    compared = 0
    for row in range(len(x)):
        for number, (a, b) in enumerate(distance.pairs):
            first = by_coal(a, placed.frames[a.frame], row)
            second = by_coal(b, placed.frames[b.frame], row)
            result = coal.DistanceResult()
            d = coal.distance(*first, *second, coal.DistanceRequest(), result)
            if 1e-3 < d < distance.margin + GRADIENT_DISTANCE - 1e-3:
                assert distance.margin - values[row, number] == pytest.approx(d, abs=1e-5)
                compared += 1
            elif d >= distance.margin + GRADIENT_DISTANCE:
                assert values[row, number] < -0.99 * GRADIENT_DISTANCE
    assert compared > 1


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_derivatives_agree_with_finite_differences(pair):
    distance = Distance(SCENE, *pair)
    x = nearby_slices(distance, 2, 3)
    kinematics = Kinematics(SCENE, distance.frames)
    values, jacobian = distance.evaluate(kinematics.forward_kinematics(x))
    h = 1e-5
    # Excludes the end of the range and overlaps, where coal's derivatives are rough.
    smooth = (values > -GRADIENT_DISTANCE + 1e-3) & (values < distance.margin - 1e-3)
    assert smooth.any()
    for column in range(SCENE.size):
        step = h * np.eye(SCENE.size)[column]
        ahead, _ = distance.evaluate(kinematics.forward_kinematics(x + step))
        behind, _ = distance.evaluate(kinematics.forward_kinematics(x - step))
        error = np.abs(jacobian[:, :, column] - (ahead - behind) / (2 * h))[smooth]
        # Two derivatives exist where the nearest edge changes within the step.
        assert np.quantile(error, 0.9) < 2e-3


def test_arm_may_touch_object_of_its_goal():
    requested = [PoseGoal("left/tool", Pose.identity(), "can")]
    pairs = {distance.of for distance in clearances(SCENE, requested)}
    assert ("left", "can") not in pairs
    assert pairs >= {("right", "can"), ("left", "table"), ("left", "right"), ("left", "left")}
    assert ("left", "can") in {distance.of for distance in clearances(SCENE)}


def test_rod_distance_was_measured_beyond_tip():
    """The capsule started at the tip; paths avoided the space beyond the rod, not the rod."""
    tip_in_flange = np.eye(4)
    tip_in_flange[2, 3] = 0.3
    rod = Tool(0.2, np.zeros(3), 1e-3 * np.eye(3), tip_in_flange)
    arm = ArmDescription("left", hand=False, tool=rod)
    model = build_pinocchio(arm, base_in_world=True)
    data = model.createData()
    pin.framesForwardKinematics(model, data, np.array(arm.robot.ready))
    tip = data.oMf[model.getFrameId(arm.ee_frame)]
    for along, apart in ((0.05, 0.04), (-0.15, -0.018)):  # below the tip; around the rod's middle
        ball = SceneObject("ball", "sphere", (0.01,), tip.act(np.array([0.0, 0.0, along])))
        scene = Scene([arm], [ball])
        distance = Distance(scene, "left", "ball", parts="hand")
        value, _ = distance.evaluate(
            Kinematics(scene, distance.frames).forward_kinematics(scene.start[None])
        )
        assert distance.margin - value.max() == pytest.approx(apart, abs=2e-3)
