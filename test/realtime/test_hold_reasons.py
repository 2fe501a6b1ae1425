# SPDX-License-Identifier: Apache-2.0
"""Reports of the reason for every hold of an arm."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest

from multipanda_py.cell.recovery import HoldReasons
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import MultipandaError
from multipanda_py.realtime.events import EVENT_CAPACITY, Event
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

LAWS = {
    "impedance": {"type": "joint_impedance", "target_timeout": 0.05},
    "odd": {"type": "misbehaving"},
    "position": {"type": "joint_position"},
    "both": {"type": "misbehaving", "arms": ["left", "right"]},
}
CLIENT = "a client of this test"


@pytest.fixture
def cell(make_cell):
    return make_cell(controllets=LAWS, active=["both"])


class OwnerMonitor:
    """Step a cell and compare changes of owners with reports in every cycle."""

    def __init__(self, cell):
        self.cell = cell
        self.observed, _ = cell.events_since(0)
        self.cycle = cell.latest_record()["cycle"]
        self.owners = self.read()
        self.ended = []

    def read(self):
        return {arm: self.cell.state(arm).owner for arm in self.cell.arms}

    def step(self, cycles=1):
        for _ in range(cycles):
            self.cell.step(1)
            self.check()

    def check(self):
        """Check that every arm that began to hold in the last cycle has a reported reason."""
        if self.cell.latest_record()["cycle"] == self.cycle:
            return
        self.cycle = self.cell.latest_record()["cycle"]
        self.observed, events = self.cell.events_since(self.observed)
        before, self.owners = self.owners, self.read()
        for arm, owner in self.owners.items():
            if not owner.endswith("/hold") or before[arm].endswith("/hold"):
                continue
            reasons = [e for e in events if e.event.ends_laws and e.arm in ("", arm)]
            assert reasons, (arm, before[arm], [str(event) for event in events])
            assert all(reason.text for reason in reasons)
            self.ended.append((arm, reasons[-1]))


def fail_controllet(name, fault):
    return lambda cell, _: cell.set_parameters(name, {"fault": fault})


def stop_robot(cell, _):
    cell.loop.recoveries.stopped(0, "as a reflex would", 0)


def break_backend(cell, monkeypatch):
    def read(fresh):
        monkeypatch.undo()
        raise RuntimeError("the network is gone")

    monkeypatch.setattr(cell.loop.backends[0], "read", read)


def request(send_request):
    return lambda cell, _: send_request(cell).poll()


def reset_to_saved(cell, _):
    cell.simulation.reset(cell.saved)


CAUSES = {
    "controllet raises": (fail_controllet("both", "raise"), Event.CONTROLLET_ERROR),
    "not finite": (fail_controllet("both", "nan"), Event.NON_FINITE_TORQUE),
    "parameters raise": (fail_controllet("both", "init"), Event.CONTROLLET_ERROR),
    "robot stops": (stop_robot, Event.ARM_STOPPED),
    "backend raises": (break_backend, Event.BACKEND_ERROR),
    "owner silent": (
        lambda cell, _: cell.loop.hold_all(Event.CLIENT_SILENT, "silent", 0),
        Event.CLIENT_SILENT,
    ),
    "owner gone": (
        lambda cell, _: cell.loop.hold_all(Event.CLIENT_GONE, "gone", 0),
        Event.CLIENT_GONE,
    ),
    "switch": (request(lambda cell: cell.request_switch((), ["both"], by=CLIENT)), Event.SWITCHED),
    "controllet of other arm": (
        request(
            lambda cell: cell.request_switch(["right/impedance"], (), "force_auto", by=CLIENT)
        ),
        Event.SWITCHED,
    ),
    "stop": (request(lambda cell: cell.request_hold(by=CLIENT)), Event.SWITCHED),
    "inactive": (request(lambda cell: cell.request_inactive("right", by=CLIENT)), Event.SWITCHED),
    "reset": (reset_to_saved, Event.SWITCHED),
}


@pytest.mark.parametrize("name", CAUSES)
def test_every_cause_of_hold_is_reported_for_every_arm(cell, monkeypatch, name):
    cause, kind = CAUSES[name]
    cell.hold()
    cell.saved = cell.simulation.save()
    cell.switch(["both"])
    cell.step(5)
    watch = OwnerMonitor(cell)
    cause(cell, monkeypatch)
    watch.check()
    watch.step(3)
    ended = {arm: event.event for arm, event in watch.ended}
    assert ended["left"] is kind
    if name == "controllet of other arm":
        assert set(ended) == {"left"}
    elif name == "robot stops":  # the partner holds because of the fault of the other arm
        assert ended["right"] is Event.HOLDS
        assert "left: arm_stopped" in dict(watch.ended)["right"].text
        assert cell.state("right").fault == ""
    else:
        assert ended["right"] is kind
    if kind is Event.SWITCHED and name != "reset":
        assert all(f"requested by {CLIENT}" in event.text for _, event in watch.ended)


def test_stop_before_switch_reports_its_purpose(cell):
    cell.switch(["left/odd"], strictness="force_auto")
    cell.set_parameters("left/odd", {"torque": 3.0})
    cell.step(100)
    watch = OwnerMonitor(cell)
    pending = cell.request_switch(["left/position"], (), "force_auto", 5.0, by=CLIENT)
    while pending.poll() is None:
        watch.step()
    assert [(arm, event.event) for arm, event in watch.ended] == [("left", Event.SWITCHED)]
    assert "come to rest first" in watch.ended[0][1].text


def test_switch_report_names_controllet_and_client(cell):
    _, before = cell.events_since(0)
    cell.switch(["left/impedance"], strictness="force_auto", by="a client é" + 400 * "x")
    events = cell.events_since(len(before))[1]
    (event,) = [e for e in events if e.event is Event.SWITCHED and e.arm == "left"]
    assert event.text.startswith("both -> left/impedance: ")
    assert "requested by a client é" in event.text


def test_reset_with_failing_activation_left_arms_without_owner(cell):
    saved = cell.simulation.save()
    cell.switch(["left/odd"], strictness="force_auto")
    cell.set_parameters("both", {"fault": "activate"})
    cell.step(3)
    watch = OwnerMonitor(cell)
    with pytest.raises(MultipandaError, match="does not start"):
        cell.simulation.reset(saved)
    watch.step(3)
    assert set(cell.active) == {"left/hold", "right/hold"}
    assert [(arm, event.event) for arm, event in watch.ended] == [("left", Event.HOLDS)]


@pytest.mark.robustness
def test_no_sequence_of_causes_leaves_hold_without_report(make_cell, monkeypatch, episodes):
    for seed in range(episodes(3, 60)):
        rng = np.random.default_rng(seed)
        cell = make_cell(controllets=LAWS, active=["both"])
        cell.saved = cell.simulation.save()
        watch = OwnerMonitor(cell)
        names = [spec.name for spec in cell.specs if not spec.is_hold]
        for _ in range(60):
            watch.step(int(rng.integers(1, 4)))
            with contextlib.suppress(MultipandaError):
                apply_random_event(cell, rng, names, monkeypatch)
            watch.check()
        watch.step(3)
        assert watch.ended, seed
        cell.close()


def apply_random_event(cell, rng, names, monkeypatch):
    kind = rng.integers(6)
    if kind == 0:
        causes = [cause for cause, _ in CAUSES.values()]
        causes[int(rng.integers(len(causes)))](cell, monkeypatch)
    elif kind == 1:
        cell.activate_arm("right")
        cell.recover()
    elif kind == 2:
        odd = ["both", "left/odd", "right/odd"][int(rng.integers(3))]
        fault = ["none", "none", "raise", "nan", "init", "activate", "deactivate"]
        cell.set_parameters(odd, {"fault": fault[int(rng.integers(len(fault)))]})
    elif kind == 3:
        cell.request_switch((), [names[int(rng.integers(len(names)))]], "best_effort").poll()
    else:
        cell.request_switch([names[int(rng.integers(len(names)))]], (), "force_auto").poll()


def test_hold_reasons_are_per_arm_and_persist_after_recovery(cell):
    reasons = HoldReasons(cell.arms)
    stop_robot(cell, None)
    cell.step(1)
    cell.recover()
    for event in cell.events():
        reasons.note(event)
    assert reasons.reason("left").startswith("arm_stopped: ")
    assert reasons.reason("right").startswith("holds: ")


@pytest.fixture
def ring():
    config = simple_cell().config
    return Mailbox(config, instance_specs(config)).events


def test_events_lost_by_late_reader_were_not_reported(ring):
    for number in range(EVENT_CAPACITY + 10):
        ring.append(Event.NOTICE, number, -1, -1, f"{number}")
    total, found = ring.since(3)
    assert total == EVENT_CAPACITY + 10
    assert (found[0].event, found[0].text.split()[0]) == (Event.LOST, "7")
    assert [event.text for event in found[1:]] == [f"{n}" for n in range(10, EVENT_CAPACITY + 10)]
    assert ring.since(total) == (total, [])
    assert [event.time_ns for event in ring.since(total - 2)[1]] == [total - 2, total - 1]


def test_event_overwritten_during_read_is_skipped(ring):
    ends = threading.Event()

    def write():
        number = 0
        while not ends.is_set():
            ring.append(Event.NOTICE, number, -1, -1, f"{number} " + "x" * 400)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        observed = 0
        while observed < 20_000:
            observed, found = ring.since(observed)
            for event in found:
                if event.event is not Event.LOST:
                    assert event.text.split()[0] == f"{event.time_ns}"
    finally:
        ends.set()
        writer.join()
