# SPDX-License-Identifier: Apache-2.0
"""Robots on springs, and runs of them under commanded equilibria."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.actuator import Actuator
from multipanda_py.actuators.qbmove import Qbmove
from multipanda_py.compliance import CompliantJoints, CompliantRobot, Motors, OperationMode
from multipanda_py.state import Matrix, Vector

SOFT, STIFF = 0.2, 0.6
"""Presets of a qbMove [rad]."""
PRESETS = {"soft": SOFT, "stiff": STIFF}
IDENTIFIED = {
    "a_1": (6.257, 3.383), "k_1": (0.01038, 0.1015),
    "a_2": (3.9, 7.011), "k_2": (0.08918, 0.05944),
}  # fmt: skip
"""Springs of the paper's two joints, which it prints with the names of k and a exchanged."""


class SpringMotion(NamedTuple):
    """What a robot did, from the first step on.

    Attributes:
        time: (k,) [s].
        q: Angles of joints, (k, n) [rad].
        equilibrium: At which motors stood, (k, n) [rad].
        commanded: Equilibria, (k, n) [rad].
    """

    time: Vector
    q: Matrix
    equilibrium: Matrix
    commanded: Matrix


def identified(n_joints: int, joint: int | None = None, scale: float = 1.0) -> Qbmove:
    """Return qbMoves with the springs that the paper identified.

    Args:
        n_joints: How many.
        joint: Which of its two joints they are all like, from 0; by default each its own.
        scale: By which all springs are stronger.
    """
    params = {
        name: np.array(values[:n_joints] if joint is None else [values[joint]] * n_joints)
        * (scale if name.startswith("k") else 1.0)
        for name, values in IDENTIFIED.items()
    }
    return Qbmove(n_joints, params)


def robot_of(
    model: mujoco.MjModel,
    springs: Actuator[Any],
    preset: ArrayLike,
    mode: OperationMode = OperationMode.EQUILIBRIUM_PID,
) -> CompliantRobot:
    """Return a robot whose joints ``j1`` to ``jn`` have springs, at rest where it hangs."""
    n = springs.n_joints
    groups = [(springs, range(n))]
    motors = Motors.of(groups) if mode.has_motors else None
    joints = CompliantJoints(groups, n, motors, mode)
    robot = CompliantRobot(model, [f"j{k + 1}" for k in range(n)], joints)
    if springs.preset_unit:
        joints.reset(np.zeros(n), preset=np.broadcast_to(preset, (n,)))
    return robot


def offset(springs: Actuator[Any], preset: float) -> Vector:
    """Return how far unequal springs rest beside their equilibrium without a load, (n,) [rad]."""
    return springs.equilibrium_for(0.0, 0.0, preset)


def follow(
    robot: CompliantRobot,
    command: Callable[[float], ArrayLike],
    seconds: float,
    settle: float = 0.0,
    beside: Vector | float = 0.0,
) -> SpringMotion:
    """Command equilibria over time.

    Args:
        robot: Where it stands.
        command: Equilibrium of the joints, one number or (n,), by time [rad].
        seconds: How long.
        settle: How long the first command is held before that [s].
        beside: What motors get on top of it, and is taken from what is told of them, one number
            or (n,) [rad]; see :func:`offset`.
    """
    joints, step = robot.joints, robot.model.opt.timestep
    joints.command("equilibrium_position", np.asarray(command(0.0)) + beside)
    for _ in range(round(settle / step)):
        robot.step()
    n, count = joints.n_joints, round(seconds / step)
    time = step * np.arange(1, count + 1)
    q, stood, commanded = (np.empty((count, n)) for _ in range(3))
    for k in range(count):
        commanded[k] = command(time[k])
        joints.command("equilibrium_position", commanded[k] + beside)
        robot.step()
        q[k], stood[k] = robot.q, joints.equilibrium - beside
    return SpringMotion(time, q, stood, commanded)
