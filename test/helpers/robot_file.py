# SPDX-License-Identifier: Apache-2.0
"""A file of an arm that is other than its data say, as identification would write it."""

from __future__ import annotations

from dataclasses import replace

from measured_arm import perturbed

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.measured_files import parameters_text
from multipanda_py.robots.robot import FIGURES


def other_robot(seed, friction=True, model="fr3"):
    """Return a robot with other bodies and, perhaps, friction that turns round at rest."""
    robot = perturbed(ArmDescription("arm", model), seed, friction=friction).robot
    n = robot.n_joints
    shape = dict(zip(FIGURES, (2.0 * robot.friction, [100.0] * n, [0.0] * n)))
    return replace(robot, figures={**robot.figures, **{k: tuple(v) for k, v in shape.items()}})


def write_robot(path, seed, **more):
    """Write such a file, and return the robot."""
    robot = other_robot(seed, **more)
    path.write_text(parameters_text(robot, {}))
    return robot
