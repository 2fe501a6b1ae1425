# SPDX-License-Identifier: Apache-2.0
"""Pose of a grasped object, fixed to its tool without variables of its own."""

from __future__ import annotations

import numpy as np

from multipanda_py.planning.optimiser.distance import Distance
from multipanda_py.planning.optimiser.free_space import FreeSpace
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject

GRIP = Pose.from_rpy([0.01, 0.0, 0.05], [0.4, 0.2, 0.0])


def test_grasped_object_had_redundant_variables():
    rod = SceneObject("rod", "capsule", (0.01, 0.1), np.array([0.0, 0.5, 0.5]), mass=0.1)
    table = SceneObject("table", "box", (0.3, 0.3, 0.1), np.array([0.5, 0.0, 0.1]))
    scene = Scene([ArmDescription("arm")], [rod, table])
    carried = scene.carrying({"rod": ("arm/tool", GRIP)})
    assert (scene.size, carried.size, carried.movable) == (13, 7, [])
    one, other = (Distance(s, "rod", "table", 0.1) for s in (carried, scene))
    space = FreeSpace(carried, [one], {})
    rng, near = np.random.default_rng(1), 0
    for _ in range(20):
        q = carried.start + rng.uniform(-0.4, 0.4, 7)
        tool = Kinematics(scene, ["arm/tool"]).forward_kinematics(
            scene.configuration({"arm": q})[None]
        )
        placed = tool.frames["arm/tool"]
        pose = Pose(placed.position[0], placed.rotation[0]) @ GRIP
        x = scene.configuration({"arm": q}, {"rod": pose})
        values, rates = one.evaluate(Kinematics(carried, one.frames).forward_kinematics(q[None]))
        expected, _ = other.evaluate(Kinematics(scene, other.frames).forward_kinematics(x[None]))
        np.testing.assert_allclose(values, expected, atol=1e-9)
        if values.max() > -0.1:
            near += 1
            assert np.isclose(space.nearest(q), 0.1 - values.max(), atol=1e-6)
            steps = q + 1e-6 * np.vstack([np.eye(7), -np.eye(7)])
            there, _ = one.evaluate(Kinematics(carried, one.frames).forward_kinematics(steps))
            np.testing.assert_allclose((there[:7] - there[7:]).T / 2e-6, rates[0], atol=1e-4)
    assert near > 5
