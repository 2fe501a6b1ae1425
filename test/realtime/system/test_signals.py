# SPDX-License-Identifier: Apache-2.0
"""Signals that end programs: immediate message and remaining time."""

from __future__ import annotations

import re
import signal

import pytest

from multipanda_py.realtime.system import signals as interruption

pytestmark = pytest.mark.inline


@pytest.fixture
def program(monkeypatch):
    """Isolate the signal handlers and restore them afterwards."""
    before = {number: signal.getsignal(number) for number in interruption.SIGNALS}
    for name, value in (("program_name", "program"), ("end_timeout", 0.0), ("deadline", 0.0)):
        monkeypatch.setattr(interruption, name, value)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_program_was_silent_for_twelve_seconds_after_ctrl_c(program, capfd):
    interruption.end_in_order(3.0)
    assert interruption.time_left(10.0) == 10.0
    with pytest.raises(interruption.Interrupted):
        signal.raise_signal(signal.SIGINT)
    assert re.fullmatch(r"program: SIGINT\b.*\b3 s\n", capfd.readouterr().err)
    assert 0.0 < interruption.time_left(10.0) <= 3.0
    assert interruption.time_left(0.1) == 0.1


def test_program_without_timeout_prints_nothing_and_keeps_its_time(program, capfd):
    interruption.end_in_order()
    with pytest.raises(interruption.Interrupted):
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == ""
    assert interruption.time_left(10.0) == 10.0


def test_remaining_time_is_zero_after_deadline(program):
    interruption.end_in_order(1e-9)
    with pytest.raises(interruption.Interrupted):
        signal.raise_signal(signal.SIGINT)
    assert interruption.time_left(10.0) == 0.0


def test_closed_terminal_skipped_shutdown(program):
    """The default action of SIGHUP ended programs without replies or release of resources."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interruption.end_in_order()
    with pytest.raises(interruption.Interrupted) as raised:
        signal.raise_signal(signal.SIGHUP)
    assert raised.value.code == 129


def test_nohup_keeps_program_running_without_terminal(program):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption.end_in_order()
    signal.raise_signal(signal.SIGHUP)
