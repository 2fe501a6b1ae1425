# SPDX-License-Identifier: Apache-2.0
"""Contact estimate, speed bound and reports of a governed reference."""

from __future__ import annotations

import math

import pytest

from multipanda_py.control.force.contact_force import ToolContact
from multipanda_py.control.reference.contact_speed import SPEED_RATIO, ReferenceCap
from multipanda_py.control.reference.held_reference import (
    FOLLOWED_NOTICE,
    HELD_NOTICE,
    HeldReferenceReporter,
)
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

PERIOD = 1e-3


def estimated(contact, requested, external, cycles):
    """Update a contact estimate with constant forces along z; return whether contact is on."""
    for _ in range(cycles):
        contact.update((0.0, 0.0, requested), (0.0, 0.0, external))
    return contact.is_on


def test_contact_needs_requested_force_and_reaction():
    contact = ToolContact(PERIOD)
    assert not estimated(contact, 0.0, 15.0, 500)  # a payload, or a bias
    assert not estimated(contact, -10.0, 0.0, 500)  # in approach to the surface
    assert not estimated(contact, -10.0, 3.0, 500)  # with a bias
    assert not estimated(contact, -10.0, -15.0, 500)  # with a payload
    assert estimated(contact, -10.0, 9.0, 50)


def test_bouncing_tool_stays_in_contact_and_lifted_tool_does_not():
    contact = ToolContact(PERIOD)
    assert estimated(contact, -10.0, 10.0, 50)
    for _ in range(20):
        assert estimated(contact, -10.0, 0.0, 200)
        assert estimated(contact, -10.0, 10.0, 20)
    assert not estimated(contact, -10.0, 0.0, 600)


def test_contact_is_estimated_at_once_after_pause():
    contact = ToolContact(PERIOD)
    contact.pause()
    assert estimated(contact, -10.0, 10.0, 1)
    contact.pause()
    assert not estimated(contact, -10.0, 0.0, 1)


class Goal:
    """Goal of a bounded reference.

    Attributes:
        cap: The bound.
        now: Time [cycles].
    """

    def __init__(self):
        self.cap, self.now = ReferenceCap(PERIOD), 0

    def stream(self, speed, cycles, every=20):
        """Move the goal in steps."""
        for _ in range(cycles // every):
            self.cap.add_step(speed * every * PERIOD, self.now)
            self.now += every

    def jump(self, step):
        self.cap.add_step(step, self.now)
        self.now += 1

    def bound(self, gap, in_contact=math.inf):
        return self.cap.speed(gap, self.now, in_contact)


@pytest.mark.parametrize("every", [1, 5, 20, 50, 100])
def test_jump_is_bounded_in_contact_and_stream_by_its_speed(every):
    goal = Goal()
    goal.jump(0.14)
    assert goal.bound(0.14, 0.1) == 0.1
    goal.now += 300
    goal.stream(0.3, 1000, every)
    assert goal.bound(0.02, 0.1) == pytest.approx(SPEED_RATIO * 0.3, rel=0.1)
    goal.jump(0.14)  # directly after the stream
    assert goal.bound(0.14, 0.1) < SPEED_RATIO * 0.4
    goal.now += 1100
    goal.jump(0.14)
    assert goal.bound(0.14, 0.1) == 0.1


def test_held_reference_catches_up_at_speed_of_stream():
    goal = Goal()
    goal.stream(0.06, 1000)
    assert not goal.cap.acts
    goal.cap.hold(goal.now)
    goal.stream(0.06, 500)
    assert goal.cap.acts
    assert goal.bound(0.14) == pytest.approx(SPEED_RATIO * 0.06, rel=0.1)
    goal.now += 2000  # the goal rests
    assert goal.bound(0.14) == pytest.approx(SPEED_RATIO * 0.06, rel=0.1)
    assert goal.bound(0.005) == math.inf
    assert not goal.cap.acts


def test_jumped_goal_is_not_bounded_by_earlier_stall():
    goal = Goal()
    goal.stream(0.06, 1000)
    goal.cap.hold(goal.now)
    goal.jump(0.15)
    assert not goal.cap.acts


def test_hold_and_resume_are_reported_once_each():
    context = StateMaker().context
    held = HeldReferenceReporter(context, "arm0")
    for now in range(300):  # shorter than the reporting delay
        held.update(now < 100, now, lambda: "link 3 and table")
    assert context.notices == []
    for now in range(300, 2300):
        held.update(True, now, lambda: "link 3 and table")
    (text,) = context.notices
    assert text.startswith(f"arm0: {HELD_NOTICE}: link 3 and table")
    for now in range(2300, 2500):
        held.update(False, now, str)
    assert [FOLLOWED_NOTICE in text for text in context.notices] == [False, True]
    assert "2.0 s" in context.notices[1]
    assert not held.cycles


def test_repeated_hold_is_reported_once_per_second():
    context = StateMaker().context
    held, found = HeldReferenceReporter(context, "arm0"), 0
    for now in range(5000):
        held.update(now % 500 < 380, now, lambda: "link 3 and table")
        found += sum(HELD_NOTICE in text for text in context.notices)
        context.notices.clear()
    assert 2 <= found <= 5
