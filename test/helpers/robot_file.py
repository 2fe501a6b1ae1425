# SPDX-License-Identifier: Apache-2.0
"""Parameter file of a perturbed arm, in the format of the identification."""

from __future__ import annotations

from dataclasses import replace

from measured_arm import perturbed

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.measured_files import parameters_text
from multipanda_py.robots.robot import FIGURES


def other_robot(seed, friction=True, model="fr3"):
    """Return a robot with perturbed bodies and, optionally, sigmoid friction."""
    robot = perturbed(ArmDescription("arm", model), seed, friction=friction).robot
    n = robot.n_joints
    shape = dict(zip(FIGURES, (2.0 * robot.friction, [100.0] * n, [0.0] * n)))
    return replace(robot, figures={**robot.figures, **{k: tuple(v) for k, v in shape.items()}})


def write_robot(path, seed, **more):
    """Write the parameter file of a perturbed robot and return the robot."""
    robot = other_robot(seed, **more)
    path.write_text(parameters_text(robot, {}))
    return robot
