# SPDX-License-Identifier: Apache-2.0
"""Commands for bumpless mode changes of compliant joints, and for desired link torques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import Matrix, Vector

_TORQUE_TOLERANCE = 1e-12
"""Tolerance for equal torques, relative to 1 Nm."""


@dataclass(frozen=True, eq=False)
class JointSnapshot:
    """State and commands of joints before a mode change.

    Attributes:
        q: Link angles, (n,) [rad].
        dq: Link velocities, (n,) [rad/s].
        theta: Motor positions, (2, n).
        dtheta: Motor velocities, (2, n).
        torque: Torques on links, including dampers of springs, (n,) [Nm].
        motor_torque: Torques of motors with inertia, (2, n) [Nm].
        aim: References of motor controllers, (2, n).
        modes: Modes of the joints, or None to derive all commands from the springs.
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
    springs: JointSprings, now: JointSnapshot, modes: Sequence[OperationMode], preset: Vector
) -> tuple[Matrix, Matrix]:
    """Return motor positions and velocities that keep the torques on links in new modes.

    Args:
        springs: Springs of the joints.
        now: State before the mode change.
        modes: New modes.
        preset: Preset for joints that had no springs before, (n,).

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
    # The motors start at rest, so the springs must also compensate the torque of their dampers.
    desired = now.torque + damping * now.dq
    exerted = springs.torque(now.q, now.theta).link
    keeps = was_elastic & (
        moving | (np.abs(desired - exerted) <= _TORQUE_TOLERANCE * (1.0 + np.abs(desired)))
    )
    solves = elastic & ~keeps
    theta, dtheta = now.theta.copy(), np.where(moving, now.dtheta, 0.0)
    if solves.any():
        equilibrium = springs.equilibrium_for(now.q, np.where(solves, desired, 0.0), preset)
        theta = np.where(solves, springs.references(equilibrium, preset), theta)
    return theta, dtheta


def commands_for(
    springs: JointSprings,
    now: JointSnapshot,
    modes: Sequence[OperationMode],
    theta: Matrix,
    dtheta: Matrix,
    gains: Matrix,
) -> dict[str, Vector]:
    """Return the commands of all names with which joints continue their motion.

    Args:
        springs: Springs of the joints.
        now: State before the mode change.
        modes: New modes.
        theta: Motor positions after the change, (2, n).
        dtheta: Motor velocities after the change, (2, n).
        gains: Proportional and velocity gains of controllers in the new modes, of link and both
            motors, (2, 3, n).

    Raises:
        ActuatorRefused: If a link controller without proportional gain would have to exert a
            torque.
    """
    before = now.modes or (OperationMode.LINK_TORQUE,) * len(modes)
    had_motors = np.array([mode.has_motors for mode in before])
    had_pid = np.array([mode.has_motor_pid for mode in before])
    p, d = gains
    torque = np.where(had_motors, now.motor_torque, springs.torque(now.q, theta)[1:])
    aim = np.where(had_pid, now.aim, reference_under_load(theta, torque + d[1:] * dtheta, p[1:]))
    for joint, mode in enumerate(modes):
        if mode is OperationMode.LINK_PID and p[0, joint] == 0.0 and now.torque[joint] != 0.0:
            raise ActuatorRefused(
                f"mode 1 (link_pid): joint {joint + 1} carries {now.torque[joint]:.4g} Nm, but "
                "its controller has p = 0. Use p above 0, or switch while there is no torque"
            )
    with_pid = np.array([mode.has_motor_pid for mode in modes])
    stands = np.where(with_pid, aim, theta)
    return {
        "torque_command": now.torque,
        "link_command": reference_under_load(now.q, now.torque + d[0] * now.dq, p[0]),
        "reference_1": stands[0],
        "reference_2": stands[1],
        "equilibrium_position": springs.equilibrium_of(stands),
        "stiffness_preset": springs.preset_of(stands),
        "motor_1_command": torque[0],
        "motor_2_command": torque[1],
    }


def reference_under_load(position: Vector, load: Vector, gain: Vector) -> Vector:
    """Return the reference with which a proportional controller stays at a position under load.

    Args:
        position: Positions of links or motors, (n,) or (2, n) [rad].
        load: Torques that the controllers have to exert, same shape [Nm].
        gain: Proportional gains, same shape [Nm/rad].
    """
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
    """Return the commands with which springs exert torques on links, and the exerted torques.

    Args:
        springs: Springs of the joints.
        modes: Modes of the joints.
        q: Link angles, (n,) [rad].
        torque: Desired torques on links, (n,) [Nm].
        preset: Presets of the springs, (n,).
        equilibrium: Equilibrium angles at which springs exert these torques, or come nearest to
            them, (n,) [rad].
        gain: Proportional gains of the motor controllers, (2, n).

    Returns:
        Commands by name, (n,) each, and exerted torques, (n,) [Nm].
    """
    stands = springs.references(equilibrium, preset)
    exerted = springs.torque(q, stands)
    rigid = np.array([mode.is_rigid for mode in modes])
    if any(mode.has_motor_pid for mode in modes):
        stands = reference_under_load(stands, np.array(exerted[1:]), gain)
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
