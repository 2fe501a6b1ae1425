# SPDX-License-Identifier: Apache-2.0
"""What stands around the arms of a task besides the things of its cell."""

from __future__ import annotations

import numpy as np

from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solids import solids_of
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.state import Vector

FLOOR = SceneObject("floor", "box", (5.0, 5.0, 0.5), np.array([0.0, 0.0, -0.5]))
"""At height 0, below everything."""


def as_things(arm: ArmDescription, posture: Vector) -> list[SceneObject]:
    """Return the capsules of an arm that does not take part, where they are in a posture.

    Args:
        arm: With its base in the world.
        posture: Its joint positions, (n,) [rad, m].

    Returns:
        Fixed capsules and balls in the world.
    """
    scene = Scene([arm], (), {arm.name: posture})
    solids = solids_of(scene, arm.name)
    placed = Kinematics(scene, [solid.frame for solid in solids]).place(scene.start[None]).frames
    found = []
    for number, solid in enumerate(solids):
        frame = placed[solid.frame]
        turn, at = frame.rotation[0], frame.position[0]
        axis = turn @ (solid.end - solid.start)
        length = float(np.linalg.norm(axis))
        centre = at + turn @ (0.5 * (solid.start + solid.end))
        name = f"{arm.name} {number}"
        if length < 1e-9:
            found.append(SceneObject(name, "sphere", (solid.radius,), centre))
            continue
        z = axis / length
        x = np.cross(z, np.eye(3)[np.abs(z).argmin()])
        x /= np.linalg.norm(x)
        rotation = np.stack([x, np.cross(z, x), z], 1)
        size = (solid.radius, 0.5 * length)
        found.append(SceneObject(name, "capsule", size, centre, rotation))
    return found
