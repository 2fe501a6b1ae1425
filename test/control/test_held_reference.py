# SPDX-License-Identifier: Apache-2.0
"""Contact estimate, speed bound and reports of a governed reference."""

from __future__ import annotations

import pytest

from multipanda_py.control.held_reference import FOLLOWED, HELD, HeldReference
from multipanda_py.control.reference_cap import LEAD, ReferenceCap
from multipanda_py.control.tool_contact import ToolContact
from multipanda_py.testing import StateMaker

PERIOD = 1e-3


def felt(contact, requested, external, cycles):
    """Update a contact estimate with constant forces along z; return whether there is contact."""
    for _ in range(cycles):
        contact.update((0.0, 0.0, requested), (0.0, 0.0, external))
    return contact.is_on


def test_contact_needs_a_requested_force_and_its_reaction():
    contact = ToolContact(PERIOD)
    assert not felt(contact, 0.0, 15.0, 500)  # a payload, or a bias
    assert not felt(contact, -10.0, 0.0, 500)  # on its way to the surface
    assert not felt(contact, -10.0, 3.0, 500)  # with a bias
    assert not felt(contact, -10.0, -15.0, 500)  # with a payload
    assert felt(contact, -10.0, 9.0, 50)


def test_a_tool_that_bounces_stays_in_contact_and_one_that_is_lifted_does_not():
    contact = ToolContact(PERIOD)
    assert felt(contact, -10.0, 10.0, 50)
    for _ in range(20):
        assert felt(contact, -10.0, 0.0, 200)
        assert felt(contact, -10.0, 10.0, 20)
    assert not felt(contact, -10.0, 0.0, 600)


def test_contact_is_known_at_once_after_a_pause():
    contact = ToolContact(PERIOD)
    contact.pause()
    assert felt(contact, -10.0, 10.0, 1)
    contact.pause()
    assert not felt(contact, -10.0, 0.0, 1)


def stream(cap, speed, cycles, every=20):
    """Move a goal in steps."""
    for cycle in range(cycles):
        if cycle % every == 0:
            cap.give(speed * every * PERIOD)
        cap.advance()


def test_a_jump_is_bounded_in_contact_and_a_stream_by_its_own_speed():
    cap = ReferenceCap(PERIOD)
    cap.give(0.14)
    assert cap.speed(0.14, 0.1) == 0.1
    stream(cap, 0.3, 1000)
    assert cap.speed(0.02, 0.1) == pytest.approx(LEAD * 0.3, rel=0.1)
    cap.give(0.14)  # right after the stream
    assert cap.speed(0.14, 0.1) < LEAD * 0.4


def test_a_stream_that_was_held_back_is_caught_up_with_at_its_own_speed():
    cap = ReferenceCap(PERIOD)
    stream(cap, 0.06, 1000)
    assert not cap.acts
    cap.hold()
    stream(cap, 0.06, 500)
    assert cap.acts
    assert cap.speed(0.14) == pytest.approx(LEAD * 0.06, rel=0.1)
    assert cap.speed(0.005) == float("inf")
    assert not cap.acts


def test_a_goal_that_jumps_elsewhere_is_not_bounded_by_an_earlier_stall():
    cap = ReferenceCap(PERIOD)
    stream(cap, 0.06, 1000)
    cap.hold()
    cap.give(0.15)
    assert cap.speed(0.15) == float("inf")


def test_a_held_reference_is_reported_once_and_once_when_it_follows_again():
    context = StateMaker().context
    held = HeldReference(context, "arm0")
    for _ in range(100):  # shorter than what is reported
        held.update(True, lambda: "link 3 and table")
    for _ in range(200):
        held.update(False, str)
    assert context.notices == []
    for _ in range(2000):
        held.update(True, lambda: "link 3 and table")
    (text,) = context.notices
    assert text.startswith(f"arm0: {HELD}: link 3 and table")
    for _ in range(200):
        held.update(False, str)
    assert [FOLLOWED in text for text in context.notices] == [False, True]
    assert "2.0 s" in context.notices[1]
    assert not held.counts


def test_a_reference_that_is_held_time_and_again_is_reported_once_a_second():
    context = StateMaker().context
    held = HeldReference(context, "arm0")
    found = 0
    for _ in range(10):
        for cycle in range(500):
            held.update(cycle < 380, lambda: "link 3 and table")
            found += sum(HELD in text for text in context.notices)
            context.notices.clear()
    assert found <= 5
