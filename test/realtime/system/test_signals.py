# SPDX-License-Identifier: Apache-2.0
"""Programs that are asked to end say so at once, and know how long they have."""

from __future__ import annotations

import re
import signal

import pytest

from multipanda_py.realtime.system import signals as interruption

pytestmark = pytest.mark.inline


@pytest.fixture
def program(monkeypatch):
    """A program whose signals are its own; everything is as before afterwards."""
    before = {number: signal.getsignal(number) for number in interruption.SIGNALS}
    for name, value in (("program_name", "program"), ("end_timeout", 0.0), ("deadline", 0.0)):
        monkeypatch.setattr(interruption, name, value)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_it_was_silent_for_twelve_seconds_after_ctrl_c(program, capfd):
    interruption.end_in_order(3.0)
    assert interruption.time_left(10.0) == 10.0
    with pytest.raises(interruption.Interrupted):
        signal.raise_signal(signal.SIGINT)
    assert re.fullmatch(r"program: SIGINT\b.*\b3 s\n", capfd.readouterr().err)
    assert 0.0 < interruption.time_left(10.0) <= 3.0
    assert interruption.time_left(0.1) == 0.1


def test_others_say_nothing_and_take_their_time(program, capfd):
    interruption.end_in_order()
    with pytest.raises(interruption.Interrupted):
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == ""
    assert interruption.time_left(10.0) == 10.0


def test_nothing_is_left_when_the_time_is_over(program):
    interruption.end_in_order(1e-9)
    with pytest.raises(interruption.Interrupted):
        signal.raise_signal(signal.SIGINT)
    assert interruption.time_left(10.0) == 0.0


def test_a_terminal_that_was_closed_left_everything_as_it_was(program):
    """SIGHUP ended programs by the kernel: nothing was answered, nothing given back."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interruption.end_in_order()
    with pytest.raises(interruption.Interrupted) as raised:
        signal.raise_signal(signal.SIGHUP)
    assert raised.value.code == 129


def test_with_nohup_a_program_outlives_its_terminal(program):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption.end_in_order()
    signal.raise_signal(signal.SIGHUP)
