# SPDX-License-Identifier: Apache-2.0
"""One control cycle: read, model, mail, laws, safety, write, record."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.backends.backend import Backend
from multipanda_py.exceptions import BackendError
from multipanda_py.loop.arm import Arm
from multipanda_py.loop.events import Event
from multipanda_py.loop.instance import Instance, NonFiniteTorque
from multipanda_py.loop.mailbox import ROWS, Mailbox, SwitchStatus, Word
from multipanda_py.state import Vector

_monotonic_ns = time.monotonic_ns
_HEADER = 6


class ControlLoop:
    """The cycle of a cell, and the only owner of its arms.

    Whatever goes wrong in a law ends in :meth:`_fail`: the arms of that controllet
    go to hold in the same cycle, the fault is latched on them and reported once.
    No exception leaves :meth:`cycle`.

    Args:
        arms: The arms, in the order of the cell.
        instances: Every controllet instance; holds first, one per arm, in the same order.
        backends: What moves the arms.
        mailbox: The records shared with the owner.
        row: The record of one cycle, (1,), that the states view.
        blend_cycles: Cycles over which torque is blended when an arm changes its owner.
        heartbeat_timeout_ns: Silence of the owner after which all arms hold; 0 is never.

    Thread: control, except construction and :meth:`start`.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        instances: Sequence[Instance],
        backends: Sequence[Backend],
        mailbox: Mailbox,
        row: NDArray[np.void],
        blend_cycles: int,
        heartbeat_timeout_ns: int,
    ) -> None:
        self._arms, self._instances, self._backends = arms, instances, backends
        self._holds = instances[: len(arms)]
        self._mailbox, self._words = mailbox, mailbox.words
        self._row = row.view(np.float64).reshape(-1)
        self._header = row.view(np.int64).reshape(-1).data[:_HEADER]
        self._time = row["time"]
        self._blend_cycles = blend_cycles
        self._heartbeat_timeout_ns = heartbeat_timeout_ns
        self._client_silent = False
        self._active: list[Instance] = []
        self._mail = self._epoch = self._cycle = self._answered = 0
        self.missed = 0
        """Periods skipped since the start; the pacing counts them."""

    def start(self, active: Sequence[str], warm_up: int = 300) -> None:
        """Connect the arms, warm every law up on the measured state, and take over.

        Raises:
            BackendError: If an arm cannot be connected.
        """
        for backend in self._backends:
            backend.connect()
        self._sense()
        for instance in self._instances:
            instance.activate()
            for _ in range(warm_up):
                for arm in self._arms:
                    arm.model.update(arm.state)
                instance.update()
            instance.deactivate()
        gc.collect()
        self._apply([instance.plan.name in active for instance in self._instances])
        for arm in self._arms:
            arm.blend_left = 0

    def close(self) -> None:
        """Release the arms; safe to call twice."""
        for backend in self._backends:
            backend.close()

    def cycle(self, wake_ns: int, deadline_ns: int) -> None:
        """Run one cycle that began at ``wake_ns`` and was due at ``deadline_ns``."""
        self._sense()
        for arm in self._arms:
            if fault := arm.check():
                self._fail(arm.owner, fault, arm.describe(fault), wake_ns, (arm,))
        mail = self._words[Word.MAIL]
        if mail != self._mail:
            self._mail = mail
            self._open_mail(wake_ns)
        self._watch(wake_ns)
        for instance in self._active:
            self._update(instance, wake_ns)
        for arm in self._arms:
            arm.command()
        for backend in self._backends:
            try:
                backend.write()
            except Exception as error:
                self._blame(backend, error, wake_ns)
        self._record(wake_ns, deadline_ns)

    def hold_all(self, event: Event, text: str, now_ns: int) -> None:
        """Give every arm to its hold, and report why."""
        self._mailbox.report(event, now_ns, -1, -1, text)
        self._apply([False] * len(self._instances), restart_holds=True)

    def at_rest(self, speed: float = 1e-3) -> bool:
        """Return whether no joint moves faster than ``speed`` [rad/s]."""
        return all(bool(np.abs(arm.state.dq).max() < speed) for arm in self._arms)

    def _sense(self) -> None:
        for backend in self._backends:
            try:
                backend.read()
            except Exception as error:
                self._blame(backend, error, _monotonic_ns())
        self._time[0] = self._backends[0].time
        for arm in self._arms:
            arm.model.update(arm.state)

    def _open_mail(self, now_ns: int) -> None:
        request = self._mailbox.switch.take()
        if request is not None:
            self._switch(request, now_ns)
        recover = self._mailbox.recover.take()
        if recover is not None:
            self._recover(recover, now_ns)
        for instance in self._instances:
            self._attempt(instance, instance.take_parameters, now_ns)
        for instance in self._active:
            try:
                if not instance.take_targets(now_ns):
                    self._report(Event.TARGET_INVALID, instance, "target is not finite", now_ns)
            except Exception as error:
                self._fail(instance, Event.CONTROLLET_ERROR, _describe(error), now_ns)

    def _switch(self, request: Vector, now_ns: int) -> None:
        """Change the active set as a whole, or leave it as it is."""
        status = SwitchStatus.OUTDATED
        if int(request[0]) == self._epoch:
            flags = request[2:].tolist()
            starting = [
                instance
                for instance, flag in zip(self._instances, flags)
                if flag == 2 or (flag and not instance.active)
            ]
            status = SwitchStatus.DONE
            for instance in starting:
                try:
                    self._refuse_faulted(instance)
                    instance.activate()
                except Exception as error:
                    status = SwitchStatus.FAILED
                    self._report(Event.SWITCH_FAILED, instance, _describe(error), now_ns)
                    break
            else:
                self._apply([bool(flag) for flag in flags], starting)
        self._words[Word.SWITCH_STATUS] = status
        self._words[Word.SWITCH_NS] = _monotonic_ns()
        self._answered = self._mailbox.switch.seen

    def _refuse_faulted(self, instance: Instance) -> None:
        for index in instance.plan.arms:
            arm = self._arms[index]
            if arm.fault and not instance.plan.is_hold:
                raise BackendError(f"arm {arm.state.name} has a latched {arm.fault.name.lower()}")

    def _apply(
        self,
        wanted: Sequence[bool],
        started: Sequence[Instance] | None = None,
        restart_holds: bool = False,
    ) -> None:
        """Make ``wanted`` the active set, with hold on every arm that it leaves free.

        Args:
            wanted: One flag per instance.
            started: Instances that are activated already; None activates what is new here.
            restart_holds: Seed a hold anew even if it has the arm already.
        """
        if started is None:
            started = [i for i, flag in zip(self._instances, wanted) if flag and not i.active]
            for instance in started:
                instance.activate()
        flags = list(wanted)
        taken = {arm for i, flag in zip(self._instances, flags) if flag for arm in i.plan.arms}
        changed = [arm for i in started for arm in i.plan.arms]
        for index, hold in enumerate(self._holds):
            if index not in taken:
                flags[index] = True
                if not hold.active or restart_holds:
                    hold.activate()
                    changed.append(index)
        for instance, flag in zip(self._instances, flags):
            if instance.active and not flag:
                self._leave(instance)
            instance.active = flag
            self._mailbox.active[instance.plan.index] = flag
        self._active = [instance for instance in self._instances if instance.active]
        for instance in self._active:
            for slot, arm in enumerate(instance.plan.arms):
                self._arms[arm].give_to(instance, slot)
        for arm in changed:
            self._arms[arm].blend(self._blend_cycles)
        self._epoch += 1
        self._words[Word.EPOCH] = self._epoch

    def _recover(self, wanted: Vector, now_ns: int) -> None:
        for arm, flag in zip(self._arms, wanted.tolist()):
            if flag and arm.fault:
                was = arm.recover()
                text = f"{was.name.lower()} cleared; holding the measured posture"
                self._mailbox.report(Event.RECOVERED, now_ns, arm.index, -1, text)

    def _watch(self, now_ns: int) -> None:
        """Hold when the owner has gone silent, or a stream of targets has paused."""
        if self._heartbeat_timeout_ns:
            silence = now_ns - self._words[Word.CLIENT_HEARTBEAT]
            silent = silence > self._heartbeat_timeout_ns
            if silent and not self._client_silent:
                self.hold_all(
                    Event.CLIENT_SILENT,
                    f"the owning process has been silent for {silence / 1e9:.2f} s; all arms hold",
                    now_ns,
                )
            self._client_silent = silent
        for instance in self._active:
            if instance.is_stale(now_ns):
                self._attempt(instance, instance.activate, now_ns)
                text = "targets have stopped; holding the measured state"
                self._report(Event.TARGET_STALE, instance, text, now_ns)

    def _leave(self, instance: Instance) -> None:
        """Deactivate; a law that fails to let go is reported, and let go of all the same."""
        try:
            instance.deactivate()
        except Exception as error:
            self._report(Event.CONTROLLET_ERROR, instance, _describe(error), _monotonic_ns())

    def _attempt(self, instance: Instance, step: Callable[[], None], now_ns: int) -> None:
        try:
            step()
        except Exception as error:
            self._fail(instance, Event.CONTROLLET_ERROR, _describe(error), now_ns)

    def _update(self, instance: Instance, now_ns: int) -> None:
        try:
            instance.update()
        except NonFiniteTorque as error:
            self._fail(instance, Event.NON_FINITE_TORQUE, str(error), now_ns)
        except Exception as error:
            self._fail(instance, Event.CONTROLLET_ERROR, _describe(error), now_ns)

    def _fail(
        self,
        instance: Instance,
        event: Event,
        text: str,
        now_ns: int,
        arms: Sequence[Arm] | None = None,
    ) -> None:
        """Latch a fault on ``arms`` (all of the instance's) and give its arms to hold."""
        for arm in arms if arms is not None else [self._arms[i] for i in instance.plan.arms]:
            arm.fault = event
            self._mailbox.report(event, now_ns, arm.index, instance.plan.index, text)
        if instance.plan.is_hold:
            if event is not Event.POSITION_LIMIT and event is not Event.VELOCITY_LIMIT:
                self._arms[instance.plan.arms[0]].released = True
            return
        self._apply([i.active and i is not instance for i in self._instances])
        for index in instance.plan.arms:
            self._update(self._holds[index], now_ns)

    def _blame(self, backend: Backend, error: Exception, now_ns: int) -> None:
        for index in backend.arms:
            if not self._arms[index].fault:
                owner = self._arms[index].owner
                self._fail(owner, Event.BACKEND_ERROR, _describe(error), now_ns)

    def _report(self, event: Event, instance: Instance, text: str, now_ns: int) -> None:
        self._mailbox.report(event, now_ns, -1, instance.plan.index, text)

    def _record(self, wake_ns: int, deadline_ns: int) -> None:
        header = self._header
        self._cycle += 1
        header[0], header[1], header[2] = self._cycle, wake_ns, deadline_ns
        header[3] = _monotonic_ns() - wake_ns
        header[4], header[5] = self.missed, self._epoch
        count = self._words[Word.ROWS]
        self._mailbox.rows_flat[count % ROWS] = self._row
        self._words[Word.ROWS] = count + 1
        self._words[Word.LOOP_HEARTBEAT] = wake_ns
        if self._answered:  # only now does the newest row show the new owners
            self._words[Word.SWITCH_ACK] = self._answered
            self._answered = 0


def _describe(error: Exception) -> str:
    """Name an exception, what it says, and the line it came from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        file = trace.tb_frame.f_code.co_filename.rsplit("/", 1)[-1]
        where = f" ({file}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {error}{where}"
