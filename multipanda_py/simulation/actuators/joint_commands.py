# SPDX-License-Identifier: Apache-2.0
"""Commands and readings of compliant joints, and commands for bumpless mode changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.actuator import ElasticTorque, finite_numbers
from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.robots.actuated_joints import (
    COMMAND_ALIASES,
    COMMANDS,
    MAX_COMMAND,
    OperationMode,
)
from multipanda_py.simulation.actuators.equations import Equations
from multipanda_py.simulation.actuators.integrator import SpringIntegrator
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import Matrix, Vector


class Commands:
    """Last valid commands of compliant joints, such as ``reference_1``.

    Args:
        springs: Springs of the joints, which define the range of presets.

    Attributes:
        values: Commands by their names in :data:`.COMMANDS`, (n,) each.
        rejected: Number of rejected commands and mode changes.

    Thread: control.
    """

    def __init__(self, springs: JointSprings) -> None:
        self._springs = springs
        self.values: dict[str, Vector] = {name: np.zeros(springs.n_joints) for name in COMMANDS}
        self.values["stiffness_preset"][:] = springs.preset_low
        self.values["reference_2"][:] = np.where(springs.is_antagonistic, 0.0, springs.preset_low)
        self.rejected = 0

    def receive(
        self,
        name: str,
        values: ArrayLike,
        joints: Sequence[int] | None,
        modes: Sequence[OperationMode],
    ) -> tuple[str, NDArray[np.intp]]:
        """Check and store a command; return its name and the indices of its joints.

        Args:
            name: One of :data:`.COMMANDS`, or an alias of it.
            values: One number, or one per joint.
            joints: Indices of the joints, counted from 0; all by default.
            modes: Operation modes of all joints.

        Raises:
            ActuatorRejected: If a joint's mode does not accept the command or a value is invalid.
                The previous command stays, and ``rejected`` increases.
        """
        try:
            name, at, numbers = self._checked(name, values, joints, modes)
        except ActuatorRejected:
            self.rejected += 1
            raise
        self.values[name][at] = numbers
        return name, at

    def presets(self, values: ArrayLike) -> Vector:
        """Return checked presets of all joints, (n,); zero for joints without a preset.

        Args:
            values: Presets, one number or (n,) [rad or m].

        Raises:
            ActuatorRejected: If a preset is not finite or out of range.
        """
        n, springs = self._springs.n_joints, self._springs
        numbers = finite_numbers("stiffness_preset", values, n)
        self._check_preset_range("stiffness_preset", np.arange(n), numbers)
        return np.where(springs.has_second, numbers, 0.0)

    def _checked(
        self,
        name: str,
        values: ArrayLike,
        joints: Sequence[int] | None,
        modes: Sequence[OperationMode],
    ) -> tuple[str, NDArray[np.intp], Vector]:
        name = COMMAND_ALIASES.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self.values:
            raise ActuatorRejected(
                f"command: got {name!r:.40}, allowed {', '.join((*COMMANDS, *COMMAND_ALIASES))}"
            )
        at = joints_of(joints, self._springs.n_joints)
        for joint in at.tolist():
            if name not in modes[joint].commands:
                taken = " and ".join(modes[joint].commands)
                raise ActuatorRejected(
                    f"{name}: joint {joint + 1} is in mode {modes[joint]:d} "
                    f"({modes[joint].name.lower()}), which takes {taken}. Change the mode first"
                )
        numbers = finite_numbers(name, values, len(at))
        for index in np.flatnonzero(np.abs(numbers) > MAX_COMMAND):
            raise ActuatorRejected(
                f"{name} of joint {at[index] + 1}: got {numbers[index]:g}, allowed "
                f"{-MAX_COMMAND:g} to {MAX_COMMAND:g}"
            )
        if name == "stiffness_preset" or name == "reference_2":
            self._check_preset_range(name, at, numbers)
            numbers = np.where(self._springs.has_second[at], numbers, 0.0)
        return name, at, numbers

    def _check_preset_range(self, name: str, joints: NDArray[np.intp], values: Vector) -> None:
        springs = self._springs
        low, high = springs.preset_low[joints], springs.preset_high[joints]
        bounded = springs.has_second[joints]
        if name == "reference_2":
            bounded = bounded & ~springs.is_antagonistic[joints]
        for index in np.flatnonzero(bounded & ((values < low) | (values > high))):
            raise ActuatorRejected(
                f"{name} of joint {joints[index] + 1}: got {values[index]:g}, allowed "
                f"{low[index]:g} to {high[index]:g} {springs.preset_units[joints[index]]}"
            )


def joints_of(joints: Sequence[int] | None, n_joints: int) -> NDArray[np.intp]:
    """Check joint indices, and return them as an array, (m,).

    Args:
        joints: Indices of joints; None for all joints.
        n_joints: Number of joints.

    Raises:
        ActuatorRejected: If an index is invalid.
    """
    if joints is None:
        return np.arange(n_joints)
    allowed = f"allowed whole numbers from 0 to {n_joints - 1}"
    try:
        at = np.atleast_1d(np.asarray(joints))
    except ValueError:  # NumPy rejects lists of different lengths.
        raise ActuatorRejected(f"joints: got {joints!r:.60}, {allowed}") from None
    if at.size and (at.dtype.kind not in "iu" or at.ndim > 1):
        raise ActuatorRejected(f"joints: got {joints!r:.60}, {allowed}")
    for joint in at:
        if not 0 <= joint < n_joints:
            raise ActuatorRejected(f"joints: got {joint}, {allowed}")
    return at.astype(np.intp)


class Readings:
    """Readings of simulated motors and springs; each property returns a new array.

    Args:
        springs: Springs of all joints.

    Attributes:
        equations: Equations of motion of links and motors, without the springs.
        flow: Integrator with the state of links and motors.

    Thread: control.
    """

    def __init__(self, springs: JointSprings) -> None:
        self.springs = springs
        self.equations = Equations(springs.n_joints)
        self.flow = SpringIntegrator(springs, self.equations)
        self._damper_scale = 1.0  # Factor on the dampers in the last step.

    @property
    def n_joints(self) -> int:
        return self.springs.n_joints

    def evaluate(self) -> None:
        """Evaluate springs and controllers at the current state, for :meth:`last_step`."""
        self.flow.evaluate()

    def last_step(self) -> Matrix:
        """Return the readings of all motors after the last step, without a new evaluation.

        Returns:
            References, positions, velocities, torques and spring loads, (10, n): of each quantity
            one row for first and one for second motors. Without inertia, the torque equals the
            load. Without a controller, the reference equals the position.
        """
        flow, equations = self.flow, self.equations
        theta, load = flow.x[1:], equations.elastic * flow.loads[1:]
        reference = np.where(equations.gains[0, 1:] > 0.0, equations.aim[1:], theta)
        exerted = np.where(equations.inverse_inertia > 0.0, flow.torques[1:3], load)
        return np.concatenate((reference, theta, flow.v[1:], exerted, load))

    @property
    def theta(self) -> Matrix:
        """Positions of both motors, (2, n) [rad, or m for a pivot]."""
        return self.flow.x[1:].copy()

    @property
    def dtheta(self) -> Matrix:
        """Velocities of both motors, (2, n); zero for motors without inertia."""
        return self.flow.v[1:].copy()

    @property
    def elastic(self) -> ElasticTorque:
        """Spring torques on links, and loads of motors, (n,) each [Nm]; zero for rigid joints."""
        result = self.springs.torque(self.flow.x[0], self.flow.x[1:])
        return ElasticTorque(*(self.equations.elastic * torque for torque in result))

    @property
    def link_torque(self) -> Vector:
        """Torques on links by springs and dampers; commanded ones at rigid joints, (n,) [Nm]."""
        if self.springs.are_damped:
            self.equations.set_damping(self._damper_scale * self.springs.damping(self.flow.x[1:]))
        self.equations.put_torques()
        return self.flow.evaluate()[6 * self.n_joints :].copy()

    @property
    def motor_torque(self) -> Matrix:
        """Motor torques after saturation, stop forces included, (2, n) [Nm]; 0 without inertia."""
        self.flow.evaluate()
        motor_torque: Matrix = self.flow.torques[1:3] * (self.equations.inverse_inertia > 0.0)
        return motor_torque

    @property
    def integrated(self) -> Matrix:
        """Torques of the integral action of motor controllers, (2, n) [Nm]."""
        result: Matrix = self.equations.gains[1, 1:] * self.equations.memory[3:]
        return result

    @property
    def friction(self) -> Matrix:
        """Friction torques that oppose the motors, (2, n) [Nm]."""
        self.flow.evaluate()
        friction: Matrix = self.flow.torques[3:] * (self.equations.inverse_inertia > 0.0)
        return friction

    @property
    def link_stiffness(self) -> Vector:
        """Stiffness of springs at links, (n,) [Nm/rad]; zero for rigid joints."""
        return self.equations.elastic * self.springs.stiffness(self.flow.x[0], self.flow.x[1:])

    @property
    def preset(self) -> Vector:
        """Stiffness presets at the current motor positions, (n,) [rad or m]."""
        return self.springs.preset_of(self.flow.x[1:])

    @property
    def equilibrium(self) -> Vector:
        """Equilibrium angles at the current motor positions, (n,) [rad]."""
        return self.springs.equilibrium_of(self.flow.x[1:])


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
        torque: Torques on links, (n,) [Nm].
        motor_torque: Torques of both motors of each joint, (2, n) [Nm]; 0 for motors without
            inertia.
        aim: References of motor controllers, (2, n).
        modes: Modes of the joints before the change; None if the joints start at rest.
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
    """Return motor positions and velocities with which a mode change keeps the link torques.

    Args:
        springs: Springs of the joints.
        now: State before the mode change.
        modes: New modes.
        preset: Stiffness presets for joints that were in a mode without springs, (n,).

    Returns:
        Positions and velocities of both motors, (2, n) each.

    Raises:
        ActuatorRejected: If springs cannot exert the torque of a link.
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
    """Return commands that keep the current torques in new operation modes.

    Args:
        springs: Springs of the joints.
        now: State before the mode change.
        modes: New modes.
        theta: Motor positions after the change, (2, n).
        dtheta: Motor velocities after the change, (2, n).
        gains: Proportional and velocity gains of controllers in the new modes, of link and both
            motors, (2, 3, n).

    Returns:
        Commands by name, such as ``reference_1``, (n,) each.

    Raises:
        ActuatorRejected: If a link controller without proportional gain would have to exert a
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
            raise ActuatorRejected(
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
    """Return the references with which proportional controllers hold positions against loads.

    Args:
        position: Positions of links or motors, (n,) or (2, n) [rad].
        load: Loads, same shape [Nm].
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
    """Return the commands with which springs exert desired torques on links.

    Args:
        springs: Springs of the joints.
        modes: Modes of the joints.
        q: Link angles, (n,) [rad].
        torque: Desired torques on links, (n,) [Nm].
        preset: Presets of the springs, (n,).
        equilibrium: Equilibrium angles at which spring torques are nearest to ``torque``, (n,)
            [rad].
        gain: Proportional gains of the motor controllers, (2, n).

    Returns:
        Commands by name, (n,) each, and the torques that they cause on links, (n,) [Nm].
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
