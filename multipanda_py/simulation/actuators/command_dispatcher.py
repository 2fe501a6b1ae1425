# SPDX-License-Identifier: Apache-2.0
"""Translation of controllet commands to modes and commands of compliant joints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.actuators.operation_modes import BeyondStops
from multipanda_py.state import CONTROLLET_TORQUE_MODE, Matrix, Vector

_POSITION_COMMANDS = ("equilibrium_position", "stiffness_preset", "reference_1", "reference_2")
"""Commands that define motor positions."""
_MAX_PRELOAD = 2.0
"""Maximum load of a motor relative to the torque limit of its link. Antagonistic springs with a
higher preload relax unevenly, because motor speeds are limited. It does not apply to commands of
equilibrium and preset, because presets have their own range."""


class ActuatorCommandDispatcher:
    """Dispatcher of actuator commands to m compliant joints: sets their modes and commands.

    An actuator command is an operation mode with one or two values, such as motor positions. A
    controllet writes it in every cycle. Only changed commands are sent to the joints.

    Args:
        joints: Compliant joints, m of them.
        modes: Mode in which each joint executes torques of an effort controllet.

    Attributes:
        actuator_commanded: True for joints with an actuator command, False for joints that
            execute torques of an effort controllet, (m,).
        any_commanded: True if any joint has an actuator command.
        in_link_torque_mode: True for joints with a command in mode ``link_torque``, (m,).
        rejections: Reasons of rejected commands, by joint index; cleared by the caller.
        newly_beyond_stops: Commanded position, lower and upper stop, for new commands beyond a
            stop, by indices of joint and motor; cleared by the caller.

    Thread: control.
    """

    def __init__(self, joints: CompliantJoints, modes: Sequence[OperationMode]) -> None:
        self._joints, self._torque_modes = joints, tuple(modes)
        self._commands = np.full((3, joints.n_joints), np.nan)
        self._commands[0] = CONTROLLET_TORQUE_MODE
        self.actuator_commanded: NDArray[np.bool_] = np.zeros(joints.n_joints, bool)
        self.in_link_torque_mode: NDArray[np.bool_] = np.zeros(joints.n_joints, bool)
        self.any_commanded = False
        self.rejections: dict[int, str] = {}
        self.newly_beyond_stops: BeyondStops = {}
        self._reported_beyond: BeyondStops = {}

    def save(self) -> Matrix:
        return self._commands.copy()

    def restore(self, saved: Matrix) -> None:
        """Restore saved commands without sending them to the joints."""
        self._commands = saved.copy()
        self._update_masks()

    def receive(
        self, q: Vector, dq: Vector, command: Matrix, bounds: Matrix | None = None
    ) -> NDArray[np.intp] | None:
        """Send changed actuator commands to the joints.

        Args:
            q: Link angles, (m,) [rad].
            dq: Link velocities, (m,) [rad/s].
            command: Rows operation mode, first and second value of the command, (3, m); see
                :attr:`.ActuatorState.command`.
            bounds: Minimum and maximum torques of links, (2, m) [Nm]; None: unlimited.

        Returns:
            Indices of joints whose actuator command has ended, so that they execute torques of an
            effort controllet again; None if no command has changed.
        """
        before = self._commands
        if command.tobytes() == before.tobytes():
            return None
        changed = command[0] != before[0]
        is_new = ~np.isnan(command[1:]) & ((command[1:] != before[1:]) | changed)
        self._commands = command.copy()
        if changed.any():
            self._joints.set_link_state(q, dq)
            self._set_modes(np.flatnonzero(changed))
            self._update_masks()
        is_new &= self.actuator_commanded & ~self.in_link_torque_mode
        if bounds is not None and is_new.any():
            is_new &= ~self._reject_beyond_bounds(q, is_new, bounds)
        self._send_values(is_new)
        return np.flatnonzero(changed & ~self.actuator_commanded)

    def _update_masks(self) -> None:
        self.actuator_commanded = self._commands[0] != CONTROLLET_TORQUE_MODE
        self.any_commanded = bool(self.actuator_commanded.any())
        self.in_link_torque_mode = self._commands[0] == OperationMode.LINK_TORQUE

    def _set_modes(self, changed_joints: NDArray[np.intp]) -> None:
        by_mode: defaultdict[OperationMode, list[int]] = defaultdict(list)
        for joint in changed_joints.tolist():
            number = int(self._commands[0, joint])
            mode = (
                self._torque_modes[joint]
                if number == CONTROLLET_TORQUE_MODE
                else OperationMode(number)
            )
            by_mode[mode].append(joint)
        for mode, joints in by_mode.items():
            try:
                self._joints.set_mode(mode, joints)
            except ActuatorRejected as error:
                self.rejections[joints[0]] = str(error)
                self._commands[0, joints], self._commands[1:, joints] = (
                    CONTROLLET_TORQUE_MODE,
                    np.nan,
                )

    def _reject_beyond_bounds(
        self, q: Vector, is_new: NDArray[np.bool_], torque_bounds: Matrix
    ) -> NDArray[np.bool_]:
        """Return the mask of joints whose new command would exceed the torque limits of links."""
        joints, springs = self._joints, self._joints.springs
        # Only ideal motors are checked: their springs respond to a command immediately.
        immediate = np.array([m.has_motor_references and not m.has_motors for m in joints.modes])
        immediate &= is_new.any(axis=0)
        if not immediate.any():
            return immediate
        now = {name: joints.commanded(name) for name in _POSITION_COMMANDS}
        for row, joint in np.argwhere(is_new & immediate).tolist():
            now[joints.modes[joint].commands[row]][joint] = self._commands[1 + row, joint]
        equilibrium, preset, first, second = now.values()
        maps = np.array([mode.takes_equilibrium for mode in joints.modes])
        with np.errstate(over="ignore", invalid="ignore"):
            references = np.where(maps, springs.references(equilibrium, preset), [first, second])
            exerted = springs.torque(q, references)
            torque, load = exerted.link, np.abs(exerted[1:]).max(axis=0)
        max_load = _MAX_PRELOAD * np.abs(torque_bounds).max(axis=0)
        supported = (
            (torque_bounds[0] <= torque)
            & (torque <= torque_bounds[1])
            & (maps | (load <= max_load))
        )
        beyond_bounds: NDArray[np.bool_] = immediate & ~supported
        for joint in np.flatnonzero(beyond_bounds).tolist():
            low, high, max_motor_load = (float(one[joint]) for one in (*torque_bounds, max_load))
            self.rejections[joint] = (
                f"{' and '.join(joints.modes[joint].commands)}: with this command springs would "
                f"exert {torque[joint]:.4g} Nm on the link and up to {load[joint]:.4g} Nm on a "
                f"motor, allowed {low:.4g} to {high:.4g} Nm and {max_motor_load:.4g} Nm"
            )
        return beyond_bounds

    def _send_values(self, is_new: NDArray[np.bool_]) -> None:
        before = self._joints.beyond_stops() if is_new.any() else {}
        result: defaultdict[str, list[int]] = defaultdict(list)
        values: defaultdict[str, list[float]] = defaultdict(list)
        for row, joint in zip(*(indices.tolist() for indices in np.nonzero(is_new))):
            name = self._joints.modes[joint].commands[row]
            result[name].append(joint)
            values[name].append(float(self._commands[1 + row, joint]))
        for name, at in result.items():
            try:
                self._joints.command(name, values[name], at)
            except ActuatorRejected as error:
                self.rejections[at[0]] = str(error)
        if result:
            beyond, known = self._joints.beyond_stops(), {*self._reported_beyond}
            self.newly_beyond_stops |= {
                motor: description
                for motor, description in beyond.items()
                # Only references that a new command has moved are reported, because a load can
                # also move a reference beyond a stop.
                if motor not in known and before.get(motor) != description
            }
            self._reported_beyond = beyond
