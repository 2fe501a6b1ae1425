# SPDX-License-Identifier: Apache-2.0
"""What is commanded of joints with springs, in seven modes that change while they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.actuator import finite_numbers
from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.joint_commands import Commands, Readings, joints_of
from multipanda_py.simulation.actuators.mode_transfer import (
    Driven,
    commands_for,
    commands_for_torque,
    motors_for,
)
from multipanda_py.simulation.actuators.motors import LinkPid, Motors
from multipanda_py.simulation.actuators.springs import Actuators, JointSprings
from multipanda_py.state import Matrix, Vector

ModeName: TypeAlias = "OperationMode | int | str"
"""A mode, its number or its name."""
BeyondStops: TypeAlias = dict[tuple[int, int], tuple[float, float, float]]
"""By joint and motor, both counted from 0: what one is told, and where its stops are."""
_BOUNDED = 1e-6
"""Torques that springs miss by less are not bounded, relative to 1 Nm."""


class CommandedJoints(Readings):
    """Motors and springs with their commands.

    Args:
        actuators: Springs, with the joints that each drives, counted from 0.
        n_joints: Number of joints, n.
        motors: Their motors; modes from 4 on need them.
        mode: What is commanded at first, of all joints or of each; see :class:`.OperationMode`.
        link_pid: Controllers of links, for mode 1; the toolbox's by default.

    Attributes:
        modes: Of every joint.
        mode_numbers: The same as numbers, (n,).
        inner: 1 for joints that springs or controllers drive in steps of their own, 0 for those
            whose torque is commanded, which go as the world does without them, (n,).
        bounded: How many commands were bounded.

    Raises:
        ActuatorRefused: If arguments do not fit together.

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
            raise ActuatorRefused(f"motors: got {motors.n_joints} joints, allowed {n_joints}")
        super().__init__(JointSprings(actuators, n_joints))
        self._motors, self._link_pid = motors, link_pid or LinkPid.of(n_joints)
        self._commands = Commands(self.springs)
        self._deflection = np.zeros(n_joints)
        self._preset = self.springs.preset_low.copy()  # as asked for, without what loads add
        self.bounded = 0
        self.modes: tuple[OperationMode, ...] = (OperationMode.LINK_TORQUE,) * n_joints
        self._aim, self._direct = np.zeros((3, n_joints)), np.zeros((3, n_joints))
        self._asked = self._aim[1:].copy()
        self._take_modes(_modes_of(mode, n_joints))
        self.reset(np.zeros(n_joints))

    @property
    def refused(self) -> int:
        """How many commands, and changes of modes, were refused."""
        return self._commands.refused

    def reset(
        self, q: ArrayLike, torque: ArrayLike = 0.0, preset: ArrayLike | None = None
    ) -> None:
        """Put links and motors at rest; see :meth:`.CompliantJoints.reset`."""
        q, wanted = (finite_numbers(*one, self.n_joints) for one in (("q", q), ("torque", torque)))
        flow, chosen = (
            self.flow,
            self._preset if preset is None else self._commands.presets(preset),
        )
        elastic, equilibrium = np.where(self.equations.elastic > 0.0, wanted, 0.0), q
        if elastic.any():
            equilibrium = self.springs.equilibrium_for(q, elastic, chosen)
        flow, before = self.flow, self.flow.state.copy()
        flow.state[:] = 0.0
        flow.x[0], flow.x[1:] = q, self.springs.references(equilibrium, chosen)
        try:
            self._take_over(self.modes, np.arange(self.n_joints), wanted, anew=True)
        except ActuatorRefused:
            flow.state[:] = before
            raise
        self._preset = chosen

    def set_mode(self, mode: ModeName, joints: Sequence[int] | None = None) -> None:
        """Change what is commanded, without a jump of the links' torque.

        The new mode's commands are those that go on with the torque of now.

        Args:
            mode: By its number or its name.
            joints: Which joints, counted from 0; all by default.

        Raises:
            ActuatorRefused: If there is no such mode, it needs parameters of motors that were not
                given, or springs cannot exert what the link is driven with; nothing changes but
                ``refused``, which counts.
        """
        try:
            new, at = OperationMode.of(mode), joints_of(joints, self.n_joints)
            modes = list(self.modes)
            for joint in at:
                modes[joint] = new
            self._refuse_without_motors(modes)
            changed = np.array([j for j in at if self.modes[j] is not new], dtype=np.intp)
            self._take_over(modes, changed, self.link_torque)
        except ActuatorRefused:
            self._commands.refused += 1
            raise

    def command(self, name: str, values: ArrayLike, joints: Sequence[int] | None = None) -> None:
        """Take a command of the mode that joints are in.

        Args:
            name: ``torque_command``, ``link_command``, ``reference_1``, ``reference_2``,
                ``equilibrium_position``, ``stiffness_preset``, ``motor_1_command`` or
                ``motor_2_command``.
            values: One number, or one for each of the joints [Nm, rad, or m].
            joints: Which joints, counted from 0; all by default.

        Raises:
            ActuatorRefused: If the mode of a joint does not take it, or a value is not finite or
                out of range; the last good command is kept and ``refused`` counts.
        """
        name, at = self._commands.take(name, values, joints, self.modes)
        if name == "stiffness_preset":
            self._preset[at] = self._commands.values[name][at]
        self._apply()

    def follow(self, references: Matrix, joints: Sequence[int]) -> None:
        """Have motors aim somewhere, in modes that take references: for loops, unchecked.

        Where a controller needs an error to hold a load, that may be beyond a stop or a preset's
        range; the motor then is at its end.

        Args:
            references: Of both motors, (2, n) [rad, or m where that is their unit].
            joints: Which joints are meant, counted from 0.
        """
        values, second = self._commands.values, references[1] * self.springs.has_second
        values["reference_1"][joints] = references[0, joints]
        values["reference_2"][joints] = second[joints]
        self._apply()

    def commanded(self, name: str) -> Vector:
        """Return the last good command of a name, (n,)."""
        return self._commands.values[name].copy()

    def beyond_stops(self) -> BeyondStops:
        """Return motors that are told to go beyond their stops, which hold them."""
        if self._motors is None:
            return {}
        aim, low, high = self._asked, self._motors.low, self._motors.high
        told = np.array([mode.takes_references for mode in self.modes])
        beyond = np.array([told, told & self.springs.has_second]) & ((aim < low) | (aim > high))
        return {
            (joint, motor): (aim[motor, joint], low[motor, joint], high[motor, joint])
            for motor, joint in np.argwhere(beyond).tolist()
        }

    @property
    def aims(self) -> Matrix:
        """Where motors are commanded to be, (2, n); see :meth:`restrain`."""
        return self._asked.copy()

    @property
    def motor_commands(self) -> Matrix:
        """Torques that are commanded of motors, (2, n) [Nm, or N]; zero in other modes."""
        values = self._commands.values
        commands = values["motor_1_command"], values["motor_2_command"]
        found: Matrix = self._drives * np.array(commands)
        return found

    def restrain(self, aims: Matrix, torques: Matrix) -> None:
        """Have motors aim at, or exert, less than is commanded, until commands come: unchecked.

        Args:
            aims: Of both motors, (2, n) [rad, or m]; :attr:`aims` where they are as commanded.
            torques: Of motors whose torque is commanded, likewise [Nm, or N].
        """
        self._aim[1:] = aims
        self._direct[1:] = self._drives * torques
        self._tell()

    def command_link_torque(self, torque: ArrayLike, preset: ArrayLike | None = None) -> None:
        """Have springs exert torques on links, as a law of torques commands them.

        Springs are inverted at the joints' angles of now: motors are told to stand where springs
        exert that torque, in the words of the mode; with PID controllers the load that they carry
        is added. What springs cannot exert is bounded, and counted in ``bounded``.

        Args:
            torque: Wanted on links, (n,) [Nm].
            preset: Of the stiffness, one number or (n,); as it was by default.

        Raises:
            ActuatorRefused: If a number is not finite or out of range, or a link is under PID
                control; the last good command is kept and ``refused`` counts.
        """
        try:
            wanted = finite_numbers("torque", torque, self.n_joints)
            chosen = self._chosen_preset(preset)
        except ActuatorRefused:
            self._commands.refused += 1
            raise
        q = self.flow.x[0]
        equilibrium = self._equilibrium_for_torque(q, wanted, chosen)
        commands, exerted = commands_for_torque(
            self.springs, self.modes, q, wanted, chosen, equilibrium, self.equations.gains[0, 1:]
        )
        self.bounded += bool((np.abs(exerted - wanted) > _BOUNDED * (1.0 + np.abs(wanted))).any())
        for name, values in commands.items():
            self._commands.values[name][:] = values
        self._apply()

    def references_for(
        self, torque: Vector, preset: Vector | None = None, q: Vector | None = None
    ) -> Matrix:
        """Return where motors exert torques on links, or come nearest to it, (2, n).

        For laws of one's own on top of motors: nothing is commanded, nor checked.

        Args:
            torque: Wanted on links, (n,) [Nm].
            preset: Of the stiffness, (n,); that of the last torque by default.
            q: Angles of joints, (n,) [rad]; those of the last step by default.
        """
        chosen = self._preset if preset is None else preset
        at = self.flow.x[0] if q is None else q
        return self.springs.references(self._equilibrium_for_torque(at, torque, chosen), chosen)

    def _equilibrium_for_torque(self, q: Vector, torque: Vector, preset: Vector) -> Vector:
        """Return it, looking first where it was last."""
        start = q + self._deflection
        equilibrium = self.springs.nearest_equilibrium(q, torque, preset, start)
        self._deflection = equilibrium - q
        return equilibrium

    def _chosen_preset(self, preset: ArrayLike | None) -> Vector:
        """Return the presets of a torque law.

        Raises:
            ActuatorRefused: If they are out of range, or a link is under PID control.
        """
        if OperationMode.LINK_PID in self.modes:
            raise ActuatorRefused(
                f"torque: joint {self.modes.index(OperationMode.LINK_PID) + 1} is in mode 1 "
                "(link_pid), which takes link_command"
            )
        if preset is not None:
            self._preset = self._commands.presets(preset)
        return self._preset

    def _refuse_without_motors(self, modes: Sequence[OperationMode]) -> None:
        for joint, mode in enumerate(modes):
            if mode.has_motors and self._motors is None:
                raise ActuatorRefused(
                    f"mode of joint {joint + 1}: got {mode:d} ({mode.name.lower()}), allowed 0 to "
                    "3: it has no parameters of motors"
                )

    def _take_modes(self, modes: Sequence[OperationMode]) -> None:
        self._refuse_without_motors(modes)
        springs, self.modes = self.springs, tuple(modes)
        self.mode_numbers = np.array(self.modes, dtype=np.int64)
        self.equations.set_modes(
            modes, self._motors, self._link_pid, springs.has_second, springs.is_antagonistic
        )
        self.inner = np.array([float(mode is not OperationMode.LINK_TORQUE) for mode in modes])
        ideal = [not (mode.is_rigid or mode.has_motors) for mode in modes]
        mapped = [mode.takes_equilibrium for mode in modes]
        self._stands, self._maps = any(ideal), any(mapped)
        self._ideal = slice(None) if all(ideal) else np.array(ideal)
        self._mapped = slice(None) if all(mapped) else np.array(mapped)
        self._links = 1.0 - self.inner
        self._drives = np.array([float(mode is OperationMode.MOTOR_TORQUE) for mode in modes])
        self._pushes = bool(self._links.any() or self._drives.any())
        self._direct[:] = 0.0

    def _take_over(
        self,
        modes: Sequence[OperationMode],
        at: NDArray[np.intp],
        torque: Vector,
        anew: bool = False,
    ) -> None:
        """Change the modes of some joints, and go on with the torques on links.

        Raises:
            ActuatorRefused: If springs or controllers cannot; nothing has changed then.
        """
        flow, equations, springs = self.flow, self.equations, self.springs
        flow.look()
        now = Driven(
            flow.x[0], flow.v[0], flow.x[1:], flow.v[1:], torque, flow.torques[1:3].copy(),
            equations.aim[1:].copy(), None if anew else self.modes,
        )  # fmt: skip
        before, memory = self.modes, equations.memory
        try:
            theta, dtheta = motors_for(springs, now, modes, self._preset)
            self._take_modes(modes)
            commands = commands_for(springs, now, modes, theta, dtheta, equations.gains[[0, 2]])
        except ActuatorRefused:
            self._take_modes(before)
            equations.memory = memory
            raise
        for name, values in commands.items():
            self._commands.values[name][at] = values[at]
        flow.x[1:, at], flow.v[1:, at] = theta[:, at], dtheta[:, at]
        sticks = [j for j in at if anew or not before[j].has_motors]
        clears = [
            j for j in at if anew or not (before[j].has_motor_pid and modes[j].has_motor_pid)
        ]
        equations.forget(flow.x[1:], sticks, clears)
        flow.look_for_limits()
        self._apply()

    def _apply(self) -> None:
        """Tell motors and controllers what is commanded."""
        values, springs = self._commands.values, self.springs
        aim, torque = self._aim, self._direct
        aim[0], aim[1], aim[2] = (
            values[name] for name in ("link_command", "reference_1", "reference_2")
        )
        if self._maps:
            aim[1:, self._mapped] = springs.references(
                values["equilibrium_position"], values["stiffness_preset"]
            )[:, self._mapped]
        self._asked[:] = aim[1:]
        if self._pushes:
            torque[0] = self._links * values["torque_command"]
            torque[1:] = values["motor_1_command"], values["motor_2_command"]
            torque[1:] *= self._drives
        self._tell()

    def _tell(self) -> None:
        """Put motors that stand at once where they are to be, and tell controllers the rest."""
        flow, aim = self.flow, self._aim
        if self._stands:
            reached, ideal = aim[1:, self._ideal], self._ideal
            if self._motors is not None:
                low, high = self._motors.low[:, ideal], self._motors.high[:, ideal]
                self.bounded += bool(((reached < low) | (reached > high)).any())
                reached = np.minimum(np.maximum(reached, low), high)
            flow.x[1:, ideal] = reached
        self.equations.command(aim, self._direct)


def _modes_of(mode: ModeName | Sequence[ModeName], n_joints: int) -> list[OperationMode]:
    if isinstance(mode, (str, int)):
        return [OperationMode.of(mode)] * n_joints
    if len(mode) != n_joints:
        raise ActuatorRefused(f"mode: got {len(mode)} modes, allowed one or {n_joints}")
    return [OperationMode.of(one) for one in mode]
