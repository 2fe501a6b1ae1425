# SPDX-License-Identifier: Apache-2.0
"""Scenes of the optimiser: one arm, and two arms with a table and movable objects."""

from __future__ import annotations

import numpy as np

from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.robots import ArmDescription, SceneObject


def one_arm():
    return Scene([ArmDescription("left")])


def scene_of_two():
    arms = [
        ArmDescription(name, position_base_in_world=np.array([0.0, y, 0.0]))
        for name, y in (("left", 0.3), ("right", -0.3))
    ]
    objects = [
        SceneObject("table", "box", (0.2, 0.3, 0.1), np.array([0.5, 0.0, 0.2])),
        SceneObject("can", "cylinder", (0.05, 0.1), np.array([0.4, 0.3, 0.5]), mass=0.3),
        SceneObject("ball", "sphere", (0.1,), np.array([0.3, 0.0, 0.6])),
    ]
    return Scene(arms, objects)
