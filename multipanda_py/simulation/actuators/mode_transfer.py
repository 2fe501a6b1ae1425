# SPDX-License-Identifier: Apache-2.0
"""Commands with which joints go on as they are, or exert what a law asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import Matrix, Vector

_SAME = 1e-12
"""Torques that differ by less are the same, relative to 1 Nm."""


@dataclass(frozen=True, eq=False)
class Driven:
    """What drives joints.

    Attributes:
        q: Angles of links, (n,) [rad].
        dq: Their velocities, (n,) [rad/s].
        theta: Positions of motors, (2, n).
        dtheta: Their velocities, (2, n).
        torque: On links, dampers of springs included, (n,) [Nm].
        motor_torque: Of motors that have inertia, (2, n) [Nm].
        aim: Where controllers of motors are to bring them, (2, n).
        modes: Of joints; nothing if what drives them is to be found anew from their springs.
    """

    q: Vector
    dq: Vector
    theta: Matrix
    dtheta: Matrix
    torque: Vector
    motor_torque: Matrix
    aim: Matrix
    modes: tuple[OperationMode, ...] | None


def motors_for(
    springs: JointSprings, now: Driven, modes: Sequence[OperationMode], preset: Vector
) -> tuple[Matrix, Matrix]:
    """Return where motors are to stand and how fast they are, so that links feel what they do.

    Args:
        springs: Of the joints.
        now: What drives them.
        modes: That come next.
        preset: To begin with where there were no springs, (n,).

    Raises:
        ActuatorRefused: If springs cannot exert the torque of a link.
    """
    before = now.modes or tuple(modes)
    elastic = np.array([not mode.is_rigid for mode in modes])
    was_elastic = np.array([not mode.is_rigid for mode in before])
    moving = np.array([mode.has_motors for mode in modes]) & (
        np.array([mode.has_motors for mode in before])
    )
    preset = np.where(was_elastic, springs.preset_of(now.theta), preset)
    low, high = springs.preset_low, springs.preset_high
    preset = np.where(springs.has_second, np.clip(preset, low, high), 0.0)
    damping = springs.damping(springs.references(now.q, preset))
    wanted = now.torque + damping * now.dq  # of motors that stand still
    exerted = springs.torque(now.q, now.theta).link
    keeps = was_elastic & (moving | (np.abs(wanted - exerted) <= _SAME * (1.0 + np.abs(wanted))))
    solves = elastic & ~keeps
    theta, dtheta = now.theta.copy(), np.where(moving, now.dtheta, 0.0)
    if solves.any():
        equilibrium = springs.equilibrium_for(now.q, np.where(solves, wanted, 0.0), preset)
        theta = np.where(solves, springs.references(equilibrium, preset), theta)
    return theta, dtheta


def commands_for(
    springs: JointSprings,
    now: Driven,
    modes: Sequence[OperationMode],
    theta: Matrix,
    dtheta: Matrix,
    gains: Matrix,
) -> dict[str, Vector]:
    """Return commands of all names with which joints go on.

    Args:
        springs: Of the joints.
        now: What drives them.
        modes: That come next.
        theta: Where motors stand then, (2, n).
        dtheta: How fast they are, (2, n).
        gains: Proportional and velocity gains of controllers in those modes, of links and both
            motors, (2, 3, n).

    Raises:
        ActuatorRefused: If the controller of a link has no gain to exert a torque with.
    """
    before = now.modes or (OperationMode.LINK_TORQUE,) * len(modes)
    had_motors = np.array([mode.has_motors for mode in before])
    had_pid = np.array([mode.has_motor_pid for mode in before])
    p, d = gains
    torque = np.where(had_motors, now.motor_torque, springs.torque(now.q, theta)[1:])
    aim = np.where(had_pid, now.aim, aim_with_load(theta, torque + d[1:] * dtheta, p[1:]))
    for joint, mode in enumerate(modes):
        if mode is OperationMode.LINK_PID and p[0, joint] == 0.0 and now.torque[joint] != 0.0:
            raise ActuatorRefused(
                f"mode 1 (link_pid): joint {joint + 1} carries {now.torque[joint]:.4g} Nm, and "
                "its controller has p = 0; allowed p above 0, or no torque on it"
            )
    with_pid = np.array([mode.has_motor_pid for mode in modes])
    stands = np.where(with_pid, aim, theta)
    return {
        "torque_command": now.torque,
        "link_command": aim_with_load(now.q, now.torque + d[0] * now.dq, p[0]),
        "reference_1": stands[0],
        "reference_2": stands[1],
        "equilibrium_position": springs.equilibrium_of(stands),
        "stiffness_preset": springs.preset_of(stands),
        "motor_1_command": torque[0],
        "motor_2_command": torque[1],
    }


def aim_with_load(position: Vector, load: Vector, gain: Vector) -> Vector:
    """Return where a proportional controller is to aim to stand somewhere under a load."""
    return position + np.divide(load, gain, out=np.zeros_like(load + gain), where=gain > 0.0)


def commands_for_torque(
    springs: JointSprings,
    modes: Sequence[OperationMode],
    q: Vector,
    torque: Vector,
    preset: Vector,
    equilibrium: Vector,
    gain: Matrix,
) -> tuple[dict[str, Vector], Vector]:
    """Return commands with which springs exert torques on links, and what they exert, (n,) [Nm].

    Args:
        springs: Of the joints.
        modes: That they are in.
        q: Angles of links, (n,) [rad].
        torque: Wanted on them, (n,) [Nm].
        preset: Of their springs, (n,).
        equilibrium: At which springs exert that, or come nearest to it, (n,) [rad].
        gain: Proportional gains of motors' controllers, (2, n).
    """
    stands = springs.references(equilibrium, preset)
    exerted = springs.torque(q, stands)
    rigid = np.array([mode.is_rigid for mode in modes])
    if any(mode.has_motor_pid for mode in modes):
        stands = aim_with_load(stands, np.array(exerted[1:]), gain)
        equilibrium, preset = springs.equilibrium_of(stands), springs.preset_of(stands)
    commands = {
        "torque_command": torque,
        "reference_1": stands[0],
        "reference_2": stands[1],
        "equilibrium_position": equilibrium,
        "stiffness_preset": preset,
        "motor_1_command": exerted.motor_1,
        "motor_2_command": exerted.motor_2,
    }
    return commands, np.where(rigid, torque, exerted.link)
