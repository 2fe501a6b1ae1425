# SPDX-License-Identifier: Apache-2.0
"""In how many steps a world goes through a cycle for the springs of its compliant arms."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.simulation.compliant_world import CompliantWorld

STEP_SHARE = 1.0
"""Of the inverse of the fastest spring's angular frequency: what a step of the world may last, as
its steps and impulses of springs fall in with each other near half a period."""
MOST_STEPS = 8
"""Per cycle."""


def spring_steps(world: CompliantWorld, period: float) -> tuple[int, list[str]]:
    r"""Return the number of steps, and what they cannot hold, in a sentence for each arm.

    With the inverse C of the links' inertia where they are, and the stiffness :math:`\sigma` that
    springs have at the joints' largest torques, :math:`\omega^2` is at most the largest sum of a
    row of :math:`|C| \sigma`.

    Args:
        world: The arms, at their start, with the mass matrix computed.
        period: Of a cycle [s].
    """
    fastest = np.sqrt(np.dot(np.abs(world.compliance()), world.stiffest()))
    steps, found = 1, []
    for arm in world.arms:
        omega = float(fastest[world.places(arm)].max())
        wanted = math.ceil(period * omega / STEP_SHARE)
        steps = max(steps, min(wanted, MOST_STEPS))
        if wanted > MOST_STEPS:
            found.append(
                f"arms.{arm}.actuators: springs vibrate at up to {omega / math.tau:.0f} Hz, "
                f"more than {MOST_STEPS} steps of the world per cycle hold exactly, "
                f"{MOST_STEPS * STEP_SHARE / (math.tau * period):.0f} Hz; softer springs, a lower "
                "preset or more output_inertia would be"
            )
    return steps, found
