# SPDX-License-Identifier: Apache-2.0
"""The FCI's two ways to take a joint motion: as positions, or as the velocities between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from multipanda_py.drivers.memory import POSITIONS, VELOCITIES
from multipanda_py.state import Vector

PERIOD = 1e-3
"""Of the FCI [s]."""


@dataclass(frozen=True)
class JointMode:
    """One of them.

    Attributes:
        name: As refusals call it.
        start: Begins a motion of a ``pylibfranka.Robot``, with the name of the robot's own
            controller that is to follow it.
        command: Returns what libfranka is to send, to move the joints from where the robot is
            told to be to other positions, (n,) [rad] each.
    """

    name: str
    start: Callable[[Any, str], Any]
    command: Callable[[Vector, Vector], Any]


def joint_modes() -> dict[int, JointMode]:
    """Return them by kind. Only where libfranka is: this module can be read without it."""
    import pylibfranka as franka

    own = {
        "joint_impedance": franka.ControllerMode.JointImpedance,
        "cartesian_impedance": franka.ControllerMode.CartesianImpedance,
    }
    return {
        POSITIONS: JointMode(
            "position",
            lambda robot, name: robot.start_joint_position_control(own[name]),
            lambda _, q: franka.JointPositions(q.tolist()),
        ),
        VELOCITIES: JointMode(
            "velocity",
            lambda robot, name: robot.start_joint_velocity_control(own[name]),
            lambda before, q: franka.JointVelocities(((q - before) / PERIOD).tolist()),
        ),
    }
