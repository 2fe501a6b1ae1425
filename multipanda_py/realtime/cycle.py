# SPDX-License-Identifier: Apache-2.0
"""One control cycle: read states, run controllets, limit torques, write commands, record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from multipanda_py.backend import Backend
from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.arm_requests import ArmSettings, Recoveries, Tares
from multipanda_py.realtime.contact_forces import CYCLES_BETWEEN_CHECKS
from multipanda_py.realtime.controllet_instance import ControlletInstance
from multipanda_py.realtime.cycle_checks import BatchSafety, JointUnwrap, Watchdog
from multipanda_py.realtime.cycle_record import HEADER
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.objects import AttachedObjects, SceneObjects
from multipanda_py.realtime.ownership import Ownership
from multipanda_py.realtime.plugin_errors import error_text, pass_interrupt
from multipanda_py.realtime.shared_memory import Mailbox, ObjectResult, SharedFlag
from multipanda_py.realtime.system.child_process import log_line
from multipanda_py.state import Vector

_monotonic_ns = time.monotonic_ns
# Plain integers, because Python 3.11 looks up enum members through a function call.
_MAIL, _TARGETS, _TRACE = int(SharedFlag.MAIL), int(SharedFlag.TARGETS), int(SharedFlag.TRACE)
_LOOP_HEARTBEAT, _LAST_ROW = int(SharedFlag.LOOP_HEARTBEAT), int(SharedFlag.LAST_ROW)


class FaultBarrier:
    """Context manager for calls of a backend: after an error, its arms get a fault and hold.

    Raises:
        LoopError: If the backend raises an error before the loop has an active controllet.

    Thread: control.
    """

    def __init__(self, loop: ControlLoop, backend: Backend) -> None:
        self._loop, self._backend = loop, backend

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            return True
        pass_interrupt(error)
        loop, backend = self._loop, self._backend
        if not loop.owners.active:
            raise LoopError(f"{loop.label(backend)}: {error_text(error)}") from error
        for index in backend.arms:
            arm = loop.arms[index]
            if arm.fault:
                arm.interrupted = True
            else:
                loop.owners.fail(arm.owner, Event.BACKEND_ERROR, error_text(error), loop.now_ns)
        return True


class ControlLoop:
    """Control cycle of a cell.

    An error of a controllet or a backend never leaves :meth:`cycle`. The arms of this controllet
    or backend hold in the same cycle. The fault is latched on them and reported once.

    A cycle runs for *fresh* arms: those whose state packets have just arrived, or all arms if a
    clock starts the cycle. The argument ``fresh`` of the methods contains their indices. A
    controllet of several arms is computed once per period, when its first arm is fresh.

    Args:
        arms: Arms in the order of the cell.
        instances: All controllet instances. The holds come first, one per arm in the same order.
        backends: Backends that drive the arms.
        mailbox: Shared memory between the loop and the owning process.
        row: Cycle record that the loop fills in every cycle, a structured array (1,). The arm
            states are views into it.
        ownership: Assignment of arms to controllets.
        heartbeat_timeout_ns: Maximum age of the heartbeat of the owning process before all arms
            hold [ns]. 0 disables the check.
        attached: Handler of objects attached to grippers.
        objects: Handler of requests to spawn, remove or move objects.

    Attributes:
        write_order: Backends in the order in which commands are sent; real arms come first.
        backend_of: Backend of each arm, by index.
        barriers: Fault barrier of each backend.
        owners: Assignment of arms to controllets.
        row: Argument ``row``, viewed as a flat array of numbers, (n,).
        recoveries: Handler of recovery requests.
        watchdog: Watchdog of the owning process and of targets.
        joint_unwraps: Joint unwrapping of each arm with continuous joints.
        torque_estimators: Pairs of the index of an arm and its estimator of the external torques.
        now_ns: Start of the present or last cycle, CLOCK_MONOTONIC [ns].
        missed: Number of periods skipped since the start; :func:`.run_paced` counts them.

    Thread: control, except construction and :func:`.start_loop`.
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
        attached: AttachedObjects,
        objects: SceneObjects,
    ) -> None:
        self.arms, self.instances, self.backends = arms, instances, backends
        self.write_order = list(backends)
        self.mailbox, self._words = mailbox, mailbox.words
        self.owners = ownership
        self.row: Vector = row.view(np.float64).reshape(-1)
        self._header = row.view(np.int64).reshape(-1).data[:HEADER]
        self._cycle_end = row["cycle_end"].data
        self._time = row["time"]
        self._state_cycle_ns = [
            row["arms"]["state_cycle_ns"][0, i : i + 1].data for i in range(len(arms))
        ]
        self._all = range(len(arms))
        self._batch_safety = BatchSafety(arms, row["arms"][0], backends[0].period)
        self.backend_of = {arm: backend for backend in backends for arm in backend.arms}
        self.barriers = {backend: FaultBarrier(self, backend) for backend in backends}
        self.watchdog = Watchdog(ownership, mailbox, heartbeat_timeout_ns)
        self.recoveries = Recoveries(arms, self.backend_of, ownership, mailbox)
        self._tares = Tares(arms, self.backend_of, mailbox, backends[0].period)
        self.joint_unwraps = [
            JointUnwrap(arm.state) for arm in arms if arm.state.limits.endless.any()
        ]
        self._on_springs = [(arm.index, arm.springs) for arm in arms if arm.springs]
        self.torque_estimators = [
            (arm.index, arm.external_torque_estimator)
            for arm in arms
            if arm.external_torque_estimator is not None
        ]
        self.attached, self.objects = attached, objects
        self._settings = ArmSettings(arms, self.backend_of, mailbox, self._tares)
        self._is_traced = self._request_count = self._target_count = 0
        self._cycle = self._switch_to_acknowledge = self._control_ns = 0
        self.now_ns = self.missed = 0

    def cycle(self, wake_ns: int, deadline_ns: int, fresh: Sequence[int] | None = None) -> None:
        """Run one control cycle; errors of backends and controllets become faults.

        Args:
            wake_ns: Start of the cycle, CLOCK_MONOTONIC [ns].
            deadline_ns: Planned start of the cycle, CLOCK_MONOTONIC [ns].
            fresh: Indices of the arms whose state packets start the cycle; None for all arms, if a
                clock starts the cycle.
        """
        self.now_ns = wake_ns
        indices: Sequence[int] = self._all if fresh is None else fresh
        self.read(indices)
        if fresh is not None and self.is_follower_packet(fresh):
            self.answer_followers(fresh)
        else:
            self.update_models(indices)
            self.check_states(indices)
            self.process_requests(indices)
            self.update_controllets(indices)
            self.saturate(indices)
            self.write(indices)
        self.check_watchdogs()
        self.record(deadline_ns, fresh)

    def is_follower_packet(self, fresh: Sequence[int]) -> bool:
        """Return True if :meth:`answer_followers` can answer the packets that have arrived.

        All fresh arms must be followers with valid states, and no request may be pending.
        """
        if (
            not fresh
            or self._words[_MAIL] != self._request_count
            or self._has_unfinished_requests()
        ):
            return False
        for index in fresh:
            arm = self.arms[index]
            owner = arm.owner
            if owner.is_new or owner.spec.arms[0] in fresh or arm.check():
                return False
        return True

    def answer_followers(self, fresh: Sequence[int]) -> None:
        """Send the commands of fresh followers, and update the models of these arms afterwards.

        A follower is any arm but the first of a controllet with several arms. Its command is
        computed when the packet of the first arm arrives, and sent when its own packet arrives.
        """
        self.saturate(fresh)
        self.write(fresh)
        self.update_models(fresh)  # Only now, because a robot waits only 0.3 ms for its command.
        for arm in [self.arms[index] for index in fresh]:
            self.owners.attempt(arm.owner, arm.state.look_ahead, self.now_ns)

    def read(self, fresh: Sequence[int]) -> None:
        """Read the states of fresh arms, and latch the faults that backends report."""
        for tare in self._tares.active:
            tare.undo()
        for backend in self.backends:
            with self.barriers[backend]:
                backend.read(fresh)
            faults: list[tuple[int, str]] | None = None
            with self.barriers[backend]:
                faults = [(index, text) for index, text in backend.faults()]
            if faults is None:
                continue
            for index, text in faults:
                self.recoveries.stopped(index, text, self.now_ns)
            if backend.notices:
                for text in backend.notices:
                    self.mailbox.report(Event.NOTICE, self.now_ns, -1, -1, text)
                backend.notices.clear()
        for index, estimator in self.torque_estimators:
            backend = self.backend_of[index]
            if index in fresh and backend.is_new(index):
                with self.barriers[backend]:
                    estimator.update()
        self._time[0] = self.backends[0].time
        for joints in self.joint_unwraps:
            joints.unwrap()
        for tare in self._tares.active:
            tare.apply()

    def update_models(self, fresh: Sequence[int]) -> None:
        """Compute kinematics, inertia and external wrenches of fresh arms."""
        for index in fresh:
            arm = self.arms[index]
            arm.model.update(arm.state)

    def check_states(self, fresh: Sequence[int]) -> None:
        """Latch faults on fresh arms whose measured state is invalid."""
        if len(fresh) == len(self._all) and self._batch_safety.check_states():
            return
        for index in fresh:
            arm = self.arms[index]
            if fault := arm.check():
                self.owners.fail(arm.owner, fault, arm.explain(fault), self.now_ns, (arm,))

    def process_requests(self, fresh: Sequence[int]) -> None:
        """Process new requests and targets, and continue requests that take several cycles."""
        # The counter of targets is read before that of requests. A target that was sent after a
        # request is thus never processed before the request.
        targets = self._words[_TARGETS]
        requests = self._words[_MAIL]
        if requests != self._request_count:
            self._request_count, self._target_count = requests, targets
            self._receive_requests()
            self._receive_targets()
        elif targets != self._target_count:
            self._target_count = targets
            self._receive_targets()
        if self.recoveries.pending:
            self.recoveries.clear_faults(self.now_ns)
        if self.owners.changing and self.owners.check_changes():
            # No count equals -1, so the next cycle reads requests that arrived during the change.
            self._request_count = -1
        if self._settings.pending or self._settings.interrupted:
            self._settings.forward_responses(self.now_ns)
        if self._tares.pending:
            self._tares.update(fresh, self.now_ns)

    def _receive_requests(self) -> None:
        if self._words[_TRACE] != self._is_traced:
            self._is_traced = self._words[_TRACE]
            for instance in self.instances:
                instance.trace_terms(bool(self._is_traced))
        # Parameters come before a switch, so that new controllets start with their new values.
        for instance in self.instances:
            self.owners.attempt(instance, instance.receive_parameters, self.now_ns)
        request = self.mailbox.switch.pop()
        if request is not None:
            # The client measures the delay of the switch up to this start of the new controllets.
            self._words[SharedFlag.SWITCH_NS] = _monotonic_ns()
            self._words[SharedFlag.SWITCH_STATUS] = self.owners.switch(request, self.now_ns)
            self._switch_to_acknowledge = self.mailbox.switch.last_read
        recover = self.mailbox.recover.pop()
        if recover is not None:
            self.recoveries.start(recover, self.now_ns)
        for index, slot in enumerate(self.mailbox.grippers):
            command = slot.pop()
            if command is not None:
                backend = self.backend_of[index]
                with self.barriers[backend]:
                    backend.command_gripper(index, slot.last_read, command)
        self._settings.receive(self.now_ns)
        self._tares.receive(self.now_ns)
        self.attached.receive(self.now_ns)
        with self.barriers[self.objects.backend]:
            self.objects.receive()

    def _receive_targets(self) -> None:
        for instance in self.owners.active:
            try:
                if not instance.receive_targets(self.now_ns):
                    text = "target is not finite"
                    self.owners.report(Event.TARGET_INVALID, instance, text, self.now_ns)
            except BaseException as error:
                pass_interrupt(error)
                self.owners.fail(instance, Event.CONTROLLET_ERROR, error_text(error), self.now_ns)

    def _has_unfinished_requests(self) -> bool:
        return bool(
            self.recoveries.pending or self.owners.changing or self._tares.pending
            or self._settings.pending or self._settings.interrupted
        )  # fmt: skip

    def update_controllets(self, fresh: Sequence[int]) -> None:
        """Compute active controllets whose first arm is fresh, or that were just activated."""
        for instance in self.owners.active:
            if instance.is_new or instance.spec.arms[0] in fresh:
                self.owners.update(instance, self.now_ns)

    def saturate(self, fresh: Sequence[int]) -> None:
        """Blend the commands of fresh arms after a switch, and limit them in value and rate."""
        if len(fresh) == len(self._all):
            self._batch_safety.command()
        else:
            for index in fresh:
                self.arms[index].command()

    def write(self, fresh: Sequence[int]) -> None:
        """Send the commands to fresh arms; a simulated world advances by one period."""
        self._control_ns = _monotonic_ns() - self.now_ns
        for backend in self.write_order:
            with self.barriers[backend]:
                backend.write(fresh)

    def check_watchdogs(self) -> None:
        """Check heartbeat, age of targets, grasps, contact forces and torques of springs.

        If arms must hold, the torques of hold apply from the next cycle on.
        """
        # These checks follow the writing of commands, so that they do not delay them.
        self.watchdog.check(self.now_ns)
        self.attached.update(self.now_ns)
        if not self._cycle % CYCLES_BETWEEN_CHECKS:
            self.owners.forces.compare(self.owners.active, self.now_ns)
        for index, springs in self._on_springs:
            if text := springs.new_warning():
                self.mailbox.report(Event.NOTICE, self.now_ns, index, -1, text)

    def record(self, deadline_ns: int, fresh: Sequence[int] | None = None) -> None:
        """Publish the cycle record and the heartbeat of the loop, and confirm a completed switch.

        The arguments are those of :meth:`cycle`.
        """
        if fresh is not None:
            for index in fresh:
                if self.backend_of[index].is_new(index):
                    self._state_cycle_ns[index][0] = self.now_ns
        header = self._header
        self._cycle += 1
        header[0] = self._cycle_end[0] = self._cycle
        header[1], header[2] = self.now_ns, deadline_ns
        header[3] = _monotonic_ns() - self.now_ns
        header[4] = self._control_ns
        header[5], header[6] = self.missed, self.owners.epoch
        self.mailbox.ring.append(self.row)
        self._words[_LOOP_HEARTBEAT] = self.now_ns
        # Readers see the new owners from this record on, so the switch is acknowledged only now.
        if self._switch_to_acknowledge:
            self._words[SharedFlag.SWITCH_ACK] = self._switch_to_acknowledge
            self._switch_to_acknowledge = 0

    def process_object_requests(self, now_ns: int) -> None:
        """Process requests for objects while the simulation is paused."""
        self.now_ns = now_ns
        before = self.objects.taken
        with self.barriers[self.objects.backend]:
            self.objects.receive()
        if self.objects.taken != before:
            self._republish_last_record()

    def change_object(self, record: Vector) -> tuple[ObjectResult, int, float]:
        """Spawn, remove or move an object between two cycles, and publish the change.

        Args:
            record: Request, see :meth:`.SceneObjects.change`.

        Returns:
            Result of :meth:`.SceneObjects.change`.
        """
        answer = self.objects.change(record)
        if answer[0] == ObjectResult.DONE:
            self._republish_last_record()
        return answer

    def _republish_last_record(self) -> None:
        self._cycle += 1
        self._header[0] = self._cycle_end[0] = self._cycle
        self.mailbox.ring.append(self.row)
        self._words[SharedFlag.SHOWN] += 1

    def hold_all(self, event: Event, text: str, now_ns: int) -> None:
        """Let every arm hold; report ``event`` with reason ``text``."""
        self.owners.hold_all(event, text, now_ns)

    @property
    def is_paused(self) -> bool:
        """True if the owning process has paused the loop, which only a simulation allows."""
        return bool(self._words[_LAST_ROW]) and self.mailbox.is_paused

    def at_rest(self, speed: float = 1e-3) -> bool:
        """Return True if no joint of any arm moves faster than ``speed`` [rad/s]."""
        return all(bool(np.abs(arm.state.dq).max() < speed) for arm in self.arms)

    def take_warnings(self) -> list[str]:
        """Return the warnings of the backends, and clear them."""
        result = [text for backend in self.backends for text in backend.warnings]
        for backend in self.backends:
            backend.warnings.clear()
        return result

    def close(self) -> None:
        """Release all arms, even if a backend raises an error; safe to call twice."""
        for backend in self.backends:
            try:
                backend.close()
            except BaseException as error:
                pass_interrupt(error)
                log_line(f"{self.label(backend)} did not close: {error_text(error)}")

    def label(self, backend: Backend) -> str:
        """Return the names of the arms of a backend and its class, for messages."""
        names = ", ".join(self.arms[index].state.name for index in backend.arms)
        return f"{names} (backend {type(backend).__name__})"
