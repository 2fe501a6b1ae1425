# SPDX-License-Identifier: Apache-2.0
"""Every counter and every report is in ``/diagnostics``."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.context import Context

import multipanda_py
from multipanda_py.control.reference.held_reference import FOLLOWED_NOTICE, HELD_NOTICE
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.ros.client.cell_state import NodeStatus
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.diagnostics import Diagnostics
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.topics.targets import Targets

pytestmark = pytest.mark.inline

SOURCES = Path(multipanda_py.__file__).parent


@pytest.fixture
def observed(make_cell):
    """Cell, node, targets and diagnostics, in this process and without publishing."""
    context = Context()
    rclpy.init(context=context)
    cell = make_cell()
    node = GuardedNode("diagnosed", context=context)
    clock = NodeClock(node.get_clock())
    targets = Targets(node, cell, clock, 1.0)
    yield cell, node, targets, Diagnostics(node, cell, targets, clock)
    node.destroy_node()
    rclpy.shutdown(context=context)


def messages(diagnostics):
    statuses = diagnostics.message().status
    return "\n".join(f"{pair.key}: {pair.value}" for one in statuses for pair in one.values)


def test_target_rate_counts_messages_since_last_diagnostics(observed):
    _, _, targets, diagnostics = observed
    targets.received["left pose"] += 40
    first, second = messages(diagnostics), messages(diagnostics)
    assert "target messages [1/s]: 0.0" not in first
    assert "target messages [1/s]: 0.0" in second


def test_unrequested_hold_had_no_reason_and_panel_received_no_event(observed):
    cell, node, _, diagnostics = observed
    law = "left/joint_impedance_controller"
    panel = NodeStatus(cell.config, node)

    def current_faults():
        cell.step(1)
        diagnostics.log_events()
        before, _ = panel.events_since(0)
        panel.receive(diagnostics.message())
        return [(e.event, e.arm, e.text) for e in panel.events_since(before)[1]]

    cell.switch([law])
    assert current_faults() == []
    assert panel.arms["left"].hold_reason == ""
    cell.loop.hold_all(Event.CLIENT_SILENT, "the owner stood still", 0)
    reason = "client_silent: the owner stood still"
    assert (Event.HOLDS, "left", reason) in current_faults()
    assert messages(diagnostics).count(f"hold reason: {reason}") == 2
    assert current_faults() == [], "reported once"
    cell.switch([law], by="first")
    cell.hold(by="service /stop")
    ((kind, arm, text),) = current_faults()
    assert (kind, arm) == (Event.HOLDS, "left")
    assert "requested by service /stop" in text


def test_counters_were_missing_in_diagnostics(observed):
    cell, node, targets, diagnostics = observed
    counters = [cell.rejected, cell.clipped, cell.cancelled, node.guard.caught, node.guard.refused]
    known = {id(one) for one in counters} | {id(targets.received), id(diagnostics.reported)}
    for holder in (node.guard, targets, diagnostics):
        unknown = [
            name
            for name, one in vars(holder).items()
            if isinstance(one, Counter) and not name.startswith("_") and id(one) not in known
        ]
        assert unknown == []
    for number, counter in enumerate(counters):
        counter[f"odd kind {number}"] = 70 + number
    text = messages(diagnostics)
    for number in range(len(counters)):
        assert f"odd kind {number} {70 + number}" in text


def test_rejections_are_counted_only_in_counters_of_diagnostics():
    """The source code increments only the counters of the cell and of the guard."""
    counter_names = set()
    for path in SOURCES.rglob("*.py"):
        counter_names |= set(
            re.findall(r"([\w.]+)\[[^\]]+\] \+= (?:1\b|is_void|goes_on)", path.read_text())
        )
    assert counter_names >= {"self._counts.rejected", "self._cell.rejected"}
    of_requests = {
        counter_name
        for counter_name in counter_names
        if re.search("reject|withdr|clip|refus|caught", counter_name)
    }
    assert {counter_name.rpartition(".")[2] for counter_name in of_requests} <= {
        "rejected", "withdrawn", "clipped", "_clipped", "refused", "caught",
    }  # fmt: skip


def test_every_event_kind_is_in_diagnostics_and_faults_are_kept(observed):
    cell, _, _, diagnostics = observed
    arm = cell.arms[0]
    kinds = [kind for kind in Event if kind is not Event.NONE]
    for kind in kinds:
        diagnostics.note(LoopEvent(kind, 0, arm, f"{arm}/hold", "why"))
    text = messages(diagnostics)
    assert [kind.name for kind in kinds if f"{kind.name.lower()} 1" not in text] == []
    assert diagnostics.faults[arm].event.is_fault


def test_inactive_arm_and_inhibited_stream_are_in_diagnostics(observed):
    cell, _, targets, diagnostics = observed
    arm = cell.arms[0]
    assert "takes laws: yes" in messages(diagnostics)
    targets.held_off.inhibit(arm, "joint", "a trajectory is followed")
    pending = cell.request_inactive(arm)
    while pending.poll() is None:
        cell.step(1)
    text = messages(diagnostics)
    assert "takes laws: no: it is inactive" in text
    assert "streams held off: joint" in text


def test_default_diagnostics_rate(make_cell):
    assert make_cell().config.cell.diagnostics_rate == 1.0


def test_held_target_is_warning_until_followed_and_panel_receives_it(
    observed,
):
    cell, node, _, diagnostics = observed
    law = "left/cartesian_impedance_controller"
    cell.switch([law])
    cell.step(1)
    diagnostics.log_events()
    panel = NodeStatus(cell.config, node)

    def shown():
        message = diagnostics.message()
        panel.receive(message)
        (status,) = (one for one in message.status if one.name.endswith(law))
        return status.level, status.message

    def note(text):
        diagnostics.note(LoopEvent(Event.NOTICE, 0, "left", law, text))

    assert shown()[0] == DiagnosticStatus.OK
    held = f"left: {HELD_NOTICE}: left link 3 and table are 0.007 m apart"
    note(held)
    assert shown() == (DiagnosticStatus.WARN, held)
    note("left: something else")
    assert shown()[0] == DiagnosticStatus.WARN
    note(f"left: {FOLLOWED_NOTICE} after 2.5 s")
    assert shown()[0] == DiagnosticStatus.OK
    assert panel.events_since(0)[1][0].text == held
    assert len(panel.events_since(0)[1]) == 3
