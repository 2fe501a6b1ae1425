# SPDX-License-Identifier: Apache-2.0
"""Due times of the states of a robot."""

from __future__ import annotations

from multipanda_py.simulation.fci.cycles import (
    LOST_GAP,
    MAX_COMMAND_WAIT,
    MIN_STATE_GAP,
    PERIOD,
    Clock,
)


def make(lockstep):
    return Clock(0, lockstep=lockstep, phase=0.0, ppm=0.0)


def test_lockstep_robot_waits_for_answer_with_timeout():
    clock = make(lockstep=True)
    clock.sent(1000, waiting=True, started=True, answered=True)
    assert clock.wait(2000, waiting=True, answered=False) == MAX_COMMAND_WAIT - 1000
    assert clock.wait(2000, waiting=True, answered=True) == 0
    clock.sent(1000, waiting=True, started=True, answered=False)
    assert clock.wait(2000, waiting=True, answered=False) == LOST_GAP - 1000


def test_arm_continues_by_clock_after_motion_end():
    """The client must receive the end, including one during the wait for its answer."""
    clock = make(lockstep=True)
    clock.sent(1000, waiting=True, started=True, answered=True)
    assert clock.wait(2000, waiting=False, answered=False) == PERIOD - 1000


def test_late_state_shifts_clock():
    clock = make(lockstep=False)
    assert clock.sent(400, waiting=True, started=True, answered=True) == (400, False)
    assert clock.wait(400, waiting=True, answered=True) == PERIOD - 400
    late = round(2.5 * PERIOD)
    assert clock.sent(late, waiting=True, started=True, answered=True) == (late - PERIOD, True)
    assert clock.wait(late, waiting=True, answered=True) == MIN_STATE_GAP
