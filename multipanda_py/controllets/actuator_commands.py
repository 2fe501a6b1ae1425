# SPDX-License-Identifier: Apache-2.0
"""Command the springs and motors of arms with compliant actuators, instead of torques."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.impedance.joint_spring import SOFT
from multipanda_py.controllets.joint_impedance import JointImpedanceLaw, JointImpedanceParams
from multipanda_py.controllets.targets.actuators import (
    COMMAND_CHANNELS,
    CONFIGURED,
    EXTERNAL_TORQUE,
    PUSH_CHANNEL,
    modes_of,
)
from multipanda_py.parameters import choice
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.state import LAWS, ArmState, Matrix, Vector
from multipanda_py.targets import Channel, JointTarget

MODE_NAMES = tuple(mode.name.lower() for mode in OperationMode)
_AT_FIRST = (OperationMode.LINK_TORQUE, OperationMode.LINK_PID, OperationMode.MOTOR_TORQUE)
"""Modes that hold nothing by themselves: a joint begins with them when it is commanded."""


@dataclass(frozen=True, eq=False)
class ActuatorCommandsParams(JointImpedanceParams):
    """What is commanded by :class:`ActuatorCommands`, and what holds joints until then."""

    mode: str = choice(
        CONFIGURED, options=(CONFIGURED, *MODE_NAMES),
        doc="operation mode of all joints, or of each the one that the arm's actuators have",
    )  # fmt: skip


class ActuatorTarget(JointTarget):
    """Commands of every operation mode, and the posture that joints are held in until then."""

    channels: ClassVar[tuple[str | Channel, ...]] = (*COMMAND_CHANNELS, PUSH_CHANNEL)
    stored: ClassVar[tuple[str | Channel, ...]] = ("joint",)


class _ArmCommands:
    """What is asked of the n joints of one arm.

    Attributes:
        direct: Joints whose link torque is commanded, (n,).
        asked: As :attr:`.ActuatorState.command` has it, (4, n).
        led: Joints that motors and springs drive as they are asked to, (n,); others are held.
        leads_all: Whether all are.
        begins: Whether all are held for a cycle, from where modes go on.
    """

    def __init__(self, arm: ArmDescription) -> None:
        n = arm.n_joints
        self._joints = arm.actuated
        self._modes: list[OperationMode | None] = [None] * n
        self._values: dict[str, Vector] = {}
        self._n = n
        self.push: Vector = np.zeros(n)
        self.asked: Matrix = np.full((4, n), np.nan)
        self.led, self.direct = np.zeros((2, n), bool)
        self.torque: Vector = np.zeros(n)
        self.begins, self.leads_all = True, False
        self.forget()

    def set_mode(self, mode: str) -> None:
        """Take another mode, in which nothing is commanded yet; the same one changes nothing."""
        found: list[OperationMode | None] = [None] * self._n
        if self._joints is not None:
            for place, own in zip(self._joints.places.tolist(), modes_of(self._joints, mode)):
                found[place] = own
        if found != self._modes:
            self._modes = found
            self.forget()

    def forget(self) -> None:
        """Have nothing commanded: joints go on as they do."""
        self._values = {channel.name: np.full(self._n, np.nan) for channel in COMMAND_CHANNELS}
        self.put()

    def take(self, name: str, record: Vector) -> None:
        """Take a command: numbers, and which of them count, (2 n,)."""
        values, counts = record.reshape(2, -1)
        own = self.push if name == EXTERNAL_TORQUE else self._values[name]
        np.copyto(own, values, where=counts > 0.0)
        self.put()

    def put(self) -> None:
        """Find out what is asked for."""
        self.asked[:] = np.nan
        self.asked[0], self.asked[3] = LAWS, self.push
        for joint, mode in enumerate(self._modes):
            if mode is None or self.begins:
                continue
            numbers = [self._values[name][joint] for name in mode.commands]
            if mode in _AT_FIRST and np.isnan(numbers).all():
                continue
            self.asked[0, joint] = mode
            self.asked[1 : 1 + len(numbers), joint] = numbers
        self.led = self.asked[0] != LAWS
        self.leads_all = bool(self.led.all())
        self.direct = self.asked[0] == OperationMode.LINK_TORQUE
        self.torque = np.where(self.direct, self.asked[1], 0.0)


class ActuatorCommands(JointImpedanceLaw[ActuatorTarget]):
    r"""Hand commands to springs and motors, in one of the seven operation modes of the joints.

    Nothing of it is computed here but the torque of a joint that is held,

    .. math:: \tau = K (q_0 - q) - D \dot q

    which springs exert as they do for any law: of a joint without springs, and, in the modes in
    which torques or links are commanded (``link_torque``, ``link_pid``, ``motor_torque``), of one
    that nobody has commanded yet. In the other modes joints begin with motors as they stand, and
    whatever is not commanded stays as it is. A change of the mode goes on with the torque of the
    springs, and forgets what was commanded before.

    Other joints report as :math:`\tau` what a law would have commanded for the torque of their
    links; where that is commanded (``link_torque``, the weight of the link included), it is
    bounded like the torque of any law.
    """

    Params, Target = ActuatorCommandsParams, ActuatorTarget
    commands_actuators = True
    default_features: ClassVar[tuple[str, ...]] = ()
    params: ActuatorCommandsParams

    def __init__(self, context: Context, params: ActuatorCommandsParams) -> None:
        self._commands = [_ArmCommands(arm) for arm in context.arms]
        self._was_led = [commands.led for commands in self._commands]
        super().__init__(context, params)

    @classmethod
    def refuse(
        cls, values: Mapping[str, Any], arms: Mapping[str, ArmDescription]
    ) -> Iterable[str]:
        """Refuse a mode with motors for joints that have no parameters of them."""
        mode = values.get("mode", CONFIGURED)
        if mode == CONFIGURED or not OperationMode.of(mode).has_motors:
            return
        for name, arm in arms.items():
            joints = arm.actuated
            if joints is not None and not joints.have_motors.all():
                joint = joints.names[int(np.argmin(joints.have_motors))]
                yield (
                    f"mode: got {mode}, allowed modes without motors: the actuator of {joint} of "
                    f"arm {name} has no section motor"
                )

    def on_parameters(self) -> None:
        """Prepare the gains, and take the mode."""
        super().on_parameters()
        for commands in self._commands:
            commands.set_mode(self.params.mode)

    def on_activate(self, states: Sequence[ArmState], target: ActuatorTarget) -> None:
        """Begin with nothing commanded, where joints and motors are."""
        super().on_activate(states, target)
        for arm, commands in enumerate(self._commands):
            commands.push[:], commands.begins = 0.0, True
            commands.forget()
            self._was_led[arm] = commands.led

    def on_target(self, channel: str, place: int, target: ActuatorTarget) -> None:
        """Take a command."""
        self._commands[place].take(channel, target.data[channel][place])

    def update(self, states: Sequence[ArmState], target: ActuatorTarget, period: float) -> None:
        """Write what is asked of motors and springs, and torques of the joints that are held."""
        for arm, (commands, state) in enumerate(zip(self._commands, states)):
            if commands.led is not self._was_led[arm]:
                self._hold_on(arm, state, target)
            np.copyto(target.q[arm], state.q, where=commands.led)
            np.multiply(commands.led, state.dq, out=target.dq[arm])
        if not all(commands.leads_all for commands in self._commands):
            super().update(states, target, period)
        for commands, state, tau in zip(self._commands, states, self.tau):
            actuators = state.actuators
            if actuators.command.size:
                torque = np.where(commands.direct, commands.torque, state.tau_J)
                np.subtract(torque, actuators.carried, out=tau, where=commands.led)
                actuators.command[:] = commands.asked
            if commands.begins:
                commands.begins = False
                commands.put()

    def _hold_on(self, arm: int, state: ArmState, target: ActuatorTarget) -> None:
        """Hold joints that are led no longer, with the torque that they have."""
        led = self._commands[arm].led
        left = self._was_led[arm] & ~led
        step = state.tau / np.maximum(self._stiffness[arm], SOFT)
        np.clip(step, -self.max_lead, self.max_lead, out=step)
        np.copyto(target.q[arm], state.q + step, where=left)
        self._was_led[arm] = led
