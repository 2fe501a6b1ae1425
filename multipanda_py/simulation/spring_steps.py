# SPDX-License-Identifier: Apache-2.0
"""In how many steps a world goes through a cycle for the springs of its compliant arms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from multipanda_py.simulation.compliant_arm import CompliantArm

STEP_SHARE = 1.0
"""Of the inverse of the fastest spring's angular frequency: what a step of the world may last, as
its steps and impulses of springs fall in with each other near half a period."""
MOST_STEPS = 8
"""Per cycle."""


def spring_steps(
    model: mujoco.MjModel, data: mujoco.MjData, arms: Sequence[CompliantArm], period: float
) -> tuple[int, list[str]]:
    r"""Return the number of steps, and what they cannot hold, in sentences.

    With the inverse C of the links' inertia where they are, and the stiffness :math:`\sigma` that
    springs have at the joints' largest torques, :math:`\omega^2` is at most the largest sum of a
    row of :math:`|C| \sigma`.

    Args:
        model: The world.
        data: Its state, with the mass matrix computed.
        arms: The arms with springs, at their start.
        period: Of a cycle [s].
    """
    steps, found = 1, []
    for arm in arms:
        unit = np.zeros((len(arm.dofs), model.nv))
        unit[np.arange(len(arm.dofs)), arm.dofs] = 1.0
        rows = np.zeros_like(unit)
        mujoco.mj_solveM(model, data, rows, unit)
        omega = math.sqrt(float(np.dot(np.abs(rows[:, arm.dofs]), arm.stiffest()).max()))
        wanted = math.ceil(period * omega / STEP_SHARE)
        steps = max(steps, min(wanted, MOST_STEPS))
        if wanted > MOST_STEPS:
            found.append(
                f"arms.{arm.name}.actuators: springs vibrate at up to {omega / math.tau:.0f} Hz, "
                f"more than {MOST_STEPS} steps of the world per cycle hold exactly, "
                f"{MOST_STEPS * STEP_SHARE / (math.tau * period):.0f} Hz; softer springs, a lower "
                "preset or more output_inertia would be"
            )
    return steps, found
