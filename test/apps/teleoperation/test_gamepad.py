# SPDX-License-Identifier: Apache-2.0
"""Virtual joystick of SDL, connected, moved and disconnected."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from processes import TIMEOUT_SCALE

pytest.importorskip("pygame", reason="pygame is not installed: extra teleop")

PLAY = """
import ctypes, glob, os
import numpy as np
from multipanda_py.exceptions import SourceLost
from multipanda_py.apps.teleoperation.devices import GAMEPAD_SPEED, Gamepad

pad = Gamepad(("left", "right"), "tool")
import pygame
found = glob.glob(f"{os.path.dirname(pygame.__file__)}/../pygame.libs/libSDL2-2*")
if not found:
    raise SystemExit(77)
sdl = ctypes.CDLL(os.path.realpath(found[0]))
sdl.SDL_JoystickFromInstanceID.restype = ctypes.c_void_p

def lost():
    try:
        pad.read()
    except SourceLost as error:
        return str(error)
    return ""

def set_axes(**values):
    for name, value in values.items():
        sdl.SDL_JoystickSetVirtualAxis(stick, int(name[1:]), ctypes.c_int16(round(32767 * value)))

def set_button(button, value):
    sdl.SDL_JoystickSetVirtualButton(stick, button, ctypes.c_uint8(value))

assert lost().startswith("is not plugged in")
wheel = sdl.SDL_JoystickAttachVirtual(2, 2, 4, 0)
assert lost().endswith("SDL does not know it as a gamepad")
sdl.SDL_JoystickDetachVirtual(wheel)
index = sdl.SDL_JoystickAttachVirtual(1, 6, 15, 0)
first = pad.read()["left"]
number = sdl.SDL_JoystickGetDeviceInstanceID(index)
stick = ctypes.c_void_p(sdl.SDL_JoystickFromInstanceID(number))
np.testing.assert_allclose(first.twist, 0.0, atol=1e-12)
assert not first.is_engaged and first.frame == "tool"
set_axes(a0=0.05, a1=-1.0, a2=1.0, a4=-1.0, a5=1.0)
set_button(10, 1)
state = pad.read()["left"]
np.testing.assert_allclose(
    state.twist, [GAMEPAD_SPEED[0], 0.0, GAMEPAD_SPEED[0], 0.0, 0.0, -GAMEPAD_SPEED[1]], atol=1e-4)
assert state.is_engaged
set_button(9, 1)
np.testing.assert_allclose(pad.read()["left"].twist[3:], [-GAMEPAD_SPEED[1], 0.0, 0.0], atol=1e-4)
set_button(0, 1)
assert [pad.read()["left"].gripper for _ in range(2)] == ["close", ""]
set_button(1, 1)
assert pad.read()["left"].gripper == "open"
set_button(3, 1)
assert pad.read() == {}
assert [*pad.read()] == ["right"]
sdl.SDL_JoystickDetachVirtual(index)
assert lost() == lost() != ""
sdl.SDL_JoystickAttachVirtual(1, 6, 15, 0)
assert not pad.read()["right"].is_engaged
pad.close()
print("played")
"""


def test_gamepad_is_read_and_may_disconnect_and_return():
    done = subprocess.run(
        [sys.executable, "-c", PLAY], capture_output=True, text=True, timeout=30.0 * TIMEOUT_SCALE,
        env={**os.environ, "SDL_VIDEODRIVER": "dummy"},
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this pygame brings no SDL library, so there are no virtual joysticks")
    assert done.stdout.endswith("played\n"), done.stdout + done.stderr


TWO = (
    PLAY.partition("assert lost().startswith")[0]
    + """
sdl.SDL_JoystickOpen.restype = ctypes.c_void_p

def held(index):
    on = ctypes.c_void_p(sdl.SDL_JoystickOpen(index))
    sdl.SDL_JoystickSetVirtualAxis(on, 0, ctypes.c_int16(32767))
    sdl.SDL_JoystickSetVirtualButton(on, 10, ctypes.c_uint8(1))
    return on

sdl.SDL_JoystickAttachVirtual(1, 6, 15, 0)
first = held(0)
assert not pad.read()["left"].is_engaged
sdl.SDL_JoystickSetVirtualButton(first, 10, ctypes.c_uint8(0))
assert not pad.read()["left"].is_engaged
sdl.SDL_JoystickSetVirtualButton(first, 10, ctypes.c_uint8(1))
assert pad.read()["left"].is_engaged
sdl.SDL_JoystickAttachVirtual(1, 6, 15, 0)
second = held(1)
assert pad.read()["left"].is_engaged
sdl.SDL_JoystickDetachVirtual(0)
assert lost() == "was unplugged; another one is connected"
assert not pad.read()["left"].is_engaged
sdl.SDL_JoystickSetVirtualButton(second, 10, ctypes.c_uint8(0))
pad.read()
sdl.SDL_JoystickSetVirtualButton(second, 10, ctypes.c_uint8(1))
assert pad.read()["left"].is_engaged
pad.close()
print("played")
"""
)


def test_held_shoulder_button_or_second_pad_moved_arm_at_once():
    done = subprocess.run(
        [sys.executable, "-c", TWO], capture_output=True, text=True, timeout=30.0 * TIMEOUT_SCALE,
        env={**os.environ, "SDL_VIDEODRIVER": "dummy"},
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this pygame brings no SDL library")
    assert done.stdout.endswith("played\n"), done.stderr
