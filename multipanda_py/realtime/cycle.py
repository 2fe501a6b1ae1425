# SPDX-License-Identifier: Apache-2.0
"""One control cycle: read states, run controllets, limit torques, write commands, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from multipanda_py.backend import Backend
from multipanda_py.context import Handover
from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.arm_requests import ArmSettings, Recoveries
from multipanda_py.realtime.contact_forces import CYCLES_BETWEEN_CHECKS
from multipanda_py.realtime.controllet_instance import ControlletInstance
from multipanda_py.realtime.cycle_checks import BatchSafety, JointUnwrap, Watchdog
from multipanda_py.realtime.cycle_record import HEADER
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.loop_state import LoopState
from multipanda_py.realtime.objects import AttachedObjects, SceneObjects
from multipanda_py.realtime.ownership import Ownership
from multipanda_py.realtime.plugin_errors import error_text, pass_interrupt, starting
from multipanda_py.realtime.shared_memory import Mailbox, ObjectResult, SharedFlag
from multipanda_py.realtime.system.child_process import log_line
from multipanda_py.realtime.tare import Tares
from multipanda_py.state import ArmState, Vector

_monotonic_ns = time.monotonic_ns
# Plain integers, because Python 3.11 looks up enum members through a function call.
_MAIL, _TARGETS, _TRACE = int(SharedFlag.MAIL), int(SharedFlag.TARGETS), int(SharedFlag.TRACE)
_LOOP_HEARTBEAT, _LAST_ROW = int(SharedFlag.LOOP_HEARTBEAT), int(SharedFlag.LAST_ROW)
_WEIGHT = np.array([0.0, 0.0, -10.0, 0.0, 0.0, 0.0])


def _pressing(state: ArmState) -> Handover:
    """Return the handover of an arm that presses down with 10 N, for the warm-up."""
    return Handover(_WEIGHT.dot(state.jacobian), _WEIGHT, _WEIGHT)


class ControlLoop:
    """Control cycle of a cell.

    Every error of a controllet ends in :meth:`Ownership.fail`. The arms of that controllet hold in
    the same cycle, and the fault is latched on them and reported once. No exception leaves
    :meth:`cycle`.

    A cycle runs for the arms whose state is *fresh*. If a clock paces the loop, these are all
    arms. Otherwise they are the arms whose packet has just arrived.

    A controllet of several arms is computed when its first arm is fresh, once per period. The
    torques of its other arms wait for the packet of that arm, one period at the longest. Such a
    packet is answered first, and the model of the arm is updated afterwards. The controllet needs
    that model only when its first arm is fresh again.

    Args:
        arms: Arms in the order of the cell.
        instances: All controllet instances. The holds come first, one per arm in the same order.
        backends: Backends that drive the arms.
        mailbox: Shared memory between the loop and the owning process.
        row: Record of one cycle, (1,). The arm states are views into it.
        ownership: Assignment of arms to controllets.
        heartbeat_timeout_ns: Maximum age of the heartbeat of the owning process before all arms
            hold [ns]. 0 disables the check.
        held: Objects attached to the grippers.
        things: Objects of the scene.

    Attributes:
        arms: Arms in the order of the cell.
        instances: All controllet instances, active or not.
        owners: Assignment of arms to controllets.
        mailbox: Shared memory between the loop and the owning process.
        recoveries: Requests to recover arms.
        watchdog: Watchdog of the owning process and of the streams of targets.

    Thread: control, except construction and :meth:`start`.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        instances: Sequence[ControlletInstance],
        backends: Sequence[Backend],
        mailbox: Mailbox,
        row: NDArray[np.void],
        ownership: Ownership,
        heartbeat_timeout_ns: int,
        held: AttachedObjects,
        things: SceneObjects,
    ) -> None:
        self.arms, self.instances, self.backends = arms, instances, backends
        # start() moves backends of real arms to the front, because simulated arms can wait.
        self._writing = list(backends)
        self.mailbox, self._words = mailbox, mailbox.words
        self.owners = ownership
        self._row = row.view(np.float64).reshape(-1)
        self._header = row.view(np.int64).reshape(-1).data[:HEADER]
        self._cycle_end = row["cycle_end"].data
        self._time = row["time"]
        self._sensed = [row["arms"]["state_cycle_ns"][0, i : i + 1].data for i in range(len(arms))]
        self._all = range(len(arms))
        self._together = BatchSafety(arms, row["arms"][0], backends[0].period)
        self._backend_of = {arm: backend for backend in backends for arm in backend.arms}
        self.watchdog = Watchdog(ownership, mailbox, heartbeat_timeout_ns)
        self.recoveries = Recoveries(arms, self._backend_of, ownership, mailbox)
        self._tares = Tares(arms, self._backend_of, mailbox, backends[0].period)
        self._joint_unwrap = [
            JointUnwrap(arm.state) for arm in arms if arm.state.limits.endless.any()
        ]
        self._on_springs = [(arm.index, arm.springs) for arm in arms if arm.springs]
        self._estimates = [
            (arm.index, arm.external_torque_estimator)
            for arm in arms
            if arm.external_torque_estimator is not None
        ]
        self._held, self._objects = held, things
        self._settings = ArmSettings(arms, self._backend_of, mailbox, self._tares)
        self._start_time: set[int] = set()
        self._is_traced = self._mail = self._targets = 0
        self._cycle = self._answered = self._control_ns = 0
        self.missed = 0
        """Number of periods skipped since the start; :func:`.run_paced` counts them."""

    def start(self, active: Sequence[str], warm_up: int = 300) -> None:
        """Connect the arms, warm up every controllet, and activate those of ``active``.

        Arms that are not ready start with a latched fault.

        Args:
            active: Names of the controllets that are active at the start.
            warm_up: Number of updates of each controllet before the first cycle.

        Raises:
            BackendError: If an arm cannot be used at all.
            LoopError: If a backend, a controllet or a feature fails.
        """
        for backend in self.backends:
            with starting(self._owner_name(backend)):
                backend.connect()
        self._writing = sorted(self.backends, key=lambda backend: not backend.wake_fds)
        not_ready: list[tuple[int, str]] = []
        for backend in self.backends:
            with starting(self._owner_name(backend)):
                not_ready += [(index, text) for index, text in backend.faults()]
        self._read(self._all, _monotonic_ns())
        self._model(self._all)
        for backend in self.backends:
            with starting(self._owner_name(backend)):
                for index in backend.arms:
                    self.arms[index].state.check_in_place(self._row)
        for arm in self.arms:
            arm.state.joint_command[0] = arm.state.q
            # The last command must include the gravity torques that the robot has exerted until
            # now.
            arm.update_gravity()
        for instance in self.instances:
            with starting(f"{instance.spec.name} ({instance.spec.config.type})"):
                instance.activate([_pressing(state) for state in instance.states])
                for _ in range(warm_up):
                    for arm in self.arms:
                        arm.model.update(arm.state)
                    instance.update()
                instance.deactivate()
                for state in instance.states:
                    state.check_in_place(self._row)
        for arm in self.arms:
            if arm.first_interface != arm.interface:
                self.owners.engage(arm.index, arm.first_interface)
        desired = [instance.spec.name in active for instance in self.instances]
        self.owners.apply(desired, cause=None)
        for arm in self.arms:
            arm.blend_left = 0
        for index, text in not_ready:
            self.recoveries.stopped(index, text, _monotonic_ns())

    def enable_commands(self) -> None:
        """Let the arms execute their commands, after the warm-up of the loop."""
        for backend in self.backends:
            self._attempt(backend, _monotonic_ns(), backend.begin)

    def commands_enabled(self) -> bool:
        """Return True if all arms execute their commands or have a fault.

        Call it between cycles until it returns True. When an arm begins to execute commands, its
        controllet restarts from the measured state.
        """
        now_ns = _monotonic_ns()
        for arm in self.arms:
            is_ready = self._backend_of[arm.index].is_ready(arm.index)
            if is_ready and arm.index not in self._start_time and arm.motion is None:
                self.owners.attempt(
                    arm.owner, partial(self.owners.restart, arm.owner, now_ns), now_ns
                )
            (self._start_time.add if is_ready else self._start_time.discard)(arm.index)
        return all(backend.has_begun for backend in self.backends)

    def finish_start(self) -> None:
        """End the start phase: from now on, no backend starts an arm again after a fault."""
        for backend in self.backends:
            self._attempt(backend, _monotonic_ns(), backend.finish_start)

    def take_warnings(self) -> list[str]:
        """Return the warnings of the start, and clear them."""
        result = [text for backend in self.backends for text in backend.warnings]
        for backend in self.backends:
            backend.warnings.clear()
        return result

    def close(self) -> None:
        """Release the arms; safe to call twice. Errors of a backend do not stop the others."""
        for backend in self.backends:
            try:
                backend.close()
            except BaseException as error:
                pass_interrupt(error)
                log_line(f"{self._owner_name(backend)} did not close: {error_text(error)}")

    def _owner_name(self, backend: Backend) -> str:
        names = ", ".join(self.arms[index].state.name for index in backend.arms)
        return f"{names} (backend {type(backend).__name__})"

    def save(self) -> LoopState:
        """Return the state that :meth:`load` restores. Call it between two cycles."""
        return LoopState(
            self._row.copy(),
            tuple(instance.active for instance in self.instances),
            tuple(arm.fault for arm in self.arms),
            tuple(arm.released for arm in self.arms),
            tuple(arm.interface for arm in self.arms),
            tuple(
                arm.gravity.load_fraction if arm.gravity is not None else 0.0 for arm in self.arms
            ),
            tuple(backend.save() for backend in self.backends),
        )

    def load(self, state: LoopState, seed: int | None, now_ns: int) -> None:
        """Restore a saved state and record it; see :class:`.LoopState`.

        Args:
            state: Saved state.
            seed: New seed of the random generators; None restores their saved state.
            now_ns: Time of the cycle, CLOCK_MONOTONIC [ns].

        Raises:
            BackendError: If a backend cannot restore its state.
            Exception: Any error of a controllet or feature during its activation.
        """
        for arm, interface in zip(self.arms, state.interfaces):
            if arm.interface != interface:
                self.owners.engage(arm.index, interface)
        for backend, saved in zip(self.backends, state.backends):
            backend.load(saved, seed)
        self._row[:] = state.row
        for rotations in self._joint_unwrap:
            rotations.reset()
        for _, measured in self._estimates:
            measured.restart()
        self.recoveries.pending.clear()
        for slot in (*self.mailbox.grippers, *self.mailbox.holds):
            slot.skip()
        self._objects.skip()
        for arm in self.arms:
            if arm.motion is not None:
                arm.motion.resume()
        for arm, fault, released in zip(self.arms, state.faults, state.released):
            arm.load(fault, released)
            arm.model.update(arm.state)
            if arm.springs is not None:
                arm.springs.gravity.update()
        self._held.load()
        for arm, load_fraction in zip(self.arms, state.load_fractions):
            if arm.gravity is not None:
                arm.gravity.load_fraction = load_fraction
        self.owners.reset(state.active, now_ns)
        for arm in self.arms:
            arm.blend_left = 0
        self._record(now_ns, now_ns)

    def cycle(self, wake_ns: int, deadline_ns: int, fresh: Sequence[int] | None = None) -> None:
        """Run one cycle.

        Args:
            wake_ns: Start of the cycle, CLOCK_MONOTONIC [ns].
            deadline_ns: Planned start of the cycle, CLOCK_MONOTONIC [ns].
            fresh: Indices of the arms with a new state; None means all arms.
        """
        chosen: Sequence[int] = self._all if fresh is None else fresh
        everyone = len(chosen) == len(self._all)
        self._read(chosen, wake_ns)
        only_follow = fresh is not None and self.is_follower_packet(fresh)
        if not only_follow:
            self._model(chosen)
            self._decide(fresh, wake_ns)
        if everyone:
            self._together.command()
        else:
            for index in chosen:
                self.arms[index].command()
        self._control_ns = _monotonic_ns() - wake_ns
        for backend in self._writing:
            self._attempt(backend, wake_ns, backend.write, chosen)
        if only_follow:
            self._model(chosen)
            for arm in [self.arms[index] for index in chosen]:
                self.owners.attempt(arm.owner, arm.state.look_ahead, wake_ns)
        # Checked after write(), so that the checks do not delay the torques.
        self.watchdog.check(wake_ns)
        self._held.update(wake_ns)
        if not self._cycle % CYCLES_BETWEEN_CHECKS:
            self.owners.forces.compare(self.owners.active, wake_ns)
        for index, springs in self._on_springs:
            if text := springs.new_warning():
                self.mailbox.report(Event.NOTICE, wake_ns, index, -1, text)
        if fresh is not None:
            for index in fresh:
                if self._backend_of[index].is_new(index):
                    self._sensed[index][0] = wake_ns
        self._record(wake_ns, deadline_ns)

    def is_follower_packet(self, fresh: Sequence[int]) -> bool:
        """Return True if the fresh arms' commands are computed already and no request is pending.

        The loop then answers the packets of these arms first, and updates their models afterwards.
        """
        if not fresh or self._words[_MAIL] != self._mail or self._is_busy():
            return False
        for index in fresh:
            arm = self.arms[index]
            owner = arm.owner
            if owner.is_new or owner.spec.arms[0] in fresh or arm.check():
                return False
        return True

    def _is_busy(self) -> bool:
        """Return True while an operation of several cycles is in progress."""
        return bool(
            self.recoveries.pending or self.owners.changing or self._tares.pending
            or self._settings.pending or self._settings.interrupted
        )  # fmt: skip

    def _decide(self, fresh: Sequence[int] | None, wake_ns: int) -> None:
        """Check states, process requests, and compute the controllets that are due."""
        chosen: Sequence[int] = self._all if fresh is None else fresh
        everyone = len(chosen) == len(self._all)
        for index in () if everyone and self._together.check_states() else chosen:
            arm = self.arms[index]
            if fault := arm.check():
                self.owners.fail(arm.owner, fault, arm.explain(fault), wake_ns, (arm,))
        # The counter of targets is read before that of requests, so that a target that was sent
        # after a request is never processed before it.
        targets = self._words[_TARGETS]
        mail = self._words[_MAIL]
        if mail != self._mail:
            self._mail, self._targets = mail, targets
            self._process_requests(wake_ns)
        elif targets != self._targets:
            self._targets = targets
            self._take_targets(wake_ns)
        if self.recoveries.pending:
            self.recoveries.clear_faults(wake_ns)
        if self.owners.changing and self.owners.check_changes():
            self._mail = -1  # Lets the next cycle read requests that arrived during the change.
        if self._settings.pending or self._settings.interrupted:
            self._settings.forward_responses(wake_ns)
        if self._tares.pending:
            self._tares.update(chosen, wake_ns)
        for instance in self.owners.active:
            if fresh is None or instance.is_new or instance.spec.arms[0] in fresh:
                self.owners.update(instance, wake_ns)

    def process_object_requests(self, now_ns: int) -> None:
        """Process requests for objects while the simulation is paused."""
        before = self._objects.taken
        self._attempt(self._objects.backend, now_ns, self._objects.receive)
        if self._objects.taken != before:
            self._publish_again()

    def change_object(self, record: Vector) -> tuple[ObjectResult, int, float]:
        """Spawn, remove or move an object between two cycles; see :class:`.SceneObjects`."""
        answer = self._objects.change(record)
        if answer[0] == ObjectResult.DONE:
            self._publish_again()
        return answer

    def _publish_again(self) -> None:
        """Publish the cycle record again with the current objects, at the same simulated time."""
        self._cycle += 1
        self._header[0] = self._cycle_end[0] = self._cycle
        self.mailbox.ring.append(self._row)
        self._words[SharedFlag.SHOWN] += 1

    def hold_all(self, event: Event, text: str, now_ns: int) -> None:
        """Let every arm hold, and report the reason.

        Args:
            event: Event to report.
            text: Reason, for the report.
            now_ns: Time of the cycle [ns].
        """
        self.owners.hold_all(event, text, now_ns)

    @property
    def is_paused(self) -> bool:
        """True if the owning process has paused the loop, which only a simulation allows."""
        return bool(self._words[_LAST_ROW]) and self.mailbox.is_paused

    def at_rest(self, speed: float = 1e-3) -> bool:
        """Return True if no joint moves faster than ``speed`` [rad/s]."""
        return all(bool(np.abs(arm.state.dq).max() < speed) for arm in self.arms)

    def _read(self, fresh: Sequence[int], now_ns: int) -> None:
        for tare in self._tares.active:
            tare.undo()
        for backend in self.backends:
            self._attempt(backend, now_ns, backend.read, fresh)
            try:
                faults = [(index, text) for index, text in backend.faults()]
            except BaseException as error:
                pass_interrupt(error)
                self._blame(backend, error, now_ns)
                continue
            for index, text in faults:
                self.recoveries.stopped(index, text, now_ns)
            if backend.notices:
                for text in backend.notices:
                    self.mailbox.report(Event.NOTICE, now_ns, -1, -1, text)
                backend.notices.clear()
        for index, measured in self._estimates:
            if index in fresh and self._backend_of[index].is_new(index):
                self._attempt(self._backend_of[index], now_ns, measured.update)
        self._time[0] = self.backends[0].time
        for rotations in self._joint_unwrap:
            rotations.unwrap()
        for tare in self._tares.active:
            tare.apply()

    def _model(self, fresh: Sequence[int]) -> None:
        for index in fresh:
            arm = self.arms[index]
            arm.model.update(arm.state)

    def _process_requests(self, now_ns: int) -> None:
        if self._words[_TRACE] != self._is_traced:
            self._is_traced = self._words[_TRACE]
            for instance in self.instances:
                instance.trace_terms(bool(self._is_traced))
        # Done before a switch, so that the switch starts with the new parameters.
        for instance in self.instances:
            self.owners.attempt(instance, instance.receive_parameters, now_ns)
        request = self.mailbox.switch.pop()
        if request is not None:
            # Time at which the new controllets start.
            self._words[SharedFlag.SWITCH_NS] = _monotonic_ns()
            self._words[SharedFlag.SWITCH_STATUS] = self.owners.switch(request, now_ns)
            self._answered = self.mailbox.switch.last_read
        recover = self.mailbox.recover.pop()
        if recover is not None:
            self.recoveries.start(recover, now_ns)
        for index, slot in enumerate(self.mailbox.grippers):
            command = slot.pop()
            if command is not None:
                self._command_gripper(index, slot.last_read, command, now_ns)
        self._settings.receive(now_ns)
        self._tares.receive(now_ns)
        self._held.receive(now_ns)
        self._attempt(self._objects.backend, now_ns, self._objects.receive)
        self._take_targets(now_ns)

    def _take_targets(self, now_ns: int) -> None:
        for instance in self.owners.active:
            try:
                if not instance.receive_targets(now_ns):
                    text = "target is not finite"
                    self.owners.report(Event.TARGET_INVALID, instance, text, now_ns)
            except BaseException as error:
                pass_interrupt(error)
                self.owners.fail(instance, Event.CONTROLLET_ERROR, error_text(error), now_ns)

    def _command_gripper(self, arm: int, number: int, command: Vector, now_ns: int) -> None:
        backend = self._backend_of[arm]
        self._attempt(backend, now_ns, backend.grip, arm, number, command)

    def _attempt(
        self, backend: Backend, now_ns: int, step: Callable[..., None], *arguments: object
    ) -> None:
        """Call a method of a backend; if it raises an error, the arms of the backend hold."""
        try:
            step(*arguments)
        except BaseException as error:
            pass_interrupt(error)
            self._blame(backend, error, now_ns)

    def _blame(self, backend: Backend, error: BaseException, now_ns: int) -> None:
        # During the start, no controllet owns the arms yet, so that none can hold them.
        if not self.owners.active:
            raise LoopError(f"{self._owner_name(backend)}: {error_text(error)}") from error
        for index in backend.arms:
            arm = self.arms[index]
            if arm.fault:
                arm.interrupted = True
            else:
                self.owners.fail(arm.owner, Event.BACKEND_ERROR, error_text(error), now_ns)

    def _record(self, wake_ns: int, deadline_ns: int) -> None:
        header = self._header
        self._cycle += 1
        header[0] = self._cycle_end[0] = self._cycle
        header[1], header[2] = wake_ns, deadline_ns
        header[3] = _monotonic_ns() - wake_ns
        header[4] = self._control_ns
        header[5], header[6] = self.missed, self.owners.epoch
        self.mailbox.ring.append(self._row)
        self._words[_LOOP_HEARTBEAT] = wake_ns
        if self._answered:  # This record is the first that shows the new owners to readers.
            self._words[SharedFlag.SWITCH_ACK] = self._answered
            self._answered = 0
