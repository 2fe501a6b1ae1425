# SPDX-License-Identifier: Apache-2.0
"""Records between processes: newest value, no torn records, no waiting."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest

from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import (
    EVENT_CAPACITY,
    REASON_SIZE,
    Mailbox,
    reason_of,
    reason_record,
)
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline


@pytest.fixture
def threads_alternate():
    """Switch threads every 10 us to interrupt writers more often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def two_ends():
    config = simple_cell().config
    plans = instance_specs(config)
    writer = Mailbox(config, plans)
    return writer, Mailbox(config, plans, os.dup(writer.fd))


def test_both_ends_share_records():
    writer, reader = two_ends()
    assert reader.switch.pop() is None
    values = np.arange(len(writer.active) + 2 + REASON_SIZE, dtype=float)
    writer.switch.write(values)
    taken = reader.switch.pop()
    assert taken is not None
    assert np.array_equal(taken, values)
    assert reader.switch.pop() is None


def test_reason_text_survives_encoding_in_request():
    writer, reader = two_ends()
    for text in ("", "a stop, requested by é"):
        head = np.zeros(len(writer.active) + 2)
        writer.switch.write(np.concatenate([head, reason_record(text)]))
        assert reason_of(reader.switch.pop()) == text


def test_long_reason_still_names_client():
    by = "requested by service /left/switch_controller"
    for what in ("a switch to left/soft, " * 20, "\xff" * 500):
        found = reason_of(np.concatenate([np.zeros(4), reason_record(what + by)]))
        assert found.endswith(by)
        assert found.startswith(what[:20])


def test_record_being_written_is_not_taken():
    writer, reader = two_ends()
    writer.recover.write(np.ones(2))
    writer.recover.counter[0] += 1
    assert reader.recover.pop() is None
    writer.recover.counter[0] += 1
    assert reader.recover.pop() is not None


def test_skip_discards_previous_record():
    writer, reader = two_ends()
    writer.recover.write(np.ones(2))
    reader.recover.skip()
    assert reader.recover.pop() is None
    writer.recover.write(np.zeros(2))
    assert reader.recover.pop() is not None


def test_no_torn_record_is_taken(threads_alternate):
    writer, reader = two_ends()
    slot = writer.switch
    n = len(writer.active) + 2 + REASON_SIZE
    stop = threading.Event()

    def write():
        k = 0
        while not stop.is_set():
            slot.write(np.full(n, float(k := k + 1)))

    thread = threading.Thread(target=write)
    thread.start()
    taken = 0
    while taken < 500:
        values = reader.switch.pop()
        if values is not None:
            taken += 1
            assert (values == values[0]).all()
    stop.set()
    thread.join()


def test_events_keep_newest():
    writer, reader = two_ends()
    for k in range(EVENT_CAPACITY + 5):
        writer.report(Event.TARGET_STALE, k, 0, 1, f"number {k}")
    total, found = reader.events_since(0)
    assert total == EVENT_CAPACITY + 5
    assert found[0].event is Event.LOST
    assert [e.text for e in found[1:]] == [f"number {k}" for k in range(5, EVENT_CAPACITY + 5)]
    assert found[1].arm == "left"
    assert found[1].controllet == "right/hold"
    assert reader.events_since(total)[1] == []


def test_long_text_is_truncated_not_refused():
    writer, reader = two_ends()
    writer.report(Event.CONTROLLET_ERROR, 0, -1, -1, "é" * 5000)
    assert reader.events_since(0)[1][0].text.startswith("éé")


def test_withdrawn_record_was_taken_later():
    writer, reader = two_ends()
    first = writer.recover.write(np.ones(2))
    assert writer.recover.withdraw(first)
    assert reader.recover.pop() is None
    second = writer.recover.write(np.ones(2))
    assert reader.recover.pop() is not None
    assert not writer.recover.withdraw(second)  # too late, which the result reports
    assert writer.recover.taken == second
