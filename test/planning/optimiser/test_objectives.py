# SPDX-License-Identifier: Apache-2.0
"""Derivatives of all objectives against finite differences, and meaning of their values."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.planning.optimiser.goals import (
    Axis,
    Orientation,
    PoseGoal,
    Position,
    RelativePose,
    Slides,
    Stays,
    Touches,
)
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import (
    Scene,
    exp3,
    left_jacobian,
    left_jacobian_inverse,
    log3,
)
from multipanda_py.planning.optimiser.term import (
    AccelerationLimits,
    Near,
    Rest,
    Smoothness,
    VelocityLimits,
    WithinLimits,
)
from multipanda_py.pose import Pose as Placed
from multipanda_py.robots import ArmDescription, SceneObject

pytestmark = pytest.mark.inline
POSE = Placed.from_rpy([0.4, 0.1, 0.5], (0.3, -0.4, 0.8))
OBJECTIVES = [
    PoseGoal("left/tool", POSE),
    PoseGoal("left/tool", POSE, "box"),
    Position("right/link5", [0.1, 0.2, 0.3], "left/tool"),
    Orientation("box", POSE, "right/tool"),
    Axis("left/tool", [0, 0, 1], [0, 1, -0.3]),
    Axis("box/side", [1, 0, 0], [0, 1, 1], "left/tool"),
    RelativePose("box", "right/tool", POSE),
    Touches("left/tool", "box/side"),
    Stays("left/tool", "box"),
    Slides("right/tool", "box/side"),
    WithinLimits(),
    VelocityLimits("left"),
    AccelerationLimits("right", fraction=0.5),
    Smoothness(order=3),
    Rest("box"),
    Near("left", np.zeros(7)),
]


def two_arms():
    tilted = pin.rpy.rpyToMatrix(0.1, 0.2, 3.0)
    scene = Scene(
        [
            ArmDescription("left"),
            ArmDescription("right", "fer", np.array([1.2, 0.1, 0.0]), tilted),
        ],
        [
            SceneObject("box", "box", (0.1, 0.1, 0.2), np.array([0.5, 0, 0.3]), tilted, mass=1.0),
            SceneObject("table", "box", (0.1, 0.1, 0.2), np.array([0.5, 0.6, 0.1])),
        ],
    )
    scene.add_frame("box/side", "box", Placed.from_rpy([0.1, 0, 0.05], (0.2, 1.2, 0.1)))
    return scene


SCENE = two_arms()


def random_slices(rng, n):
    return SCENE.start + rng.uniform(-0.7, 0.7, (n, SCENE.size))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("seed", range(3))
def test_derivative_agrees_with_finite_differences(objective, seed):
    x = random_slices(np.random.default_rng(seed), 4)
    objective.check(SCENE)
    kinematics = Kinematics(SCENE, objective.frames)
    _, jacobian = objective.evaluate(kinematics.forward_kinematics(x))
    h = 1e-6
    for column in range(SCENE.size):
        step = h * np.eye(SCENE.size)[column]
        ahead, _ = objective.evaluate(kinematics.forward_kinematics(x + step))
        behind, _ = objective.evaluate(kinematics.forward_kinematics(x - step))
        assert np.allclose(jacobian[:, :, column], (ahead - behind) / (2 * h), atol=2e-7)


def test_frames_agree_with_descriptions():
    x = random_slices(np.random.default_rng(7), 3)
    placed = Kinematics(
        SCENE, ["left/tool", "box", "box/side", "table", "world"]
    ).forward_kinematics(x)
    pose = SCENE.pose(x[1], "box")
    assert np.allclose(placed.frames["box"].rotation[1], pose.rotation)
    side = pose @ SCENE.frames["box/side"][1]
    assert np.allclose(placed.frames["box/side"].position[1], side.position)
    assert np.allclose(placed.frames["box/side"].rotation[1], side.rotation)
    assert np.allclose(placed.frames["table"].position, [0.5, 0.6, 0.1])
    again = SCENE.configuration({}, {"box": pose})
    assert np.allclose(again[SCENE.columns["box"]], x[1, SCENE.columns["box"]])


def test_rotation_vectors_agree_with_pinocchio():
    rng = np.random.default_rng(3)
    vectors = np.concatenate(
        [rng.uniform(-1.5, 1.5, (20, 3)), 1e-4 * rng.normal(size=(5, 3)), np.zeros((1, 3))]
    )
    for w, rotation, back, inverse, jacobian in zip(
        vectors, exp3(vectors), log3(exp3(vectors)), left_jacobian_inverse(vectors),
        left_jacobian(vectors),
    ):  # fmt: skip
        assert np.allclose(rotation, pin.exp3(w), atol=1e-12)
        assert np.allclose(back, w, atol=1e-12)
        assert np.allclose(inverse, pin.Jlog3(rotation).T, atol=1e-9)
        assert np.allclose(inverse @ jacobian, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("angle", [0.0, 0.5, 2.0, 3.1, np.pi])
def test_axis_violation_is_angle_up_to_pi(angle):
    box = Placed.from_rpy([0, 0, 0], (0.0, angle, 0.0))
    x = SCENE.configuration({}, {"box": box})
    placed = Kinematics(SCENE, ["box", "world"]).forward_kinematics(x[None])
    value, _ = Axis("box", [0, 0, 1], [0, 0, 1]).evaluate(placed)
    assert np.linalg.norm(value) == pytest.approx(angle, abs=1e-5)
