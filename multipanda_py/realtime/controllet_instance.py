# SPDX-License-Identifier: Apache-2.0
"""Controllet instance in the loop: control law, features, target and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.controllet import Controllet, JointVectors
from multipanda_py.realtime.cycle_record import TRACED_CHANNELS
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.feature_set import FeatureSet
from multipanda_py.realtime.scheduled_targets import ScheduledTargets
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.realtime.torque_guard import VELOCITY_MARGIN, is_finite
from multipanda_py.realtime.torque_terms import GainReductionNotice, TorqueTerms
from multipanda_py.state import COMMAND_INTERFACES, ArmState, Vector

JUMP_TIME = 0.05
"""Time [s]. A commanded position step counts as a jump if it is longer than the distance covered
in this time at maximum speed."""


class RefusedCommand(ArithmeticError):
    """Rejected command of a controllet, which is not sent to the arm.

    Attributes:
        event: Fault that the loop latches on the arm.
    """

    def __init__(self, event: Event, text: str) -> None:
        super().__init__(text)
        self.event = event


class CommandCheck:
    """Check of the commands of one arm for jumps and for numbers that are not finite.

    Args:
        name: Name of the controllet, for messages.
        interface: Command interface of the controllet, one of :data:`.COMMAND_INTERFACES`.
        state: State of the arm, updated by the loop.
    """

    def __init__(self, name: str, interface: str, state: ArmState) -> None:
        self._name, self._state = name, state
        self._quantity = interface
        self._is_position = interface == COMMAND_INTERFACES[1]
        speed = state.limits.velocity
        self._max = speed * (JUMP_TIME if self._is_position else VELOCITY_MARGIN)

    def check(self, command: Vector) -> None:
        """Check a position or velocity command, (n,) [rad] or [rad/s].

        Raises:
            RefusedCommand: If it is not finite, or a position step or velocity is too large.
        """
        if not is_finite(command):
            raise RefusedCommand(
                Event.NON_FINITE_COMMAND,
                f"{self._name} commanded {self._quantity} {command.tolist()}, allowed finite "
                f"numbers",
            )
        step = command - self._state.joint_command[0] if self._is_position else command
        beyond = abs(step) > self._max
        if beyond.any():
            joint = int(beyond.argmax())
            got, max_value = float(step[joint]), float(self._max[joint])
            unit = self._state.limits.unit(joint)
            text = (
                f"a step of {got:.4f} {unit}, allowed +-{max_value:.4f} {unit}"
                if self._is_position
                else f"{got:.3f} {unit}/s, allowed +-{max_value:.3f} {unit}/s"
            )
            raise RefusedCommand(
                Event.COMMAND_JUMP,
                f"{self._name} commanded joint {joint + 1} of {self._state.name} {text}",
            )


class Trace:
    """Recorder that copies the references of a controllet to the cycle records of its arms.

    Args:
        data: References by channel, such as ``pose``: one array per arm, or one array for all
            arms.
        records: Fields of each arm in the cycle record, structured arrays of shape ().

    Thread: control.
    """

    def __init__(
        self,
        data: Mapping[str, Sequence[Vector]],
        records: Sequence[NDArray[np.void]],
    ) -> None:
        self._words = [record["target_channels"].reshape(1).data for record in records]
        targets = [record[f"target_{name}"] for record in records for name in TRACED_CHANNELS]
        flat = [location.reshape(-1) for location in targets]
        self._blank = [(location.data, np.zeros(location.size).data) for location in flat]
        # Memory views, because copying them is twice as fast as copying arrays.
        self._pairs: list[tuple[memoryview, memoryview]] = []
        self._channels = sum(1 << k for k, name in enumerate(TRACED_CHANNELS) if name in data)
        for name in TRACED_CHANNELS:
            for slot, record in enumerate(records if name in data else ()):
                source = data[name][min(slot, len(data[name]) - 1)]
                destination = record[f"target_{name}"]
                size = source.size // destination.shape[0] if name == "joint" else source.size
                sources = source.reshape(-1, size)
                for part, own in zip(destination.reshape(-1, destination.shape[-1]), sources):
                    self._pairs.append((part[:size].data, own.data))

    def attach_records(self) -> None:
        """Clear all references in the cycle records of the arms, then write those of ``data``.

        Call it when the controllet becomes the owner of the arms.
        """
        for destination, zeros in self._blank:
            destination[:] = zeros
        for word in self._words:
            word[0] = self._channels
        self.write()

    def write(self) -> None:
        for destination, source in self._pairs:
            destination[:] = source


NO_FORCE = np.zeros(6)


class NonFiniteTorque(ArithmeticError):
    """Error of a controllet or feature that has written a torque that is not finite."""


class ControlletInstance:
    """Controllet with its features and arms in the loop.

    Args:
        spec: Controllet class, features and arms.
        context: Context of the controllet.
        states: States of all arms of the cell, updated by the loop.
        mailbox: Shared memory of the loop and the owning process.
        report: Array of the numbers that the controllet publishes, (12,).
        records: Fields of each of its arms in the cycle record, structured arrays of shape ().
        clock: Time of the cell, (1,) [s], updated by the loop.

    Attributes:
        law: Controllet that computes the torques or commands.
        target: Newest target of the controllet.
        states: States of its arms, in the order of ``spec.arms``.
        active: True while it owns its arms.
        is_suspended: True while it is active, but does not compute, because an arm lacks its
            command interface.
        command: Position or velocity commands, one vector per arm; None under torque control.
        is_new: True between its activation and its first update.
        defines_force: True if the controllet has a force target.
        is_sound: True if the newest parameters caused no error of controllet or features.
        tau: Torques of the last update, (n,) per arm [Nm].
        notices: Texts of controllet and features that the loop has not yet reported as events.
        features: Features of the controllet, and which of them are enabled.

    Thread: control.
    """

    def __init__(
        self,
        spec: InstanceSpec,
        context: Context,
        states: Sequence[ArmState],
        mailbox: Mailbox,
        report: Vector,
        records: Sequence[NDArray[np.void]],
        clock: Vector,
    ) -> None:
        self.spec = spec
        self.states = [states[arm].for_readers() for arm in spec.arms]
        self.active = False
        self.is_sound = True
        self.is_new = self.is_suspended = False
        self._period = context.period
        self.notices: list[str] = context.notices
        values = spec.decode(spec.encode(spec.initial_values()))
        self.law = spec.controllet_class(context, values[0])
        self.law.report = self._report = report
        features = [make(context, own) for make, own in zip(spec.features.values(), values[2::2])]
        for feature in features:
            feature.controllet = self.law
        self.features = FeatureSet(
            features,
            [switch.enabled for switch in values[1::2]],
            context.period,
        )
        self.law.reference_limiters = self.features.pacing
        self.target: Any = spec.controllet_class.Target(
            len(spec.arms), tuple(spec.channel_table.values()), spec.joints
        )
        reshaped = self.target.modified_channels
        goals = [record for name in reshaped for record in self.target.data[name]]
        self._goals = [(record, record.copy()) for record in goals]
        self.tau = self._bind_arm_vectors("tau", context)
        self.command: JointVectors | None = None
        self._checks: list[CommandCheck] = []
        interface = spec.controllet_class.command_interface
        # A torque controllet may also have an attribute ``command``, which is ignored.
        if interface != COMMAND_INTERFACES[0]:
            self.command = self._bind_arm_vectors("command", context)
            self._checks = [CommandCheck(spec.name, interface, state) for state in self.states]
        self._derating = GainReductionNotice(spec.config.type, self.law)
        self._may_derate = self._derating.applies
        self._trace = Trace({**self.target.data, **self.law.followed}, records)
        self._terms = TorqueTerms(self.tau, records, 1 + len(spec.features))
        self._parameter_mail = mailbox.parameters[spec.index]
        channels = spec.channel_table
        self._later = ScheduledTargets(clock)
        self._waiting = self._later.waiting
        self._target_mail = [
            (
                slot,
                self.target.data[channel][index],
                channel,
                index,
                channels[channel].is_scheduled,
            )
            for channel, slots in mailbox.targets[spec.index].items()
            for index, slot in enumerate(slots)
        ]
        self._beginnings = mailbox.activation_counts
        self._idle = False
        self._moved = [False] * len(spec.arms)
        self.defines_force = (
            spec.controllet_class.requested_force is not Controllet.requested_force
        )
        self._timeout_ns = int(spec.config.target_timeout * 1e9)
        self._newest_ns = 0

    def _bind_arm_vectors(self, attribute: str, context: Context) -> JointVectors:
        # The controllet writes to these arrays in place, and the loop reads them in every cycle.
        vectors = JointVectors.from_values(
            attribute, getattr(self.law, attribute, None), context.joints
        )
        setattr(self.law, attribute, vectors)
        return vectors

    def activate(self, handovers: Sequence[BumplessTransfer] | None = None) -> str:
        """Activate controllet and features, with the measured state as the first target.

        Args:
            handovers: Present contact force and torque of each arm, which the controllet
                continues; None to start without them.

        Returns:
            Text of the controllet about the continued contact forces; empty without such forces.
        """
        for slot, *_ in self._target_mail:
            slot.skip()
        self._later.clear()
        self.target.clear()
        self.law.report[:] = 0.0
        self.notices.clear()
        self._derating.start()
        self._newest_ns = 0
        self.is_new, self._idle = True, False
        self._moved[:] = [False] * len(self._moved)
        self._beginnings[self.spec.index] += 1
        self.law.on_activate(self.states, self.target)
        words = ""
        if handovers is not None:
            words = self.law.on_transfer(self.states, self.target, handovers)
        self.features.activate(self.states, self.target, handovers)
        for record, goal in self._goals:
            goal[:] = record
        return words

    def requested_force(self, slot: int) -> Vector | None:
        """Return the contact force that users request of an arm.

        Args:
            slot: Index of the arm within the instance.

        Returns:
            Requested wrench on the environment along the axes of the base, (6,) [N, Nm]. None: the
            request under the previous controllet stays valid. A controllet without a force target
            returns None until a user moves the target of the arm, and zero afterwards.

        Raises:
            Exception: Any error of the controllet.
        """
        if self.defines_force:
            force = self.law.requested_force(slot, self.states, self.target)
            if force is not None and force.shape == (6,) and is_finite(force):
                return force
        return NO_FORCE if self._moved[slot] else None

    def deactivate(self) -> None:
        """Deactivate controllet and features."""
        self.law.on_deactivate()
        self.features.deactivate()

    def trace_terms(self, is_on: bool) -> None:
        """Start or stop recording the torque terms of controllet and features."""
        self._terms.is_on = is_on
        if self.active:
            self.start_traces()

    def start_traces(self) -> None:
        """Reset the recorded reference values and torque terms of its arms."""
        self._terms.attach_records()
        self._trace.attach_records()

    def receive_parameters(self) -> None:
        """Apply newly arrived parameters to controllet and features."""
        flat = self._parameter_mail.pop()
        if flat is None:
            return
        self._idle = self.is_sound = False
        values = self.spec.decode(flat)
        self.law.params = values[0]
        self.law.on_parameters()
        self.features.set_parameters(values[2::2])
        switches = [switch.enabled for switch in values[1::2]]
        if switches != self.features.requested:
            self._undo_feature_changes()
            self.features.switch(switches, self.states, self.target)
        self.is_sound = True

    def receive_targets(self, now_ns: int) -> bool:
        """Apply new targets; return False if a target was not finite and was ignored.

        Raises:
            Exception: Any error of the controllet or a feature about a new target.
        """
        sound = True
        if self.is_suspended:
            return sound
        for slot, data, channel, arm_index, may_wait in self._target_mail:
            values = slot.pop()
            if values is None:
                continue
            if is_finite(values):
                self._newest_ns = now_ns
                if self._waiting:
                    self._later.replace(arm_index)
                if not may_wait or not self._later.schedule(channel, arm_index, data, values):
                    self._give(channel, arm_index, data, values)
            else:
                sound = False
        return sound

    def _give(self, channel: str, arm_index: int, data: Vector, values: Vector) -> None:
        data[:] = values
        self._idle = False
        if channel not in self.target.ungated_if_governed:
            self._moved[arm_index] = True
        for feature in self.features.listening:
            feature.on_target(channel, arm_index, self.target)
        self.law.on_target(channel, arm_index, self.target)
        self._store_requested_values(data, values)

    def _store_requested_values(self, target_array: Vector, values: Vector) -> None:
        for record, goal in self._goals:
            if record is target_array:
                goal[:] = values

    def _undo_feature_changes(self) -> None:
        for record, goal in self._goals:
            record[:] = goal

    def is_stale(self, now_ns: int) -> bool:
        """Return True if the newest target is older than ``target_timeout`` of the controllet."""
        return (
            self._timeout_ns > 0
            and self._newest_ns > 0
            and now_ns - self._newest_ns > self._timeout_ns
        )

    def _check_commands(self, command: JointVectors) -> None:
        if self.law.command is not command:
            self.law.command = command
            raise TypeError(
                "command: the controllet has replaced the list. Write to its arrays in place: "
                "command[arm][:] = ..."
            )
        for tau, check, desired in zip(self.tau, self._checks, command):
            # Under position or velocity control, arms execute no torques of features.
            tau[:] = 0.0
            check.check(desired)

    def update(self) -> None:
        """Compute the torques or commands of controllet and features for this cycle.

        Raises:
            NonFiniteTorque: If a torque is not finite.
            RefusedCommand: If a position or velocity command is not finite, or jumps.
            TypeError: If the controllet has replaced the arrays that the loop reads.
            Exception: Any error of the controllet or a feature.
        """
        self.is_new = False
        if self._waiting:
            for later in self._later.pop_started():
                self._give(*later)
        states, target, tau, period = self.states, self.target, self.tau, self._period
        features = self.features
        if features.preparing and not self._idle:
            self._undo_feature_changes()
            for feature in features.preparing:
                feature.prepare(states, target, period)
            self._idle = all(feature.idle for feature in features.preparing)
        law = self.law
        law.update(states, target, period)
        if self.command is not None:
            self._check_commands(self.command)
        if law.tau is not tau:
            law.tau = tau
            raise TypeError(
                "tau: the controllet has replaced the list. Write to its arrays in place: "
                "tau[arm][:] = ..."
            )
        if law.report is not self._report:
            law.report = self._report
            raise TypeError(
                "report: the controllet has replaced the array. Write to it in place: "
                "report[:] = ..."
            )
        if self._may_derate:
            self._derating.check()
        if self._terms.is_on:
            self._terms.add(features, states, target, period, tau)
        else:
            for part in features.working:
                part.add(states, target, tau, period)
        self._trace.write()
        if features.changing:
            features.remove_settled()
        for torque in tau:
            if not is_finite(torque):
                raise NonFiniteTorque(
                    f"{self.spec.name} wrote torque {torque.tolist()}, allowed finite numbers"
                )
