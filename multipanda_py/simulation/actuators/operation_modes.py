# SPDX-License-Identifier: Apache-2.0
"""Compliant joints with seven operation modes and their commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.actuator import finite_numbers
from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.joint_commands import (
    Commands,
    JointSnapshot,
    Readings,
    commands_for,
    commands_for_torque,
    joints_of,
    motors_for,
)
from multipanda_py.simulation.actuators.motors import LinkPid, Motors
from multipanda_py.simulation.actuators.springs import Actuators, JointSprings
from multipanda_py.state import Matrix, Vector

ModeName: TypeAlias = "OperationMode | int | str"
"""Operation mode, its number or its name."""
BeyondStops: TypeAlias = dict[tuple[int, int], tuple[float, float, float]]
"""Commanded position, lower stop and upper stop, by joint and motor, both counted from 0."""
_TORQUE_TOLERANCE = 1e-6
"""Maximum difference between commanded and exerted torque that counts as exact, relative to
1 Nm."""


class CommandedJoints(Readings):
    """Motors and springs of n joints, with the commands of their operation modes.

    Args:
        actuators: Actuators, each with the indices of its joints.
        n_joints: Number of joints, n.
        motors: Motors of the joints; required in modes 4 to 6 of :class:`.OperationMode`.
        mode: Initial mode of all joints, or one per joint; see :class:`.OperationMode`.
        link_pid: PID controllers of links for mode ``link_pid``; None: default gains of
            :meth:`.LinkPid.from_config`.

    Attributes:
        modes: Operation mode of every joint.
        mode_numbers: Numbers of the modes, (n,).
        is_substepped: 0 for joints in mode ``link_torque``, which move with the step of the
            simulated world; 1 for all others, which move in substeps, (n,).
        n_limited: Number of commands that were limited to what springs and motors can execute.

    Raises:
        ActuatorRejected: If arguments do not fit together.

    Thread: control.
    """

    def __init__(
        self,
        actuators: Actuators,
        n_joints: int,
        motors: Motors | None = None,
        mode: ModeName | Sequence[ModeName] = OperationMode.EQUILIBRIUM,
        *,
        link_pid: LinkPid | None = None,
    ) -> None:
        if motors is not None and motors.n_joints != n_joints:
            raise ActuatorRejected(
                f"motors: got values of {motors.n_joints} joints, allowed {n_joints}"
            )
        super().__init__(JointSprings(actuators, n_joints))
        self._motors, self._link_pid = motors, link_pid or LinkPid.from_config(n_joints)
        self._commands = Commands(self.springs)
        self._deflection = np.zeros(n_joints)
        # Commanded presets. Motor positions do not determine them, because loads shift motors.
        self._preset = self.springs.preset_low.copy()
        self.n_limited = 0
        self.modes: tuple[OperationMode, ...] = (OperationMode.LINK_TORQUE,) * n_joints
        self._aim, self._direct = np.zeros((3, n_joints)), np.zeros((3, n_joints))
        self._commanded = self._aim[1:].copy()
        self._take_modes(_modes_of(mode, n_joints))
        self.reset(np.zeros(n_joints))

    @property
    def rejected(self) -> int:
        """Number of rejected commands and mode changes."""
        return self._commands.rejected

    def reset(
        self, q: ArrayLike, torque: ArrayLike = 0.0, preset: ArrayLike | None = None
    ) -> None:
        """Set links and motors to rest; see :meth:`.CompliantJoints.reset`."""
        q, desired = (
            finite_numbers(*one, self.n_joints) for one in (("q", q), ("torque", torque))
        )
        flow, chosen = (
            self.flow,
            self._preset if preset is None else self._commands.presets(preset),
        )
        elastic, equilibrium = np.where(self.equations.elastic > 0.0, desired, 0.0), q
        if elastic.any():
            equilibrium = self.springs.equilibrium_for(q, elastic, chosen)
        flow, before = self.flow, self.flow.state.copy()
        flow.state[:] = 0.0
        flow.x[0], flow.x[1:] = q, self.springs.references(equilibrium, chosen)
        try:
            self._change_modes(self.modes, np.arange(self.n_joints), desired, from_rest=True)
        except ActuatorRejected:
            flow.state[:] = before
            raise
        self._preset = chosen

    def set_mode(self, mode: ModeName, joints: Sequence[int] | None = None) -> None:
        """Change the operation mode of joints without a jump of the link torque.

        Args:
            mode: Operation mode, its number or its name.
            joints: Indices of the joints; all by default.

        Raises:
            ActuatorRejected: If the mode does not exist or lacks motor parameters, or if springs
                cannot exert the current link torque. Modes then stay, and ``rejected`` increases.
        """
        try:
            new, at = OperationMode.from_value(mode), joints_of(joints, self.n_joints)
            modes = list(self.modes)
            for joint in at:
                modes[joint] = new
            self._refuse_without_motors(modes)
            changed = np.array([j for j in at if self.modes[j] is not new], dtype=np.intp)
            self._change_modes(modes, changed, self.link_torque)
        except ActuatorRejected:
            self._commands.rejected += 1
            raise

    def command(self, name: str, values: ArrayLike, joints: Sequence[int] | None = None) -> None:
        """Set one command of joints; their operation mode must accept it.

        Args:
            name: ``torque_command``, ``link_command``, ``reference_1``, ``reference_2``,
                ``equilibrium_position``, ``stiffness_preset``, ``motor_1_command`` or
                ``motor_2_command``.
            values: One number, or one per joint [Nm, rad or m].
            joints: Indices of the joints; all by default.

        Raises:
            ActuatorRejected: If the mode of a joint does not accept the command, or a value is not
                finite or out of range. The previous command stays, and ``rejected`` increases.
        """
        name, at = self._commands.receive(name, values, joints, self.modes)
        if name == "stiffness_preset":
            self._preset[at] = self._commands.values[name][at]
        self._send_commands()

    def set_references(self, references: Matrix, joints: Sequence[int]) -> None:
        """Set motor references without checks, for control loops that compute them in each cycle.

        References beyond a stop or the preset range are allowed; motors do not exceed stops.

        Args:
            references: References of both motors, (2, n) [rad, or m for a pivot].
            joints: Indices of the joints to command.
        """
        values, second = self._commands.values, references[1] * self.springs.has_second
        values["reference_1"][joints] = references[0, joints]
        values["reference_2"][joints] = second[joints]
        self._send_commands()

    def commanded(self, name: str) -> Vector:
        """Return the last valid values of a command, such as ``reference_1``, (n,)."""
        return self._commands.values[name].copy()

    def beyond_stops(self) -> BeyondStops:
        """Return the motors whose commanded position is beyond a stop.

        Returns:
            Commanded position, lower and upper stop [rad or m], by indices of joint and motor.
        """
        if self._motors is None:
            return {}
        aim, low, high = self._commanded, self._motors.min_position, self._motors.max_position
        takes_references = np.array([mode.has_motor_references for mode in self.modes])
        beyond = np.array([takes_references, takes_references & self.springs.has_second]) & (
            (aim < low) | (aim > high)
        )
        return {
            (joint, motor): (aim[motor, joint], low[motor, joint], high[motor, joint])
            for motor, joint in np.argwhere(beyond).tolist()
        }

    @property
    def references(self) -> Matrix:
        """Commanded motor positions, (2, n) [rad or m]; :meth:`limit` does not change them."""
        return self._commanded.copy()

    @property
    def motor_commands(self) -> Matrix:
        """Commanded motor torques, (2, n) [Nm or N]; zero in other modes than ``motor_torque``."""
        values = self._commands.values
        commands = values["motor_1_command"], values["motor_2_command"]
        motor_commands: Matrix = self._drives * np.array(commands)
        return motor_commands

    def limit(self, aims: Matrix, torques: Matrix) -> None:
        """Override motor references and motor torques until the next command, without checks.

        Args:
            aims: References of both motors, (2, n) [rad or m].
            torques: Torques of both motors, (2, n) [Nm or N]; used only in mode ``motor_torque``.
        """
        self._aim[1:] = aims
        self._direct[1:] = self._drives * torques
        self._send_to_motors()

    def command_link_torque(self, torque: ArrayLike, preset: ArrayLike | None = None) -> None:
        """Command the torques that springs exert on links, such as those of an effort controllet.

        Torques that springs cannot exert are limited and counted in ``n_limited``.

        Args:
            torque: Desired torques on links, (n,) [Nm].
            preset: Stiffness preset, one number or (n,); unchanged by default.

        Raises:
            ActuatorRejected: If a number is not finite or out of range, or a link is under PID
                control. The previous command stays, and ``rejected`` increases.
        """
        try:
            desired = finite_numbers("torque", torque, self.n_joints)
            chosen = self._preset_for_torque(preset)
        except ActuatorRejected:
            self._commands.rejected += 1
            raise
        q = self.flow.x[0]
        equilibrium = self._nearest_equilibrium(q, desired, chosen)
        commands, exerted = commands_for_torque(
            self.springs, self.modes, q, desired, chosen, equilibrium, self.equations.gains[0, 1:]
        )
        self.n_limited += bool(
            (np.abs(exerted - desired) > _TORQUE_TOLERANCE * (1.0 + np.abs(desired))).any()
        )
        for name, values in commands.items():
            self._commands.values[name][:] = values
        self._send_commands()

    def references_for(
        self, torque: Vector, preset: Vector | None = None, q: Vector | None = None
    ) -> Matrix:
        """Return the motor references at which springs exert torques on links; command nothing.

        For a torque that springs cannot exert, the result gives the nearest possible torque.

        Args:
            torque: Desired torques on links, (n,) [Nm].
            preset: Stiffness presets, (n,); None: the last commanded presets.
            q: Joint angles, (n,) [rad]; None: the current angles.

        Returns:
            References of both motors, (2, n) [rad, or m for a pivot].
        """
        chosen = self._preset if preset is None else preset
        at = self.flow.x[0] if q is None else q
        return self.springs.references(self._nearest_equilibrium(at, torque, chosen), chosen)

    def _nearest_equilibrium(self, q: Vector, torque: Vector, preset: Vector) -> Vector:
        """Return equilibrium angles at which springs come nearest to ``torque``, (n,) [rad]."""
        start = q + self._deflection
        equilibrium = self.springs.nearest_equilibrium(q, torque, preset, start)
        self._deflection = equilibrium - q
        return equilibrium

    def _preset_for_torque(self, new_preset: ArrayLike | None) -> Vector:
        if OperationMode.LINK_PID in self.modes:
            raise ActuatorRejected(
                f"torque: joint {self.modes.index(OperationMode.LINK_PID) + 1} is in mode 1 "
                "(link_pid), which takes link_command. Change the mode first"
            )
        if new_preset is not None:
            self._preset = self._commands.presets(new_preset)
        return self._preset

    def _refuse_without_motors(self, modes: Sequence[OperationMode]) -> None:
        for joint, mode in enumerate(modes):
            if mode.has_motors and self._motors is None:
                raise ActuatorRejected(
                    f"mode of joint {joint + 1}: got {mode:d} ({mode.name.lower()}), allowed 0 to "
                    "3, because the joint has no motor parameters"
                )

    def _take_modes(self, modes: Sequence[OperationMode]) -> None:
        self._refuse_without_motors(modes)
        springs, self.modes = self.springs, tuple(modes)
        self.mode_numbers = np.array(self.modes, dtype=np.int64)
        self.equations.set_modes(
            modes, self._motors, self._link_pid, springs.has_second, springs.is_antagonistic
        )
        self.is_substepped = np.array(
            [float(mode is not OperationMode.LINK_TORQUE) for mode in modes]
        )
        ideal = [not (mode.is_rigid or mode.has_motors) for mode in modes]
        mapped = [mode.takes_equilibrium for mode in modes]
        self._stands, self._maps = any(ideal), any(mapped)
        self._ideal = slice(None) if all(ideal) else np.array(ideal)
        self._mapped = slice(None) if all(mapped) else np.array(mapped)
        self._links = 1.0 - self.is_substepped
        self._drives = np.array([float(mode is OperationMode.MOTOR_TORQUE) for mode in modes])
        self._pushes = bool(self._links.any() or self._drives.any())
        self._direct[:] = 0.0

    def _change_modes(
        self,
        modes: Sequence[OperationMode],
        changed_joints: NDArray[np.intp],
        link_torque: Vector,
        from_rest: bool = False,
    ) -> None:
        flow, equations, springs = self.flow, self.equations, self.springs
        flow.evaluate()
        now = JointSnapshot(
            flow.x[0], flow.v[0], flow.x[1:], flow.v[1:], link_torque, flow.torques[1:3].copy(),
            equations.aim[1:].copy(), None if from_rest else self.modes,
        )  # fmt: skip
        before, memory = self.modes, equations.memory
        try:
            theta, dtheta = motors_for(springs, now, modes, self._preset)
            self._take_modes(modes)
            commands = commands_for(springs, now, modes, theta, dtheta, equations.gains[[0, 2]])
        except ActuatorRejected:
            self._take_modes(before)
            equations.memory = memory
            raise
        for name, values in commands.items():
            self._commands.values[name][changed_joints] = values[changed_joints]
        flow.x[1:, changed_joints], flow.v[1:, changed_joints] = (
            theta[:, changed_joints],
            dtheta[:, changed_joints],
        )
        sticks = [j for j in changed_joints if from_rest or not before[j].has_motors]
        clears = [
            j
            for j in changed_joints
            if from_rest or not (before[j].has_motor_pid and modes[j].has_motor_pid)
        ]
        equations.reset_memory(flow.x[1:], sticks, clears)
        flow.recheck_limits()
        self._send_commands()

    def _send_commands(self) -> None:
        values, springs = self._commands.values, self.springs
        aim, torque = self._aim, self._direct
        aim[0], aim[1], aim[2] = (
            values[name] for name in ("link_command", "reference_1", "reference_2")
        )
        if self._maps:
            aim[1:, self._mapped] = springs.references(
                values["equilibrium_position"], values["stiffness_preset"]
            )[:, self._mapped]
        self._commanded[:] = aim[1:]
        if self._pushes:
            torque[0] = self._links * values["torque_command"]
            torque[1:] = values["motor_1_command"], values["motor_2_command"]
            torque[1:] *= self._drives
        self._send_to_motors()

    def _send_to_motors(self) -> None:
        flow, aim = self.flow, self._aim
        if self._stands:
            reached, ideal = aim[1:, self._ideal], self._ideal
            if self._motors is not None:
                low, high = (
                    self._motors.min_position[:, ideal],
                    self._motors.max_position[:, ideal],
                )
                # Motors without dynamics do not move beyond their stops.
                self.n_limited += bool(((reached < low) | (reached > high)).any())
                reached = np.minimum(np.maximum(reached, low), high)
            flow.x[1:, ideal] = reached
        self.equations.command(aim, self._direct)


def _modes_of(mode: ModeName | Sequence[ModeName], n_joints: int) -> list[OperationMode]:
    if isinstance(mode, (str, int)):
        return [OperationMode.from_value(mode)] * n_joints
    if len(mode) != n_joints:
        raise ActuatorRejected(f"mode: got {len(mode)} modes, allowed one or {n_joints}")
    return [OperationMode.from_value(one) for one in mode]
