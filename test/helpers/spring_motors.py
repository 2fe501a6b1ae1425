# SPDX-License-Identifier: Apache-2.0
"""Reference simulation of a link between two motors with friction, in steps of 10 us."""

from __future__ import annotations

import math

import numpy as np
from spring_links import GRAVITY, INERTIA, LENGTH, MASS, clip, pendulum

from multipanda_py.simulation.actuators import Motors
from multipanda_py.simulation.actuators.compliant_actuators import Qbmove

J, D, MAXIMUM, FASTEST, FRICTION, STICK = 0.0233, 0.2698, 6.0, 6.0, 0.02, 1e3
P, D_PID = 125.0, 4.5
LINK_DAMPING = 0.065
STEPS = 700
"""Number of steps of 1 ms."""


def soft_step(_):
    return 0.8, 0.2


def stiff_step(_):
    return 0.8, 0.6


def chirp(t):
    """Return a chirp of 0.15 rad, 0.5 to 6 Hz in 0.7 s, at an angle with a gravity torque."""
    return 0.4 + 0.15 * math.sin(math.tau * (0.5 * t + 0.5 * 5.5 / 0.7 * t * t)), 0.6


def sinusoid(t):
    return 0.8 * math.sin(8.0 * t), 0.2


MOTIONS = {"soft step": soft_step, "stiff step": stiff_step, "chirp": chirp, "sinusoid": sinusoid}
"""Equilibrium and preset as functions of time."""


def reference(command, step=1e-5):
    """Return the angle of the link every 1 ms, by semi-implicit steps and a play operator.

    The command changes every 1 ms, as that of the robot.
    """
    q = dq = 0.0
    equilibrium, preset = command(0.0)
    theta, dtheta = [preset, -preset], [0.0, 0.0]  # initial motor positions
    friction_positions, slack = list(theta), FRICTION / STICK
    angles = []
    for i in range(STEPS):
        equilibrium, preset = command(1e-3 * (i + 1))
        goals = (equilibrium + preset, equilibrium - preset)
        for _ in range(round(1e-3 / step)):
            torque = 0.0
            for motor in (0, 1):
                spring = 0.0019 * math.sinh(8.9992 * clip(theta[motor] - q, 0.8))
                torque += spring
                drive = P * (goals[motor] - theta[motor]) - D_PID * dtheta[motor]
                drive = clip(drive, MAXIMUM)
                friction_positions[motor] = min(
                    max(friction_positions[motor], theta[motor] - slack), theta[motor] + slack
                )
                friction_torque = STICK * (theta[motor] - friction_positions[motor])
                rate = (drive - spring - friction_torque - D * dtheta[motor]) / J
                dtheta[motor] = clip(dtheta[motor] + step * rate, FASTEST)
                theta[motor] += step * dtheta[motor]
            weight = MASS * GRAVITY * LENGTH * math.sin(q)
            dq += step * (torque - LINK_DAMPING * dq - weight) / INERTIA
            q += step * dq
        angles.append(q)
    return np.array(angles)


def found(command):
    """Return the angle of the simulated robot of the package every 1 ms, in steps of 1 ms."""
    robot = pendulum(Qbmove, mode=3, motors=motors(Qbmove), damping=LINK_DAMPING)
    robot.joints.command("stiffness_preset", command(0.0)[1])
    robot.joints.set_mode(6)
    robot.joints.command("stiffness_preset", command(0.0)[1])  # removes the offset by friction
    angles = np.empty(STEPS)
    for i in range(STEPS):
        robot.joints.command("equilibrium_position", command(1e-3 * (i + 1))[0])
        robot.step()
        angles[i] = robot.q[0]
    return angles


def motors(kind, n=1, **parameters):
    return Motors.of([(kind(n), range(n))], **parameters)
