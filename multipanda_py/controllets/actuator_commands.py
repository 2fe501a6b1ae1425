# SPDX-License-Identifier: Apache-2.0
"""Direct commands to the springs and motors of compliant actuators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.impedance.joint_spring import MIN_JOINT_STIFFNESS
from multipanda_py.controllets.joint_impedance import JointImpedanceLaw, JointImpedanceParams
from multipanda_py.controllets.targets.joint import (
    COMMAND_CHANNELS,
    CONFIGURED_MODE,
    EXTERNAL_TORQUE,
    PUSH_CHANNEL,
    modes_of,
)
from multipanda_py.parameters import choice
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.state import CONTROLLET_TORQUE_MODE, ArmState, Matrix, Vector
from multipanda_py.targets import Channel, JointTarget

MODE_NAMES = tuple(mode.name.lower() for mode in OperationMode)
_HELD_MODES = (OperationMode.LINK_TORQUE, OperationMode.LINK_PID, OperationMode.MOTOR_TORQUE)
"""Modes in which a joint without a command is held."""


@dataclass(frozen=True, eq=False)
class ActuatorCommandsParams(JointImpedanceParams):
    """Operation mode of the actuators, and joint gains for holding a position."""

    mode: str = choice(
        CONFIGURED_MODE, options=(CONFIGURED_MODE, *MODE_NAMES),
        doc="operation mode of all joints, or the mode configured for each actuator",
    )  # fmt: skip


class ActuatorTarget(JointTarget):
    """Commands of clients in all operation modes, and positions of held joints."""

    channels: ClassVar[tuple[str | Channel, ...]] = (*COMMAND_CHANNELS, PUSH_CHANNEL)
    internal_channels: ClassVar[tuple[str | Channel, ...]] = ("joint",)


class _ArmCommands:
    """Commands to the n joints of one arm."""

    def __init__(self, arm: ArmDescription) -> None:
        n = arm.n_joints
        self._joints = arm.actuated
        self._modes: list[OperationMode | None] = [None] * n
        self._values: dict[str, Vector] = {}
        self._n = n
        self.push: Vector = np.zeros(n)  # Commanded external torques on the links [Nm].
        # In the layout of ``ActuatorState.command``.
        self.commands: Matrix = np.full((4, n), np.nan)
        # Joints that follow a command (the others are held), and those in mode ``link_torque``.
        self.commanded, self.direct = np.zeros((2, n), bool)
        self.torque: Vector = np.zeros(n)  # Commanded link torques [Nm]; zero for other joints.
        # In the first cycle, all joints are held.
        self.is_first_cycle, self.all_commanded = True, False
        self.forget()

    def set_mode(self, mode: str) -> None:
        matches: list[OperationMode | None] = [None] * self._n
        if self._joints is not None:
            for index, own in zip(
                self._joints.joint_indices.tolist(), modes_of(self._joints, mode)
            ):
                matches[index] = own
        if matches != self._modes:
            self._modes = matches
            self.forget()

    def forget(self) -> None:
        self._values = {channel.name: np.full(self._n, np.nan) for channel in COMMAND_CHANNELS}
        self.put()

    def receive(self, name: str, record: Vector) -> None:
        # Values of n joints, then n flags that are positive for valid values.
        values, is_valid = record.reshape(2, -1)
        own = self.push if name == EXTERNAL_TORQUE else self._values[name]
        np.copyto(own, values, where=is_valid > 0.0)
        self.put()

    def put(self) -> None:
        self.commands[:] = np.nan
        self.commands[0], self.commands[3] = CONTROLLET_TORQUE_MODE, self.push
        for joint, mode in enumerate(self._modes):
            if mode is None or self.is_first_cycle:
                continue
            numbers = [self._values[name][joint] for name in mode.commands]
            if mode in _HELD_MODES and np.isnan(numbers).all():
                continue
            self.commands[0, joint] = mode
            self.commands[1 : 1 + len(numbers), joint] = numbers
        self.commanded = self.commands[0] != CONTROLLET_TORQUE_MODE
        self.all_commanded = bool(self.commanded.all())
        self.direct = self.commands[0] == OperationMode.LINK_TORQUE
        self.torque = np.where(self.direct, self.commands[1], 0.0)


class ActuatorCommands(JointImpedanceLaw[ActuatorTarget]):
    """Commands to springs and motors in one of the seven operation modes of the joints.

    ``OperationMode`` lists the modes. The controllet computes only the torque of held joints::

        tau = K (q_0 - q) - D dq

    - tau: Link torques, (n,) [Nm].
    - q_0: Positions at which joints are held, (n,) [rad].
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - K, D: Joint stiffness [Nm/rad] and damping [Nm s/rad] of ``JointImpedance``, (n, n).

    Joints without springs are held. In the modes ``link_torque``, ``link_pid`` and
    ``motor_torque``, joints without a command are held too. In the other modes, motors start at
    their current positions. A mode change clears all commands.

    A commanded link torque (``link_torque``) includes the weight of the link, and is limited like
    the torque of any controllet.
    """

    Params, Target = ActuatorCommandsParams, ActuatorTarget
    commands_actuators = True
    default_features: ClassVar[tuple[str, ...]] = ()
    params: ActuatorCommandsParams

    def __init__(self, context: Context, params: ActuatorCommandsParams) -> None:
        self._commands = [_ArmCommands(arm) for arm in context.arms]
        self._was_commanded = [commands.commanded for commands in self._commands]
        super().__init__(context, params)

    @classmethod
    def check_params(
        cls, values: Mapping[str, Any], arms: Mapping[str, ArmDescription]
    ) -> Iterable[str]:
        """Yield an error if a mode needs motor parameters that an actuator does not have."""
        mode = values.get("mode", CONFIGURED_MODE)
        if mode == CONFIGURED_MODE or not OperationMode.from_value(mode).has_motors:
            return
        for name, arm in arms.items():
            joints = arm.actuated
            if joints is not None and not joints.have_motors.all():
                joint = joints.names[int(np.argmin(joints.have_motors))]
                yield (
                    f"mode: {mode} needs motors, but the actuator of {joint} of arm {name} has no "
                    "section motor. Add this section, or choose a mode without motors."
                )

    def on_parameters(self) -> None:
        """Set joint gains and operation modes."""
        super().on_parameters()
        for commands in self._commands:
            commands.set_mode(self.params.mode)

    def on_activate(self, states: Sequence[ArmState], target: ActuatorTarget) -> None:
        """Clear all commands. Joints and motors start at their measured positions."""
        super().on_activate(states, target)
        for arm, commands in enumerate(self._commands):
            commands.push[:], commands.is_first_cycle = 0.0, True
            commands.forget()
            self._was_commanded[arm] = commands.commanded

    def on_target(self, channel: str, arm_index: int, target: ActuatorTarget) -> None:
        self._commands[arm_index].receive(channel, target.data[channel][arm_index])

    def update(self, states: Sequence[ArmState], target: ActuatorTarget, period: float) -> None:
        """Write the commands of motors and springs, and the torques of held joints."""
        for arm, (commands, state) in enumerate(zip(self._commands, states)):
            if commands.commanded is not self._was_commanded[arm]:
                self._hold_released_joints(arm, state, target)
            np.copyto(target.q[arm], state.q, where=commands.commanded)
            np.multiply(commands.commanded, state.dq, out=target.dq[arm])
        if not all(commands.all_commanded for commands in self._commands):
            super().update(states, target, period)
        for commands, state, tau in zip(self._commands, states, self.tau):
            actuators = state.actuators
            if actuators.command.size:
                torque = np.where(commands.direct, commands.torque, state.tau_J)
                np.subtract(torque, actuators.carried, out=tau, where=commands.commanded)
                actuators.command[:] = commands.commands
            if commands.is_first_cycle:
                commands.is_first_cycle = False
                commands.put()

    def _hold_released_joints(self, arm: int, state: ArmState, target: ActuatorTarget) -> None:
        commanded = self._commands[arm].commanded
        released = self._was_commanded[arm] & ~commanded
        # With this distance, the joint spring exerts the present torque, which does not jump.
        step = state.tau / np.maximum(self._stiffness[arm], MIN_JOINT_STIFFNESS)
        np.clip(step, -self.max_lead, self.max_lead, out=step)
        np.copyto(target.q[arm], state.q + step, where=released)
        self._was_commanded[arm] = commanded
