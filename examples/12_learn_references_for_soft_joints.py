# SPDX-License-Identifier: Apache-2.0
"""Learn motor references for an arm on soft springs in simulation, and test them on other robots.

Run: .venv/bin/python examples/12_learn_references_for_soft_joints.py

The arm sags under its weight, because its springs are soft. Position feedback would make it
stiff. Learning instead corrects the motor references from run to run, and the arm stays soft.
"""

from __future__ import annotations

import numpy as np

from multipanda_py.identification.actuators.learning_control import (
    TIME_STEP,
    learn,
    minimum_jerk,
    two_joint_run,
)

SECONDS, GOAL = 4.0, 0.8  # [s, rad]


def main() -> None:
    """Learn; print errors of this robot and of robots with other springs, masses and friction."""
    time = TIME_STEP * np.arange(1.0, round(SECONDS / TIME_STEP) + 1.0)
    desired = GOAL * minimum_jerk(time, SECONDS)[:, None].repeat(2, axis=1)
    found = learn(two_joint_run(), desired, tolerance=0.08, max_iterations=15)
    for number, error in enumerate(found.errors):
        print(f"iteration {number:2}: largest error {error:.3f} rad")
    for springs, masses, friction in ((0.97, 1.03, 1.5), (1.03, 0.97, 0.5)):
        other_robot = two_joint_run(springs=springs, masses=masses, friction=friction)
        error = np.abs(desired - other_robot(found.references)).max()
        print(f"robot with springs x {springs:g}, masses x {masses:g}: {error:.3f} rad")


if __name__ == "__main__":
    main()
