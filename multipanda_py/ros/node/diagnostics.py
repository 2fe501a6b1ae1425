# SPDX-License-Identifier: Apache-2.0
"""Publisher of ``/diagnostics``, and log of the loop's events."""

from __future__ import annotations

import time
from collections import Counter

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock

from multipanda_py.cell import Cell
from multipanda_py.cell.recovery import HoldReasons
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.control.reference.held_reference import FOLLOWED_NOTICE, HELD_NOTICE
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.timing import LoopStatistics
from multipanda_py.realtime.torque_terms import REPORT_BELOW
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.guard import PARAMETERS_KEY, GuardedNode, ThrottledLog
from multipanda_py.ros.node.qos import DATA_QOS
from multipanda_py.ros.node.running import every
from multipanda_py.ros.topics.targets import Targets

POLL_PERIOD = 0.02
"""Period of the checks of loop and clock [s]."""
MAX_MISSED_FRACTION = 0.005
"""Fraction of missed cycles above which the loop is at level WARN."""


class Diagnostics:
    """Diagnostic status of the loop, of every arm and of every active controllet.

    Attributes:
        faults: Newest fault of each arm that had one.
        reported: Number of loop events by kind.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, targets: Targets, clock: NodeClock) -> None:
        self._node, self._cell, self._targets, self._clock = node, cell, targets, clock
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", DATA_QOS)
        self._received = 0
        self._since = time.monotonic()
        self.faults: dict[str, LoopEvent] = {}
        self.reported: Counter[str] = Counter()
        self._holds = HoldReasons(cell.arms)
        self._notices: Counter[str] = Counter()
        self._last_notice: dict[str, str] = {}
        self._held: dict[str, dict[str, str]] = {}
        self._missing_force: dict[str, str] = {}
        self._stuck, self._timeless = False, False
        self._clipped: Counter[str] = Counter()
        self._activations = self._count_activations()
        self._reported = ThrottledLog()
        every(node, 1.0 / cell.config.cell.diagnostics_rate, self._tick)
        every(node, POLL_PERIOD, self._publish_on_change)

    def log_events(self) -> None:
        """Log the loop events since the last call."""
        logger = self._node.get_logger()
        for event in self._cell.events():
            self.note(event)
            if event.event.is_fault:
                logger.error(str(event))
            elif event.event.is_routine:
                logger.info(str(event))
            else:
                logger.warning(str(event))

    def note(self, event: LoopEvent) -> None:
        """Count an event of the loop, and keep its text for the next diagnostics."""
        self.reported[event.event.name.lower()] += 1
        self._holds.note(event)
        if event.event.is_fault:
            self.faults[event.arm] = event
        if event.event is Event.FORCE_MISSING:
            self._missing_force[event.controllet] = event.text
        elif event.event is Event.FORCE_NO_LONGER_MISSING:
            self._missing_force.pop(event.controllet, None)
        if event.event is Event.NOTICE:
            self._notices[event.controllet] += 1
            self._last_notice[event.controllet] = event.text
            self._store_held_target(event)

    def _store_held_target(self, event: LoopEvent) -> None:
        held = self._held.setdefault(event.controllet, {})
        name, _, text = event.text.partition(": ")
        if text.startswith(HELD_NOTICE):
            held[name] = event.text
        elif text.startswith(FOLLOWED_NOTICE):
            held.pop(name, None)

    def _publish_on_change(self) -> None:
        if self._activations != (now := self._count_activations()):
            self._activations = now
            # A new controllet starts at the measured state, so notices about earlier targets are
            # obsolete.
            self._held.clear()
            self._tick()
        self._check_loop()
        self._warn_of_clipped_targets()
        worry = self._clock.worry()
        if bool(worry) != self._timeless:
            self._timeless = bool(worry)
            text = f"{worry}; {self._effect_of_missing_clock()}" if worry else "/clock continues"
            self._node.get_logger().warning(text)
            self._tick()

    def _count_activations(self) -> list[int]:
        return [self._cell.activation_count(arm) for arm in self._cell.arms]

    def _warn_of_clipped_targets(self) -> None:
        for owner, count in self._cell.clipped.items():
            if count != self._clipped[owner]:
                self._clipped[owner] = count
                text = f"{owner}: the target stream is beyond the gate; targets are clipped to it"
                if news := self._reported.new_text(text):
                    self._node.get_logger().warning(news)

    def _check_loop(self) -> None:
        reason = self._cell.stall_reason()
        if bool(reason) == self._stuck:
            return
        self._stuck = bool(reason)
        logger = self._node.get_logger()
        if reason:
            # Two calls: rclpy allows only one severity for each place in the code.
            if self._cell.world.is_paused:
                logger.info(f"{reason}; targets are rejected")
            else:
                logger.error(f"{reason}; targets are rejected")
        else:
            logger.warning("the loop runs again")
        self._tick()

    def _effect_of_missing_clock(self) -> str:
        if self._clock.has_started:
            return "stamps do not change, and targets are rejected"
        return "states are not published, and targets are rejected"

    def _tick(self) -> None:
        self.log_events()  # Logged first, so that the log has the reason before the status.
        self._publisher.publish(self.message())

    def message(self) -> DiagnosticArray:
        """Return the present status of the loop, of all arms and of the active controllets."""
        message = DiagnosticArray()
        clock = self._node.get_clock() if self._clock.has_started else Clock()
        message.header.stamp = clock.now().to_msg()
        message.status = [self._loop_status(), *(self._arm_status(arm) for arm in self._cell.arms)]
        active = self._cell.active
        message.status += [
            self._controllet_status(spec)
            for spec in self._cell.specs
            if spec.name in active and spec.controllet_class.report_names and not spec.is_hold
        ]
        return message

    def _loop_status(self) -> DiagnosticStatus:
        cell, refused = self._cell, self._node.guard.refused
        rate = cell.config.cell.rate
        measured = cell.statistics(max(2, round(rate / cell.config.cell.diagnostics_rate)))
        level, summary = judge(measured, rate)
        worry = self._clock.worry()
        if worry:
            level = DiagnosticStatus.WARN if self._clock.has_started else DiagnosticStatus.ERROR
            summary = f"{worry}; {self._effect_of_missing_clock()}"
        if taken := self._node.guard.taken_twice:
            level, summary = DiagnosticStatus.WARN, f"{taken}: another node has the same name"
        if reason := cell.stall_reason():
            paused = cell.world.is_paused
            level = DiagnosticStatus.WARN if paused else DiagnosticStatus.ERROR
            summary = f"{reason}; targets are rejected"
        if reason := self._node.guard.unresponsive:
            level, summary = DiagnosticStatus.ERROR, f"{reason}; all arms hold"
        now, received = time.monotonic(), self._targets.received.total()
        per_second = (received - self._received) / max(now - self._since, 1e-3)
        self._received, self._since = received, now
        values = {
            "rate [Hz]": f"{measured.rate:.1f}",
            "lateness p50 [us]": f"{measured.lateness_p50 * 1e6:.0f}",
            "lateness p99 [us]": f"{measured.lateness_p99 * 1e6:.0f}",
            "lateness max [us]": f"{measured.lateness_max * 1e6:.0f}",
            "compute p50 [us]": f"{measured.compute_p50 * 1e6:.0f}",
            "compute p99 [us]": f"{measured.compute_p99 * 1e6:.0f}",
            "compute max [us]": f"{measured.compute_max * 1e6:.0f}",
            "missed cycles": f"{measured.missed} of {measured.cycles}",
            "time": worry or ("/clock" if self._clock.comes_from_topic else "system"),
            "real-time factor": f"{measured.real_time_factor:.3f}",
            "target messages [1/s]": f"{per_second:.1f}",
            "since newest cycle [ms]": f"{cell.cycle_age() * 1e3:.1f}",
            "withdrawn requests": _listed(cell.cancelled) or "0",
            "exceptions in callbacks": _listed(self._node.guard.caught) or "0",
            "last exception": self._node.guard.last,
            "rejected switches": str(cell.rejected["switch"]),
            "rejected parameters": str(refused[PARAMETERS_KEY]),
            "requests answered by no": _listed(refused),
            "rejected, by kind": _listed(cell.rejected),
            "clipped, by kind": _listed(cell.clipped),
            "events": _listed(self.reported),
            "warnings of the start": "; ".join(cell.warnings) or "none",
            "not heard": "; ".join(self._node.guard.qos_warnings.values()),
            "names taken twice": taken or "none",
            "active": ", ".join(cell.active),
        }
        return self._status("loop", cell.config.cell.name, level, summary, values)

    def _arm_status(self, arm: str) -> DiagnosticStatus:
        state = self._cell.state(arm)
        # The event with the reason of a fault arrives before the state with the fault.
        if state.fault:
            self.log_events()
        level = DiagnosticStatus.ERROR if state.fault else DiagnosticStatus.OK
        summary = f"latched fault: {state.fault}" if state.fault else f"follows {state.owner}"
        has_hand = self._cell.config.arms[arm].gripper
        problem = self._cell.gripper(arm).state().problem if has_hand else ""
        if problem and not state.fault:
            level, summary = DiagnosticStatus.WARN, f"{summary}; {problem}"
        missing = self._missing_force.get(state.owner, "")
        if missing and not state.fault:
            level, summary = DiagnosticStatus.WARN, f"{summary}; {missing}"
        values = {
            "node": self._node.get_fully_qualified_name(),
            "owner": state.owner,
            "beginnings": str(self._cell.activation_count(arm)),
            "takes laws": "no: it is inactive" if self._cell.is_inactive(arm) else "yes",
            "fault": state.fault or "none",
            "reason": self.faults[arm].text if state.fault and arm in self.faults else "",
            "hold reason": self._holds.reason(arm) if self._is_hold(state.owner) else "",
            "rejected targets": str(self._cell.rejected[f"{arm} target"]),
            "clipped targets": str(
                sum(n for owner, n in self._cell.clipped.items() if owner.split()[0] == arm)
            ),
            "rejected gripper goals": str(self._cell.rejected[f"{arm} gripper"]),
            "last gripper rejection": self._targets.last_reason.get(f"{arm} gripper", ""),
            "last gripper abort": self._targets.last_reason.get(f"{arm} gripper abort", ""),
            "gripper problem": problem or "none",
            "requested force": missing or "reached, or none",
            "tare [Nm]": self._tare(arm),
            "last rejection": self._targets.last_reason.get(arm, ""),
            "streams held off": ", ".join(self._targets.held_off.channels(arm)) or "none",
            "target messages": str(self._targets.received[arm]),
            "several senders": self._competing_senders(arm),
        }
        return self._status(arm, f"{self._cell.config.cell.name}/{arm}", level, summary, values)

    def _is_hold(self, owner: str) -> bool:
        return bool(owner) and self._cell.spec(owner).is_hold

    def _competing_senders(self, owner: str) -> str:
        senders = self._targets.senders.items()
        return "; ".join(
            f"{name}: {', '.join(nodes)}"
            for (owner_name, name), nodes in senders
            if owner_name == owner and len(nodes) > 1
        )

    def _tare(self, arm: str) -> str:
        offset = self._cell.tare_offset(arm)
        return " ".join(f"{value:.2f}" for value in offset) if offset.any() else "none"

    def _controllet_status(self, spec: InstanceSpec) -> DiagnosticStatus:
        report = self._cell.report(spec.name)
        values = {title: f"{value:.4g}" for title, value in report.items()}
        values["notices"] = str(self._notices[spec.name])
        values["last notice"] = self._last_notice.get(spec.name, "")
        if any(channel.shared for channel in spec.channel_table.values()):
            values["rejected targets"] = str(self._cell.rejected[f"{spec.name} target"])
            values["last rejection"] = self._targets.last_reason.get(spec.name, "")
        hardware = f"{self._cell.config.cell.name}/{spec.name}"
        level, summary = DiagnosticStatus.OK, spec.config.type
        if held := self._held.get(spec.name):
            level, summary = DiagnosticStatus.WARN, "; ".join(held.values())
        elif report.get(str(STIFFNESS_SCALE), 1.0) < REPORT_BELOW:
            summary = (
                f"{summary}, stiffness reduced to {report[str(STIFFNESS_SCALE)]:.0%} in some "
                "direction: in this configuration the latency allows no more"
            )
        return self._status(spec.name, hardware, level, summary, values)

    def _status(
        self, name: str, hardware: str, level: bytes, summary: str, values: dict[str, str]
    ) -> DiagnosticStatus:
        return DiagnosticStatus(
            level=level,
            name=f"{self._node.get_name()}: {name}",
            message=summary,
            hardware_id=hardware,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count)


def judge(measured: LoopStatistics, rate: float) -> tuple[bytes, str]:
    """Return the diagnostic level for the timing of the loop, and a message with the reason.

    Args:
        measured: Timing since the previous diagnostic message.
        rate: Configured rate of the loop [Hz].
    """
    worries = []
    if measured.lateness_p99 > 0.5 / rate:
        worries.append(
            f"1 % of the cycles are late by {measured.lateness_p99 * 1e6:.0f} us or more"
        )
    if measured.missed > MAX_MISSED_FRACTION * max(measured.cycles, 1):
        worries.append(f"{measured.missed} of {measured.cycles} cycles missed")
    if worries:
        return DiagnosticStatus.WARN, "; ".join(worries)
    return DiagnosticStatus.OK, f"on time at {rate:g} Hz"
