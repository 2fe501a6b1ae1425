# SPDX-License-Identifier: Apache-2.0
"""Keys of a real terminal, read by the source and by the command."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest
from processes import TIMEOUT_SCALE, poll, wait_until

from multipanda_py.apps.cli import main
from multipanda_py.apps.teleoperation.devices import KEY_HOLD_TIME, KEYBOARD_SPEED, Keyboard
from multipanda_py.exceptions import ConfigurationError, SourceLost

SINGLE = Path(__file__).resolve().parents[3] / "config" / "single_sim.yaml"


@pytest.fixture
def terminal():
    """Typing function, keyboard source of two arms, and its clock."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    now = [0.0]
    keyboard = Keyboard(("left", "right"), fd=theirs, clock=lambda: now[0])

    def type_keys(keys):
        os.write(ours, keys.encode())
        return keyboard.read()

    yield type_keys, keyboard, now
    keyboard.close()
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)


def test_held_keys_command_twists_and_space_toggles_clutch(terminal):
    type_keys, keyboard, now = terminal
    reported = type_keys("w")["left"]
    assert not reported.is_engaged
    np.testing.assert_array_equal(reported.twist, [KEYBOARD_SPEED[0], 0, 0, 0, 0, 0])
    reported = type_keys(" fl\x1b[A?")["left"]  # Other keys have no effect.
    assert reported.is_engaged
    linear, angular = KEYBOARD_SPEED
    np.testing.assert_array_equal(reported.twist, [linear, 0, -linear, 0, 0, -angular])
    now[0] = KEY_HOLD_TIME + 0.01
    np.testing.assert_array_equal(keyboard.read()["left"].twist, np.zeros(6))
    assert [type_keys("g")["left"].gripper for _ in range(2)] == ["close", "open"]
    assert keyboard.read()["left"].gripper == ""
    assert [*type_keys("\t")] == ["right"]
    assert not keyboard.read()["right"].is_engaged


def test_closed_terminal_is_reported_and_close_raises_no_error():
    ours, theirs = pty.openpty()
    keyboard = Keyboard(("left",), fd=theirs)
    os.close(ours)
    with pytest.raises(SourceLost, match="the terminal was closed"):
        keyboard.read()
    keyboard.close()
    os.close(theirs)


def test_input_without_terminal_is_rejected():
    with open(os.devnull) as nothing, pytest.raises(ConfigurationError, match="is not a terminal"):
        Keyboard(("left",), fd=nothing.fileno())


@pytest.mark.slow
def test_teleop_command_reads_terminal_and_ends_after_duration(tmp_path):
    file = tmp_path / "cell.yaml"
    text = SINGLE.read_text().replace("name: single_sim", f"name: teleop_{os.getpid()}")
    file.write_text(text.replace("rate: 1000.0", "rate: 1000.0\n      placement: inline"))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "multipanda_py.apps.cli", "teleop", file, "--duration", "1.5"]
    with subprocess.Popen(
        [*command, "--frame", "world"], stdin=theirs, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        reported = process.stdout.readline()
        assert reported.startswith("space: clutch; w s")
        os.write(ours, b" ")

        def keep_pressing():
            os.write(ours, b"r")
            poll()

        wait_until(lambda: process.poll() is not None, 20.0, step=keep_pressing)
        reported = process.stdout.read()
        assert process.wait(10.0 * TIMEOUT_SCALE) == 0, reported
    assert "keyboard moves arm\n" in reported
    assert "holds" not in reported
    os.close(ours)
    os.close(theirs)


def test_teleop_command_reports_unknown_arm_and_frame(capsys):
    assert main(["teleop", str(SINGLE), "--arm", "middle"]) == 1
    assert "--arm: arm 'middle' " in capsys.readouterr().err
    assert main(["teleop", str(SINGLE), "--frame", "moon"]) == 1
    assert "frame 'moon' is unknown" in capsys.readouterr().err
