# SPDX-License-Identifier: Apache-2.0
"""Requests to arms: recovery, settings of the robot, and tare of the external joint torques."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.parameters import Settings, live
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.ownership import Ownership
from multipanda_py.realtime.plugin_errors import error_text, pass_interrupt
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.robots.inertial import Load, load_of
from multipanda_py.state import Vector

TARE_TIME = 0.5
"""Averaging time of a tare [s]."""
MAX_REST_SPEED = 0.05
"""Joint speed above which an arm is not at rest during a tare; noise is below [rad/s]."""
MAX_REST_TRAVEL = 2e-3
"""Joint travel during a tare above which an arm is not at rest [rad]."""
MAX_TORQUE_DEVIATION = 0.5
"""Standard deviation during a tare above which the external torque counts as changing; noise is
below [Nm]."""


class TareMeasurement:
    """Measurement of a tare offset: mean of the external torques of an arm over some cycles.

    It fails if the arm moves, or if the torques vary.

    Args:
        number: Number of the tare request.
        arm: Arm under hold.
        cycles: Number of averaged cycles.

    Thread: control.
    """

    def __init__(self, number: int, arm: Arm, cycles: int) -> None:
        self.number = number
        self._arm, self._left, self._cycles = arm, cycles, cycles
        self._start = arm.state.q.copy()
        self._largest = np.array(arm.model.arm.robot.value("tare_torque"))
        self._sum, self._squares = np.zeros((2, arm.state.n_joints))

    def add(self, measured: Vector) -> str:
        """Add one estimate of the external torques, (n,) [Nm].

        Returns:
            Reason why the measurement fails; empty if it continues.
        """
        state = self._arm.state
        speed, travel = np.abs(state.dq), np.abs(state.q - self._start)
        if not speed.max() <= MAX_REST_SPEED or not travel.max() <= MAX_REST_TRAVEL:
            joint = int(np.argmax(speed / MAX_REST_SPEED + travel / MAX_REST_TRAVEL))
            unit = state.limits.unit(joint)
            return (
                f"{state.name} moves: joint {joint + 1} at {speed[joint]:.3f} {unit}/s, "
                f"{travel[joint] * 1e3:.1f} m{unit} from its start, allowed {MAX_REST_SPEED:g} "
                f"{unit}/s "
                f"and {MAX_REST_TRAVEL * 1e3:g} m{unit}. Tare it at rest"
            )
        self._sum += measured
        self._squares += measured * measured
        self._left -= 1
        return ""

    @property
    def is_complete(self) -> bool:
        return self._left <= 0

    def judge(self) -> tuple[Vector, str]:
        """Return the mean external torques, (n,) [Nm], and why they are no valid offset.

        The second value is empty for a valid offset.
        """
        mean = self._sum / self._cycles
        spread = np.sqrt(np.maximum(self._squares / self._cycles - mean * mean, 0.0))
        name = self._arm.state.name
        if not (spread <= MAX_TORQUE_DEVIATION).all():
            joint = int(np.argmax(spread))
            unit = self._arm.state.limits.unit(joint, "Nm")
            return mean, (
                f"{name}: the external torque of joint {joint + 1} varies by {spread[joint]:.2f} "
                f"{unit}, allowed {MAX_TORQUE_DEVIATION:g} {unit} (standard deviation). Tare it "
                f"without contact"
            )
        if not (np.abs(mean) <= self._largest).all():
            joint = int(np.argmax(np.abs(mean) / self._largest))
            unit = self._arm.state.limits.unit(joint, "Nm")
            return mean, (
                f"{name}: {mean[joint]:.2f} {unit} of external torque at joint {joint + 1}, "
                f"allowed {self._largest[joint]:g} {unit} for errors of sensors and model. Remove "
                "the contact, or set the load of the robot (load_mass)"
            )
        return mean, ""


class ArmTare:
    r"""Offset that is subtracted from the estimated external joint torques of one arm.

    .. math:: \tau_{ext} = \hat\tau_{ext} - \tau_0.

    Here :math:`\hat\tau_{ext}` is the estimate and :math:`\tau_0` the offset. A tare changes
    neither the measured torques (``tau_J``) nor the torques that the robot compares with its
    collision thresholds.

    The torque of an unknown load is removed only in the configuration :math:`q_0` of the tare. In
    another configuration q, the load causes the error

    .. math:: (J_c(q) - J_c(q_0))^T m g,

    with the Jacobian :math:`J_c` of the centre of mass of the load and its weight :math:`m g`.

    Attributes:
        offset: :math:`\tau_0`, (n,) [Nm].
        active: True if the arm is tared.

    Thread: control.
    """

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self.offset, self.raw = arm.tare, np.zeros(arm.state.n_joints)
        self.active = False

    def undo(self) -> None:
        """Restore the estimated external torques without the offset.

        Call it before the backend reads a new state.
        """
        # If no new state arrives, ``tau_ext`` would otherwise be reduced twice.
        self.arm.state.tau_ext[:] = self.raw

    def apply(self) -> None:
        """Subtract the offset from the external torques that the backend has estimated."""
        tau_ext = self.arm.state.tau_ext
        self.raw[:] = tau_ext
        tau_ext -= self.offset

    def set(self, offset: Vector) -> None:
        """Set the offset from the next cycle on, (n,) [Nm]; zero ends the tare."""
        if not self.active:
            self.raw[:] = self.arm.state.tau_ext
        self.offset[:] = offset
        self.active = bool(offset.any())
        if not self.active:
            self.undo()


class Tares:
    """Handler of tare requests, which zero the estimated external torques of arms under hold.

    A tare makes the external wrench jump, so that only arms under hold can be tared. A switch or a
    fault during the measurement of the offset cancels the tare. An arm stays tared until a request
    ends the tare, its load changes or the loop ends.

    Args:
        arms: Arms in the order of the cell.
        backend_of: Backend of each arm, by index.
        mailbox: Shared memory with requests and responses.
        period: Cycle time [s].

    Attributes:
        active: Offsets of the arms that are tared.
        pending: Tare measurements in progress, by the index of the arm.

    Thread: control.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        backend_of: Mapping[int, Backend],
        mailbox: Mailbox,
        period: float,
    ) -> None:
        self._backend_of, self._mailbox = backend_of, mailbox
        self._tares = [ArmTare(arm) for arm in arms]
        self._cycles = round(TARE_TIME / period)
        self.active: list[ArmTare] = []
        self.pending: dict[int, TareMeasurement] = {}

    def receive(self, now_ns: int) -> None:
        """Process new requests: start the measurement of a tare offset, or end a tare."""
        for tare, slot in zip(self._tares, self._mailbox.tares):
            record = slot.pop()
            if record is None:
                continue
            arm, number = tare.arm, slot.last_read
            self.pending.pop(arm.index, None)
            reason = self._reason_against_tare(arm)
            if reason:
                self._answer(tare, number, reason, now_ns)
            elif record[0]:
                self.pending[arm.index] = TareMeasurement(number, arm, self._cycles)
            else:
                self._set(tare, np.zeros_like(tare.offset))
                self._mailbox.report(Event.TARED, now_ns, arm.index, -1, "no longer tared")
                self._write(tare, number, True)

    def update(self, fresh: Sequence[int], now_ns: int) -> None:
        """Continue the tare measurements of arms with a new state; ``fresh`` are their indices."""
        for index in [index for index in self.pending if index in fresh]:
            tare, measurement = self._tares[index], self.pending[index]
            reason = self._reason_against_tare(tare.arm) or measurement.add(
                tare.raw if tare.active else tare.arm.state.tau_ext
            )
            if not reason and measurement.is_complete:
                offset, reason = measurement.judge()
                if not reason:
                    self._set(tare, offset)
            elif not reason:
                continue
            del self.pending[index]
            self._answer(tare, measurement.number, reason, now_ns)

    def forget(self, index: int, reason: str, now_ns: int) -> None:
        """Remove the tare of an arm, because a change of its load invalidates the offset."""
        tare, measurement = self._tares[index], self.pending.pop(index, None)
        if tare.active:
            self._set(tare, np.zeros_like(tare.offset))
            self._mailbox.report(Event.TARED, now_ns, index, -1, f"no longer tared: {reason}")
        if measurement is not None:
            self._answer(tare, measurement.number, reason, now_ns)
        else:
            self._write(tare, self._mailbox.tares[index].last_read, True)

    def _reason_against_tare(self, arm: Arm) -> str:
        name, owner = arm.state.name, arm.owner.spec
        if arm.fault:
            return f"{name} has a latched fault ({arm.fault.name.lower()}); recover it first"
        if arm.busy:
            return f"{name} {arm.busy}"
        if not owner.is_hold:
            return (
                f"{name} follows {owner.name}, which would react to the step: deactivate "
                f"{owner.name} first"
            )
        if not self._backend_of[arm.index].is_ready(arm.index):
            return f"{name} executes no torques now; recover it first"
        return ""

    def _set(self, tare: ArmTare, offset: Vector) -> None:
        tare.set(offset)
        self.active = [tare for tare in self._tares if tare.active]

    def _answer(self, tare: ArmTare, number: int, reason: str, now_ns: int) -> None:
        event = Event.TARE_REFUSED if reason else Event.TARED
        numbers = ", ".join(f"{value:.2f}" for value in tare.offset)
        text = reason or f"tared: offset {numbers} Nm"
        self._mailbox.report(event, now_ns, tare.arm.index, -1, text)
        self._write(tare, number, not reason)

    def _write(self, tare: ArmTare, number: int, done: bool) -> None:
        record = np.concatenate([[float(number), float(done)], tare.offset])
        self._mailbox.tare_answers[tare.arm.index].write(record)


_BUSY_MESSAGE = "has a pending change of its robot settings; try again when it is completed"


class ArmSettings:
    """Handler of requests to change the settings of robots whose arms are under hold.

    Until the change is completed, controllets cannot take over the arm. If the robot stops
    executing torques for the change, hold restarts afterwards from the measured state.

    Args:
        arms: Arms in the order of the cell.
        backend_of: Backend of each arm, by index.
        mailbox: Shared memory with requests and responses.
        tares: Handler of tares; a new load ends the tare of its arm.

    Attributes:
        pending: Number and new settings of each request in progress, by the index of the arm.
        interrupted: Indices of arms that have stopped executing torques for a change.

    Thread: control.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        backend_of: Mapping[int, Backend],
        mailbox: Mailbox,
        tares: Tares,
    ) -> None:
        self._arms, self._backend_of, self._mailbox = arms, backend_of, mailbox
        self._tares = tares
        self._current = [backend_of[arm.index].settings[arm.index] for arm in arms]
        self.interrupted: set[int] = set()
        self.pending: dict[int, tuple[int, Settings]] = {}

    def receive(self, now_ns: int) -> None:
        """Send newly requested settings to the backends, or reject them."""
        for arm, slot in zip(self._arms, self._mailbox.settings):
            record = slot.pop()
            if record is None:
                continue
            settings = self._current[arm.index].decode(record)
            reason = self._configure_or_refuse(arm, slot.last_read, settings)
            if reason:
                self._answer(arm, slot.last_read, reason, settings, now_ns)

    def _configure_or_refuse(self, arm: Arm, request_number: int, settings: Settings) -> str:
        name, owner = arm.state.name, arm.owner.spec
        if arm.busy:
            return f"{name} {arm.busy}"
        if not owner.is_hold:
            return (
                f"{name} follows {owner.name}, and a robot accepts settings only at "
                f"rest: deactivate {owner.name} first"
            )
        try:
            backend = self._backend_of[arm.index]
            backend.configure(arm.index, settings)
            if not backend.responds_to_configure(arm.index):
                return (
                    f"{name}: configure of backend {type(backend).__name__} causes no response. "
                    "Call super().configure(arm, settings) in it, or override settings_responses"
                )
        except BaseException as error:
            pass_interrupt(error)
            return f"{name}: {error_text(error)}"
        self.pending[arm.index] = request_number, settings
        arm.busy = _BUSY_MESSAGE
        return ""

    def forward_responses(self, now_ns: int) -> None:
        """Send responses of backends to the clients that requested settings.

        Hold restarts on arms that execute torques again after a change.
        """
        for backend in {self._backend_of[index] for index in self.pending}:
            for index, reason in self._answers_of(backend):
                if index not in self.pending:
                    continue
                number, settings = self.pending.pop(index)
                arm = self._arms[index]
                arm.busy = ""
                self._answer(arm, number, reason, settings, now_ns)
        for index in self.pending:
            if not self._backend_of[index].is_ready(index):
                self.interrupted.add(index)
        for index in tuple(self.interrupted - self.pending.keys()):
            if self._backend_of[index].is_ready(index):
                self.interrupted.discard(index)
                self._arms[index].restart_hold()

    def _answers_of(self, backend: Backend) -> Sequence[tuple[int, str]]:
        try:
            return backend.settings_responses()
        except BaseException as error:
            pass_interrupt(error)
            reason = error_text(error)
            return [(index, reason) for index in backend.arms if index in self.pending]

    def _answer(self, arm: Arm, number: int, reason: str, settings: Settings, now_ns: int) -> None:
        current = self._current[arm.index]
        if reason:
            text, event = reason, Event.SETTINGS_REFUSED
        else:
            names = [spec.name for spec in live(type(settings))]
            changed = [n for n in names if getattr(settings, n) != getattr(current, n)]
            text, event = f"changed: {', '.join(changed) or 'nothing'}", Event.SETTINGS_APPLIED
            load = load_of(settings)
            if not _is_same(load, load_of(current)):
                self._tares.forget(arm.index, "the load of the robot has changed", now_ns)
            current = self._current[arm.index] = settings
            arm.set_load(load)
        self._mailbox.report(event, now_ns, arm.index, -1, text)
        head = np.array([number, not reason], dtype=np.float64)
        self._mailbox.settings_answers[arm.index].write(np.concatenate([head, current.encode()]))


def _is_same(load: Load, other: Load) -> bool:
    return (
        load.mass == other.mass
        and np.array_equal(load.com, other.com)
        and np.array_equal(load.inertia, other.inertia)
    )


class Recoveries:
    """Handler of recovery requests; a fault is cleared when the backend reports the arm as ready.

    Attributes:
        pending: Indices of arms with a recovery in progress.

    Thread: control.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        backend_of: Mapping[int, Backend],
        ownership: Ownership,
        mailbox: Mailbox,
    ) -> None:
        self._arms, self._backend_of = arms, backend_of
        self._owners, self._mailbox = ownership, mailbox
        self.pending: set[int] = set()

    def start(self, is_requested: Vector, now_ns: int) -> None:
        """Request the recovery of arms that have a fault.

        Args:
            is_requested: Flag of each arm of the cell, nonzero for recovery; arms without a fault
                are skipped.
            now_ns: Time of the cycle [ns].
        """
        for arm, flag in zip(self._arms, is_requested.tolist()):
            if not flag or not arm.fault:
                continue
            try:
                self._backend_of[arm.index].recover(arm.index)
            except BaseException as error:
                pass_interrupt(error)
                self.stopped(arm.index, error_text(error), now_ns)
            else:
                self.pending.add(arm.index)

    def stopped(self, index: int, text: str, now_ns: int) -> None:
        """Cancel the recovery of an arm that has stopped executing torques, and latch a fault."""
        arm = self._arms[index]
        self.pending.discard(index)
        self._owners.fail(arm.owner, Event.ARM_STOPPED, text, now_ns, (arm,))

    def clear_faults(self, now_ns: int) -> None:
        """Complete recoveries: clear the faults of arms that the backend reports as ready."""
        for index in tuple(self.pending):
            backend = self._backend_of[index]
            if backend.is_ready(index):
                self.pending.discard(index)
                was = self._owners.recover(self._arms[index])
                ended = self._owners.forces.ended([index])
                text = "; ".join(filter(None, (f"{was.name.lower()} cleared; holding", ended)))
                # A recovery may reconnect the robot, which can cause warnings of the backend.
                if backend.warnings:
                    text = f"{text}; but {'; '.join(backend.warnings)}"
                    backend.warnings.clear()
                self._mailbox.report(Event.RECOVERED, now_ns, index, -1, text)
