# SPDX-License-Identifier: Apache-2.0
"""Ownership of arms by controllets: switches, faults, and the change to hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.context import BumplessTransfer
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.bumpless_transfer import ContactEstimator
from multipanda_py.realtime.contact_forces import RequestedForces
from multipanda_py.realtime.controllet_instance import (
    ControlletInstance,
    NonFiniteTorque,
    RefusedCommand,
)
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.plugin_errors import error_text, pass_interrupt, starting
from multipanda_py.realtime.shared_memory import (
    ANY_EPOCH,
    RESTART_FLAG,
    Mailbox,
    SharedFlag,
    SwitchStatus,
    reason_of,
)
from multipanda_py.state import COMMAND_INTERFACES, Vector

MAX_REST_SPEED = 0.02
"""Joint speed below which the command interface of an arm may change [rad/s]."""
MAX_VIBRATION_SPEED = 0.3
"""Joint speed below which an arm in position control without commanded motion may change its
command interface [rad/s]. The position controller of a robot may vibrate permanently. With the
limit :data:`MAX_REST_SPEED` the arm could then never change to torque control."""
SETTLING_TIME = 0.3
"""Time without commanded motion after which an arm in position control counts as settled [s]."""
HOLD_BLEND_CYCLES = 5
"""Maximum blend when hold takes over [cycles]. A longer blend would apply the last torque of
the previous controllet, which may have failed, to an arm that has to stop."""


def moving_joint(
    dq: Vector, bound: float = MAX_REST_SPEED, has_settled: bool = False
) -> tuple[int, float] | None:
    """Return the fastest joint if it is too fast for a change of the command interface.

    Args:
        dq: Measured joint velocities, (n,) [rad/s].
        bound: Maximum speed for a change [rad/s].
        has_settled: True if position or velocity control has commanded no motion for
            :data:`SETTLING_TIME`. The maximum speed is then :data:`MAX_VIBRATION_SPEED`.

    Returns:
        Index of the joint, and its speed [rad/s]; None if no joint is too fast.
    """
    speeds = np.abs(dq)
    joint = int(speeds.argmax())
    speed = float(speeds[joint])
    return (joint, speed) if speed > (MAX_VIBRATION_SPEED if has_settled else bound) else None


class Cause(NamedTuple):
    """Cause of a change of owners, which is reported as one event per arm.

    Attributes:
        event: Kind of the event.
        reason: Text of the event.
        arms_without_event: Indices of arms for which only their fault is reported.
    """

    event: Event
    reason: str
    arms_without_event: Collection[int] = ()


class Ownership:
    """Active controllets of a cell: every arm has one owner, by default its hold.

    Args:
        arms: Arms in the order of the cell.
        instances: All controllet instances. The holds come first, one per arm in the same order.
        mailbox: Shared memory to which active controllets and events are written.
        backend_of: Backend of each arm, by index.
        blend_cycles: Number of cycles over which torques blend when an arm changes its owner.
        period: Cycle time [s].

    Attributes:
        active: Active instances, in the order of the cell.
        epoch: Number of changes of the active controllets since the start.
        forces: Requested contact forces of the arms.
        changing: Indices of arms whose command interface is changing.

    Thread: control.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        instances: Sequence[ControlletInstance],
        mailbox: Mailbox,
        blend_cycles: int,
        backend_of: Mapping[int, Backend],
        period: float,
    ) -> None:
        self._backend_of = backend_of
        self.changing: set[int] = set()
        self._arms, self._instances, self._mailbox = arms, instances, mailbox
        self._holds = instances[: len(arms)]
        self._blend_cycles = blend_cycles
        self._hold_cycles = min(blend_cycles, HOLD_BLEND_CYCLES)
        self.forces = RequestedForces(arms, self.report, period)
        self._history = ContactEstimator(mailbox, self.forces)
        self._started_forces: dict[int, list[Vector]] = {}
        self._reports: list[tuple[ControlletInstance, str]] = []
        self.active: list[ControlletInstance] = []
        self.epoch = 0

    def switch(self, request: Vector, now_ns: int) -> SwitchStatus:
        """Apply a switch request completely, or reject it and change nothing.

        Args:
            request: Request as numbers: expected :attr:`epoch` or ``ANY_EPOCH``, time of the
                request [ns], one flag per instance, encoded reason. Flags are 0 (inactive),
                ``KEEP_FLAG`` (active) and ``RESTART_FLAG`` (active after a restart).
            now_ns: Time of the cycle [ns].

        Returns:
            Status, which is ``OUTDATED`` if the epoch has changed since the request.
        """
        if int(request[0]) not in (self.epoch, ANY_EPOCH):
            return SwitchStatus.OUTDATED
        flags = request[2 : 2 + len(self._instances)].tolist()
        starting = [
            instance
            for instance, flag in zip(self._instances, flags)
            if flag == RESTART_FLAG or (flag and not instance.active)
        ]
        refused = False
        for instance in starting:
            # A rejected switch must not restart active controllets.
            if refused and instance.active:
                continue
            reason = self._activate_or_refuse(instance)
            if reason:
                refused = True
                self.report(Event.SWITCH_FAILED, instance, reason, now_ns)
        if refused:
            self._reports.clear()
            self._started_forces.clear()
            return SwitchStatus.FAILED
        cause = Cause(Event.SWITCHED, reason_of(request))
        self.apply([bool(flag) for flag in flags], starting, now_ns=now_ns, cause=cause)
        return SwitchStatus.DONE

    def _activate_or_refuse(self, instance: ControlletInstance) -> str:
        arms = [] if instance.spec.is_hold else [self._arms[i] for i in instance.spec.arms]
        if arms and not instance.is_sound:
            return _unsound(instance)
        for arm in arms:
            if arm.fault:
                return (
                    f"{instance.spec.name}: arm {arm.state.name} has a latched fault "
                    f"({arm.fault.name.lower()}); call {arm.state.name}/error_recovery first"
                )
            if arm.busy:
                return f"{instance.spec.name}: arm {arm.state.name} {arm.busy}"
        for arm in arms:
            if reason := self._reason_against_interface_change(instance, arm):
                return reason
        try:
            self._activate_with_handover(instance)
        except BaseException as error:
            pass_interrupt(error)
            return f"{instance.spec.name}: {error_text(error)}"
        return ""

    def _reason_against_interface_change(self, instance: ControlletInstance, arm: Arm) -> str:
        desired = instance.spec.controllet_class.command_interface
        arms = [arm, *(self._arms[index] for index in instance.spec.arms)]
        changing = next((one for one in arms if one.interface != desired), None)
        if changing is None:
            return ""
        has_settled = (
            arm.interface != COMMAND_INTERFACES[0]
            and arm.motion is not None
            and arm.motion.rest_time >= SETTLING_TIME
        )
        moving = moving_joint(arm.state.dq, has_settled=has_settled)
        if moving is None:
            return ""
        joint, speed = moving
        unit = arm.state.limits.unit(joint, "rad/s")
        description = (
            "to change" if changing is arm else f"while arm {changing.state.name} changes"
        )
        return (
            f"{instance.spec.name}: arm {arm.state.name} moves at {speed:.3f} {unit} (joint "
            f"{joint + 1}), allowed {MAX_VIBRATION_SPEED if has_settled else MAX_REST_SPEED:g} "
            f"{unit} {description} from {changing.interface} to {desired} commands. Let it hold "
            "first, or request the switch with FORCE_AUTO"
        )

    def restart(self, instance: ControlletInstance, now_ns: int) -> None:
        """Restart an active instance from the measured state.

        Raises:
            Exception: Any error of the controllet or a feature.
        """
        self._activate_with_handover(instance)
        self._keep_requested_forces()
        self._report_handovers(now_ns)

    def _activate_with_handover(self, instance: ControlletInstance) -> None:
        if instance.command is not None:
            for index in instance.spec.arms:
                self._arms[index].prepare(instance.spec.controllet_class.command_interface)
        handovers = [self._history.estimate(self._arms[i]) for i in instance.spec.arms]
        words = instance.activate(handovers)
        ended = "" if instance.spec.is_hold else self.forces.ended(instance.spec.arms)
        if words is not None and not isinstance(words, str):
            raise TypeError(
                f"on_transfer of {instance.spec.config.type}: got {type(words).__name__}, "
                "allowed str"
            )
        self._started_forces[instance.spec.index] = [h.requested_in_base for h in handovers]
        if words := "; ".join(filter(None, (words, ended))):
            self._reports.append((instance, words))

    def _keep_requested_forces(self) -> None:
        for index, forces in self._started_forces.items():
            self.forces.keep(self._instances[index], forces)
        self._started_forces.clear()

    def _report_handovers(self, now_ns: int) -> None:
        for instance, words in self._reports:
            self.report(Event.HANDED_OVER, instance, words, now_ns)
        self._reports.clear()

    def recover(self, arm: Arm) -> Event:
        """Clear the fault of an arm and return it; the arm then holds its position and load."""
        if arm.interrupted:  # Other faults keep the requested contact force.
            self.forces.end(arm)
        history = (
            self._history.remaining_load(arm) if arm.interrupted else self._history.estimate(arm)
        )
        return arm.recover(history)

    def apply(
        self,
        is_active: Sequence[bool],
        started: Sequence[ControlletInstance] | None = None,
        restart_holds: bool = False,
        now_ns: int = 0,
        *,
        cause: Cause | None,
    ) -> None:
        """Make the given instances active; arms that none of them owns hold.

        Args:
            is_active: Flag of each instance, True to make it active.
            started: Instances that the caller has just activated; None if this method has to
                activate them.
            restart_holds: True to restart holds even if they already own their arm.
            now_ns: Time of the cycle [ns].
            cause: Cause that is reported for each arm with a new owner; None to report nothing.
        """
        if started is None:
            started = [i for i, flag in zip(self._instances, is_active) if flag and not i.active]
            for instance in started:
                with starting(f"{instance.spec.name} ({instance.spec.config.type})"):
                    self._activate_with_handover(instance)
        flags = list(is_active)
        taken = {arm for i, flag in zip(self._instances, flags) if flag for arm in i.spec.arms}
        changed = [arm for i in started for arm in i.spec.arms]
        for index, hold in enumerate(self._holds):
            if index not in taken:
                flags[index] = True
                if not hold.active or restart_holds:
                    self._activate_with_handover(hold)
                    changed.append(index)
        for instance, flag in zip(self._instances, flags):
            if instance.active and not flag:
                self._deactivate(instance)
            instance.active = flag
            self._mailbox.active[instance.spec.index] = flag
        self.active = [instance for instance in self._instances if instance.active]
        for instance in self.active:
            for slot, index in enumerate(instance.spec.arms):
                arm = self._arms[index]
                if cause is not None and arm.owner is not instance:
                    self._report_owner(arm, instance, cause, now_ns)
                arm.give_to(instance, slot)
            instance.start_traces()
        self._keep_requested_forces()
        for index in changed:
            is_hold = self._arms[index].owner.spec.is_hold
            self._arms[index].blend(self._hold_cycles if is_hold else self._blend_cycles)
        self._report_handovers(now_ns)
        self.epoch += 1
        self._mailbox.words[SharedFlag.EPOCH] = self.epoch
        for instance in self.active:
            if not instance.spec.is_hold:
                self._change_interfaces(instance, now_ns)
        self._suspend_or_resume()

    def _report_owner(
        self, arm: Arm, owner: ControlletInstance, cause: Cause, now_ns: int
    ) -> None:
        if arm.index in cause.arms_without_event:
            return
        before = arm.owner.spec
        law = owner.spec if before.is_hold else before
        text = f"{before.name} -> {owner.spec.name}: {cause.reason}"
        self._mailbox.report(cause.event, now_ns, arm.index, law.index, text)

    def _change_interfaces(self, instance: ControlletInstance, now_ns: int) -> None:
        interface = instance.spec.controllet_class.command_interface
        for arm in (self._arms[index] for index in instance.spec.arms):
            if arm.interface == interface:
                continue
            try:
                self.engage(arm.index, interface)
            except BaseException as error:
                pass_interrupt(error)
                self.fail(instance, Event.BACKEND_ERROR, error_text(error), now_ns, (arm,))
                return

    def engage(self, index: int, interface: str) -> None:
        """Start to change the command interface of an arm, which may take many cycles.

        Until the change is completed, :attr:`changing` contains the arm.

        Args:
            index: Index of the arm in the cell.
            interface: Command interface, one of :data:`.COMMAND_INTERFACES`.

        Raises:
            Exception: Any error of the backend; the interface then stays unchanged.
        """
        backend = self._backend_of[index]
        backend.switch_interface(index, interface)
        self._arms[index].engage(interface)
        if not backend.is_ready(index):
            self.changing.add(index)

    def check_changes(self) -> bool:
        """Resume controllets whose arms have completed a change of the command interface.

        Returns:
            True if an arm has completed its change since the last call.
        """
        done = {index for index in self.changing if self._backend_of[index].is_ready(index)}
        self.changing -= done
        self._suspend_or_resume(done)
        return bool(done)

    def _suspend_or_resume(self, ready_arms: Collection[int] = ()) -> None:
        changing = self.changing
        for instance in self.active:
            # An arm under position or velocity control is braked by ArmMotion instead of hold.
            if instance.spec.is_hold:
                instance.is_suspended = self._arms[instance.spec.arms[0]].motion is not None
                continue
            waited = instance.is_suspended
            instance.is_suspended = not changing.isdisjoint(instance.spec.arms)
            if instance.is_suspended and not waited:
                self._start_hold_on_arms(instance)
            elif waited and not instance.is_suspended:
                # These arms blend from the torque of hold to that of the resumed controllet.
                for index in set(instance.spec.arms).difference(ready_arms):
                    self._arms[index].blend(self._blend_cycles)

    def _start_hold_on_arms(self, instance: ControlletInstance) -> None:
        for arm in (self._arms[index] for index in instance.spec.arms):
            if arm.motion is None:
                hold = self._holds[arm.index]
                hold.is_suspended = False
                hold.activate([self._history.estimate(arm)])

    def _use_hold_torques(self, instance: ControlletInstance, now_ns: int) -> None:
        for tau, index in zip(instance.tau, instance.spec.arms):
            if self._arms[index].motion is None:
                self.update(self._holds[index], now_ns)
                tau[:] = self._holds[index].tau[0]

    def reset(self, is_active: Sequence[bool], now_ns: int) -> None:
        """Activate controllets after a reset of the arms to another state; remaining arms hold.

        A controllet that has rejected its last parameters stays inactive.

        Args:
            is_active: Flag of each controllet instance, True to activate it.
            now_ns: Time of the cycle [ns].

        Raises:
            Exception: Any error of a controllet or feature; all arms hold then.
        """
        self._history.forget()
        for arm in self._arms:
            self.forces.forget(arm.index)
            arm.before_loss = BumplessTransfer(np.zeros(arm.state.n_joints))
        for instance in self.active:
            self._deactivate(instance)
            instance.active = False
        flags = list(is_active)
        for index, instance in enumerate(self._instances):
            if flags[index] and not instance.is_sound:
                flags[index] = instance.spec.is_hold
                self.report(Event.SWITCH_FAILED, instance, _unsound(instance), now_ns)
        cause = Cause(Event.SWITCHED, "the simulation was reset")
        try:
            self.apply(flags, now_ns=now_ns, cause=cause)
        except BaseException as error:
            # The error has left no controllet active, but every arm needs an owner.
            reason = f"the simulation was reset, but {error_text(error)}"
            cause = Cause(Event.HOLDS, reason)
            self.apply([False] * len(flags), restart_holds=True, now_ns=now_ns, cause=cause)
            raise

    def hold_all(self, event: Event, text: str, now_ns: int) -> None:
        """Let every arm hold from its measured state; report ``event`` with reason ``text``."""
        self._mailbox.report(event, now_ns, -1, -1, text)
        self.apply([False] * len(self._instances), restart_holds=True, now_ns=now_ns, cause=None)

    def update(self, instance: ControlletInstance, now_ns: int) -> None:
        """Compute the torques of an instance; if this fails, its arms hold in the same cycle."""
        if instance.is_suspended:
            if not instance.spec.is_hold:
                self._use_hold_torques(instance, now_ns)
            return
        try:
            if instance.spec.is_hold and self._arms[instance.spec.arms[0]].released:
                self._arms[instance.spec.arms[0]].resume_hold()
            instance.update()
        except NonFiniteTorque as error:
            self.fail(instance, Event.NON_FINITE_TORQUE, str(error), now_ns)
        except RefusedCommand as error:
            self.fail(instance, error.event, str(error), now_ns)
        except BaseException as error:
            pass_interrupt(error)
            self.fail(instance, Event.CONTROLLET_ERROR, error_text(error), now_ns)
        if instance.notices:
            for text in instance.notices:
                self.report(Event.NOTICE, instance, text, now_ns)
            instance.notices.clear()

    def attempt(self, instance: ControlletInstance, step: Callable[[], None], now_ns: int) -> None:
        """Call a function of an instance; if it raises an error, the arms of the instance hold.

        Args:
            instance: Instance of the function. If it is inactive, an error is only reported.
            step: Function to call, without arguments.
            now_ns: Time of the cycle [ns].
        """
        try:
            step()
        except BaseException as error:
            pass_interrupt(error)
            if instance.active:
                self.fail(instance, Event.CONTROLLET_ERROR, error_text(error), now_ns)
            else:  # Another controllet owns its arms, so they get no fault.
                self.report(Event.CONTROLLET_ERROR, instance, error_text(error), now_ns)

    def fail(
        self,
        instance: ControlletInstance,
        event: Event,
        text: str,
        now_ns: int,
        arms: Sequence[Arm] | None = None,
    ) -> None:
        """Latch a fault on arms of an instance, report it, and let all arms of the instance hold.

        Args:
            instance: Instance that has failed, or that owns the arms with the fault.
            event: Fault to latch.
            text: Reason, as text of the reported event.
            now_ns: Time of the cycle [ns].
            arms: Arms with the fault; None for all arms of the instance.
        """
        is_hold = instance.spec.is_hold
        if arms is None and is_hold:
            arm = self._arms[instance.spec.arms[0]]
            if arm.state_lost and not arm.released:
                # Hold has restarted after a state that was not finite, and fails again. The arm is
                # released again without a second report.
                arm.release()
            if arm.released:
                return
        failed = list(arms) if arms is not None else [self._arms[i] for i in instance.spec.arms]
        for arm in failed:
            if event.takes_torque and not arm.interrupted:
                arm.before_loss = self._history.before_loss(arm)
                self.forces.end(arm)
            arm.fault = event
            self._mailbox.report(event, now_ns, arm.index, instance.spec.index, text)
        if is_hold:
            if not event.permits_hold:
                self.forces.end(self._arms[instance.spec.arms[0]])
                self._arms[instance.spec.arms[0]].release()
            return
        names = ", ".join(arm.state.name for arm in failed)
        cause = Cause(
            Event.HOLDS, f"{names}: {event.name.lower()}: {text}", {arm.index for arm in failed}
        )
        desired = [i.active and i is not instance for i in self._instances]
        self.apply(desired, now_ns=now_ns, cause=cause)
        for index in instance.spec.arms:
            self.update(self._holds[index], now_ns)

    def report(self, event: Event, instance: ControlletInstance, text: str, now_ns: int) -> None:
        """Report an event of an instance, without latching a fault."""
        self._mailbox.report(event, now_ns, -1, instance.spec.index, text)

    def _deactivate(self, instance: ControlletInstance) -> None:
        instance.is_suspended = False
        try:  # An error of ``on_deactivate`` is only reported.
            instance.deactivate()
        except BaseException as error:
            pass_interrupt(error)
            now_ns = time.monotonic_ns()
            self.report(Event.CONTROLLET_ERROR, instance, error_text(error), now_ns)


def _unsound(instance: ControlletInstance) -> str:
    return f"{instance.spec.name}: its last parameters caused an error. Set valid ones first"
