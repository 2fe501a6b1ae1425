# SPDX-License-Identifier: Apache-2.0
"""Contact forces that users request: kept across switches, and monitored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import SMALL_FORCE
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.controllet_instance import NO_FORCE, ControlletInstance
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.plugin_errors import pass_interrupt
from multipanda_py.state import Vector

CYCLES_BETWEEN_CHECKS = 10
"""Number of cycles between two comparisons of requested and measured forces."""
SMOOTHING_WEIGHT = 0.2
"""Weight of the newest measurement in the smoothed force. With a comparison every 10 ms, the time
constant is about 50 ms."""
MISSING_FRACTION, REACHED_FRACTION = 0.9, 0.93
"""Fractions of a requested force: below the first it is missing, above the second it is
reached."""
NO_CONTACT_FRACTION = 0.1
"""Fraction of a requested force below which there is no contact."""
PROGRESS_TIMEOUT, RISE_TIME, LOSS_TIME = 0.2, 1.0, 0.1
"""Times [s]. A force that was held for ``RISE_TIME`` counts as missing after ``PROGRESS_TIMEOUT``
without progress, any other force after ``RISE_TIME``. A contact counts as lost after ``LOSS_TIME``
without contact force."""
MIN_PROGRESS = 0.01
"""Increase of the measured force that counts as progress, as a fraction of the requested force."""


@dataclass
class _ForceMonitor:
    """Monitor of the requested force of one arm, based on the estimated external wrench.

    The measured force is *sufficient* above :data:`MISSING_FRACTION` times the requested force.

    Attributes:
        requested: Norm of the requested force [N].
        measured: Component of the measured force along the requested force, smoothed [N].
        max_measured: Maximum of ``measured`` since it was last sufficient or the request changed
            [N].
        stalled_time: Time for which ``measured`` is not sufficient and does not rise [s].
        free_time: Time without contact [s].
        sufficient_time: Time for which ``measured`` is sufficient [s].
        had_contact: True after the first contact. Before it, no missing force is reported.
        was_reached: True if ``measured`` was sufficient for :data:`RISE_TIME`.
    """

    requested: float = 0.0
    measured: float = 0.0
    max_measured: float = 0.0
    stalled_time: float = 0.0
    free_time: float = 0.0
    sufficient_time: float = 0.0
    had_contact: bool = False
    was_reached: bool = False
    is_new: bool = True

    def update(self, requested: float, measured: float, elapsed: float) -> None:
        self.measured += (1.0 if self.is_new else SMOOTHING_WEIGHT) * (measured - self.measured)
        if self.is_new or abs(requested - self.requested) > MIN_PROGRESS * self.requested:
            self.max_measured, self.stalled_time = self.measured, 0.0
            self.was_reached = self.was_reached and (
                requested <= self.requested or not self.requested
            )
        self.requested, self.is_new = requested, False
        is_gone = self.measured < max(NO_CONTACT_FRACTION * requested, SMALL_FORCE)
        self.free_time = self.free_time + elapsed if is_gone else 0.0
        self.had_contact = self.had_contact or not is_gone
        self.sufficient_time = (
            self.sufficient_time + elapsed if self.measured > MISSING_FRACTION * requested else 0.0
        )
        # The force may oscillate at the first contact, so it counts as reached only if it lasts.
        self.was_reached = self.was_reached or self.sufficient_time > RISE_TIME
        if self.sufficient_time:
            self.max_measured, self.stalled_time = 0.0, 0.0
        elif self.measured > self.max_measured + MIN_PROGRESS * requested:
            self.max_measured, self.stalled_time = self.measured, 0.0
        else:
            self.stalled_time += elapsed

    @property
    def is_missing(self) -> bool:
        is_small = self.requested - self.measured < SMALL_FORCE
        timeout = PROGRESS_TIMEOUT if self.was_reached else RISE_TIME
        return self.had_contact and not is_small and self.stalled_time >= timeout - 1e-9

    @property
    def is_lost(self) -> bool:
        return self.had_contact and self.free_time >= LOSS_TIME - 1e-9


class RequestedForces:
    """Contact forces that users have requested: kept across switches, and monitored.

    A controllet with a force target defines the requested forces of its arms. Under any other
    controllet, hold included, the previous requested force of an arm stays valid. It ends when a
    user moves the target of the arm, the contact is lost, or a fault interrupts the torque. An arm
    without contact never exerts a previous force.

    Args:
        arms: Arms in the order of the cell.
        report: Function that reports an event. Its arguments are event, controllet instance, text
            and time [ns].
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(
        self, arms: Sequence[Arm], report: Callable[[Event, ControlletInstance, str, int], None],
        period: float,
    ) -> None:  # fmt: skip
        self._arms, self._report = arms, report
        self._requested = [np.zeros(6) for _ in arms]
        self._any = [False] * len(arms)
        self._watches = [_ForceMonitor() for _ in arms]
        self._ended: dict[int, Vector] = {}
        self._missing: list[ControlletInstance] = []
        self._time = CYCLES_BETWEEN_CHECKS * period

    def keep(self, instance: ControlletInstance, forces: Sequence[Vector]) -> None:
        """Store and monitor the requested forces of the arms of a newly started controllet.

        Args:
            instance: Controllet that has started.
            forces: Requested wrench of each of its arms along the axes of the arm's base, (6,) [N,
                Nm].
        """
        for index, force in zip(instance.spec.arms, forces):
            self._requested[index][:] = force
            self._any[index] = bool(force.any())
            was = self._watches[index]
            self._watches[index] = _ForceMonitor(
                had_contact=was.had_contact, was_reached=was.was_reached
            )
            if not instance.spec.is_hold:
                self._ended.pop(index, None)

    def end(self, arm: Arm) -> None:
        """End the force request of an arm whose torque a fault has interrupted.

        If the arm was in contact, :meth:`ended` then describes the request.
        """
        request = self.requested_force(arm).copy()
        if self._watches[arm.index].had_contact and request.dot(request) > SMALL_FORCE**2:
            self._ended.setdefault(arm.index, request)
        self._clear(arm.index)

    def ended(self, indices: Sequence[int]) -> str:
        """Describe the force requests that faults have ended.

        Args:
            indices: Indices of the arms to include.

        Returns:
            Text with requested and measured forces; empty if no fault has ended a request.
        """
        texts = []
        for arm in (self._arms[index] for index in indices if index in self._ended):
            size, measured = _norm_and_measured_force(self._ended[arm.index], arm)
            texts.append(
                f"{arm.state.name}: {measured:.1f} N are measured of a force request of "
                f"{size:.1f} N, which a fault has ended"
            )
        return "; ".join(texts)

    def forget(self, index: int) -> None:
        """Clear the force request of an arm whose state was reset."""
        self._ended.pop(index, None)
        self._clear(index)

    def _clear(self, index: int) -> None:
        self._requested[index][:] = 0.0
        self._any[index], self._watches[index] = False, _ForceMonitor()

    def requested_force(self, arm: Arm) -> Vector:
        """Return the requested contact force of an arm, (6,) [N, Nm]; zero without a request."""
        try:
            own = arm.owner.requested_force(arm.slot)
        except BaseException as error:  # The controllet's next update reports the error.
            pass_interrupt(error)
            own = NO_FORCE
        return self._requested[arm.index] if own is None else own

    def compare(self, active: Sequence[ControlletInstance], now_ns: int) -> None:
        """Compare measured with requested forces; report missing, reached and lost forces.

        Call it every :data:`CYCLES_BETWEEN_CHECKS` cycles with the active controllets.
        """
        for instance in [one for one in self._missing if not one.active]:
            self._report_no_longer_missing(instance, "another controllet owns the arms", now_ns)
        for instance in active:
            arms = [self._arms[index] for index in instance.spec.arms]
            is_requested = instance.defines_force or any(self._any[arm.index] for arm in arms)
            if self._ended and self._report_requests_ended_by_faults(instance, now_ns):
                continue
            if is_requested or instance in self._missing:
                self._report_changes(
                    instance, [arm for arm in arms if self._update_monitor(arm)], now_ns
                )

    def _report_requests_ended_by_faults(self, instance: ControlletInstance, now_ns: int) -> bool:
        text = self.ended(instance.spec.arms)
        if text and instance not in self._missing:
            self._missing.append(instance)
            self._report(Event.FORCE_MISSING, instance, text, now_ns)
        return bool(text)

    def _update_monitor(self, arm: Arm) -> bool:
        request, watch = self.requested_force(arm), self._watches[arm.index]
        size, measured = _norm_and_measured_force(request, arm)
        if size <= SMALL_FORCE:
            if watch.requested:
                self._watches[arm.index] = _ForceMonitor()
            return False
        watch.update(size, measured, self._time)
        return True

    def _report_changes(
        self, instance: ControlletInstance, requested_arms: Sequence[Arm], now_ns: int
    ) -> None:
        watches = [self._watches[arm.index] for arm in requested_arms]
        missing = [watch.is_missing for watch in watches]
        # A controllet that needs several arms exerts one common force with all of them. Its force
        # is missing only if it is missing at every arm.
        is_shared = instance.spec.controllet_class.min_arms > 1
        if instance in self._missing:
            if all(watch.measured > REACHED_FRACTION * watch.requested for watch in watches):
                text = (
                    "the requested force is reached" if requested_arms else "no force is requested"
                )
                self._report_no_longer_missing(instance, text, now_ns)
        elif missing and (all(missing) if is_shared else any(missing)):
            self._missing.append(instance)
            parts = [
                f"{arm.state.name} {watch.measured:.1f} of {watch.requested:.1f} N"
                for arm, watch, is_missing in zip(requested_arms, watches, missing)
                if is_missing
            ]
            text = f"less force than requested is measured: {', '.join(parts)}"
            self._report(Event.FORCE_MISSING, instance, text, now_ns)
        for arm, watch in zip(requested_arms, watches):
            if (
                self._any[arm.index]
                and watch.is_lost
                and self.requested_force(arm) is self._requested[arm.index]
            ):
                self._clear(arm.index)
                text = (
                    f"{arm.state.name}: contact lost; the request of {watch.requested:.1f} N ends"
                )
                self._report(Event.FORCE_MISSING, instance, text, now_ns)
                # With the instance in this list, the next compare() reports that no force is
                # requested any more.
                if instance not in self._missing:
                    self._missing.append(instance)

    def _report_no_longer_missing(
        self, instance: ControlletInstance, text: str, now_ns: int
    ) -> None:
        self._missing.remove(instance)
        self._report(Event.FORCE_NO_LONGER_MISSING, instance, text, now_ns)


def _norm_and_measured_force(request: Vector, arm: Arm) -> tuple[float, float]:
    """Return the norm of a requested force, and the measured force along it [N]."""
    size = math.sqrt(float(request.dot(request)))
    along = -float(request.dot(arm.state.wrench_ext_in_base))
    return size, max(0.0, along / max(size, SMALL_FORCE))
