# SPDX-License-Identifier: Apache-2.0
"""Input devices for teleoperation: keyboard, SpaceMouse and gamepad."""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from multipanda_py.apps.teleoperation.source import DeviceCommand
from multipanda_py.exceptions import ConfigurationError, SourceLost
from multipanda_py.registry import needed
from multipanda_py.state import Vector

KEYBOARD_SPEED = (0.1, 0.5)
"""Speed while a key is held [m/s, rad/s]."""
KEY_HOLD_TIME = 0.12
"""Time for which a key press counts [s], since a terminal does not report key releases."""
_AXES = {
    key: (axis, sign)
    for axis, pair in enumerate(("ws", "ad", "rf", "uo", "ik", "jl"))
    for key, sign in zip(pair, (1.0, -1.0))
}
_ESCAPES = re.compile(r"\x1b[\[O]?[0-9;]*[A-Za-z~]?")
"""Escape sequences, such as arrow keys; their last letter must not count as a key."""
KEYBOARD_HELP = (
    "space: clutch; w s, a d, r f: along x, y, z; u o, i k, j l: about x, y, z; g: gripper; "
    "tab: next arm; Ctrl-C: end"
)


class Keyboard:
    """Keyboard that moves one arm at a time; the space key closes and opens the clutch.

    Args:
        arms: Arms to move; tab selects the next one.
        frame: Frame along whose axes the keys move the arm, as in :class:`.DeviceCommand`.
        fd: File descriptor of the terminal; standard input by default.
        clock: Function that returns the time [s].

    Raises:
        ConfigurationError: ``fd`` is not a terminal.
    """

    name = "keyboard"

    def __init__(
        self,
        arms: Sequence[str],
        frame: str = "",
        fd: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.arms = tuple(arms)
        self._frame, self._clock = frame, clock
        self._fd = sys.stdin.fileno() if fd is None else fd
        if not os.isatty(self._fd):
            raise ConfigurationError("keyboard: standard input is not a terminal. Use a terminal.")
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        self._until: Vector = np.full(6, -np.inf)
        self._signs: Vector = np.zeros(6)
        self._arm, self._is_engaged, self._is_closed = 0, False, False

    def read(self) -> Mapping[str, DeviceCommand]:
        """Return the command for the selected arm from the keys pressed since the last call.

        Raises:
            SourceLost: The terminal was closed.
        """
        now = self._clock()
        grip: Literal["", "open", "close"] = ""
        for key in self._keys():
            if key in _AXES:
                axis, sign = _AXES[key]
                self._until[axis], self._signs[axis] = now + KEY_HOLD_TIME, sign
            elif key == " ":
                self._is_engaged = not self._is_engaged
            elif key == "\t":  # The clutch opens, so that a held key does not move the next arm.
                self._arm = (self._arm + 1) % len(self.arms)
                self._is_engaged, self._is_closed = False, False
            elif key == "g":
                self._is_closed = not self._is_closed
                grip = "close" if self._is_closed else "open"
        twist = np.repeat(KEYBOARD_SPEED, 3) * np.where(self._until > now, self._signs, 0.0)
        command = DeviceCommand(self._is_engaged, twist, frame=self._frame, gripper=grip)
        return {self.arms[self._arm]: command}

    def close(self) -> None:
        """Restore the settings of the terminal."""
        try:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        except termios.error:  # The terminal was closed.
            return

    def _keys(self) -> str:
        try:
            if not select.select([self._fd], [], [], 0.0)[0]:
                return ""
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:
            raise SourceLost("the terminal was closed")
        return _ESCAPES.sub("", data.decode("ascii", "ignore")).lower()


SPACE_MOUSE_SPEED = (0.2, 0.8)
"""Speed at full deflection of the cap [m/s, rad/s]."""
REOPEN_PERIOD = 1.0
"""Period of trying to open a disconnected mouse [s]."""
MAX_REPORTS = 64
"""Maximum number of reports per read; the mouse sends up to 250 per second."""
SPACE_MOUSE_HELP = "left button: clutch; push, pull and twist the cap; right button: gripper"


class SpaceMouse:
    """SpaceMouse that moves an arm along and about all axes; the left button closes the clutch.

    Args:
        arms: Names of arms; the mouse moves the first one.
        frame: Frame along whose axes the mouse moves the arm, as in :class:`.DeviceCommand`; x
            points away from the user.
        open_device: Function that opens a ``pyspacemouse.SpaceMouseDevice`` with the axis
            convention ROS; opens the first device found by default.
        clock: Function that returns the time [s].

    Raises:
        MissingExtra: pyspacemouse is not installed.

    Thread: one.
    """

    name = "spacemouse"

    def __init__(
        self,
        arms: Sequence[str],
        frame: str = "",
        open_device: Callable[[], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        library = needed("pyspacemouse")
        self.arms: tuple[str, ...] = (arms[0],)
        self._frame, self._clock = frame, clock
        self._open = open_device or (
            lambda: library.open(axis_convention=library.AxisConvention.ROS)
        )
        self._mouse: Any = None
        self._next_try, self._reason = -np.inf, ""
        self._is_engaged, self._is_closed = False, False
        self._buttons, self._time = [0, 0], -1.0

    def read(self) -> Mapping[str, DeviceCommand]:
        """Return the command for the arm from the deflection of the cap and the buttons.

        Raises:
            SourceLost: The mouse is disconnected.
        """
        if self._mouse is None:
            self._find_device()
        grip: Literal["", "open", "close"] = ""
        for _ in range(MAX_REPORTS):
            state, is_new = self._read_state()
            if self._is_pressed(state, 0):
                self._is_engaged = not self._is_engaged
            if self._is_pressed(state, -1):
                self._is_closed = not self._is_closed
                grip = "close" if self._is_closed else "open"
            self._buttons = [*state.buttons]
            if not is_new:
                break
        cap = [state.x, state.y, state.z, state.roll, state.pitch, state.yaw]
        twist = np.repeat(SPACE_MOUSE_SPEED, 3) * cap
        return {self.arms[0]: DeviceCommand(self._is_engaged, twist, None, self._frame, grip)}

    def close(self) -> None:
        mouse, self._mouse = self._mouse, None
        if mouse is not None:
            with contextlib.suppress(Exception):  # The mouse may be disconnected.
                mouse.close()

    def _read_state(self) -> tuple[Any, bool]:
        mouse = self._mouse
        try:
            state = mouse.read()
        except Exception as error:  # The system library may raise any error.
            self.close()
            self._is_engaged = False
            raise SourceLost(f"was disconnected ({str(error) or type(error).__name__})") from error
        is_new, self._time = state.t != self._time, state.t
        return state, is_new

    def _is_pressed(self, state: Any, button: int) -> bool:
        return len(state.buttons) > 1 and bool(state.buttons[button] and not self._buttons[button])

    def _find_device(self) -> None:
        if self._clock() >= self._next_try:
            self._next_try = self._clock() + REOPEN_PERIOD
            try:
                self._mouse = self._open()
                self._buttons = [0] * max(2, len(self._mouse.info.button_specs))
                return
            except Exception as error:
                # The device may be connected later, so read() tries again.
                self._reason = str(error) or type(error).__name__
        raise SourceLost(f"cannot be opened: {self._reason}")


GAMEPAD_SPEED = (0.2, 0.8)
"""Speed at full deflection of the sticks [m/s, rad/s]."""
DEAD_ZONE = 0.12
"""Fraction of the stick range around the centre that counts as zero."""
FULL_DEFLECTION = 32767.0
"""Value of an SDL axis at full deflection."""
_STICKS = ("LEFTX", "LEFTY", "RIGHTX", "RIGHTY", "TRIGGERLEFT", "TRIGGERRIGHT")
GAMEPAD_HELP = (
    "right shoulder: clutch, held; left stick, triggers: along; right stick: about y and z, with "
    "the left shoulder about x; A closes the gripper, B opens it; Y: next arm"
)


class Gamepad:
    """Gamepad that moves one arm at a time while the right shoulder button is held.

    This button is the clutch. If it is held when a gamepad is connected, it must first be
    released.

    Args:
        arms: Arms to move; Y selects the next one.
        frame: Frame along whose axes the sticks move the arm, as in :class:`.DeviceCommand`.

    Raises:
        MissingExtra: pygame is not installed.

    Thread: one.
    """

    name = "gamepad"

    def __init__(self, arms: Sequence[str], frame: str = "") -> None:
        for name, value in (
            ("PYGAME_HIDE_SUPPORT_PROMPT", "1"),
            ("SDL_VIDEODRIVER", "dummy"),  # Events without a window.
            ("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1"),
            ("SDL_NO_SIGNAL_HANDLERS", "1"),  # SDL must not replace the handler of Ctrl-C.
        ):
            os.environ.setdefault(name, value)
        self._pygame = needed("pygame")
        self.arms, self._frame, self._arm = tuple(arms), frame, 0
        self._pygame.display.init()
        self._controllers = needed("pygame._sdl2.controller")
        self._controllers.init()
        self._pad: Any = None
        self._id, self._was_open = -1, False

    def read(self) -> Mapping[str, DeviceCommand]:
        """Return the command for the selected arm from the sticks and buttons.

        Raises:
            SourceLost: No supported gamepad is connected, or the one in use was disconnected.
        """
        had_one = self._pad is not None
        pressed = self._newly_pressed()
        is_lost = had_one and self._pad is None
        pad = self._open()
        if is_lost:
            raise SourceLost("was unplugged; another one is connected")
        grip: Literal["", "open", "close"] = ""
        if "A" in pressed or "B" in pressed:
            grip = "close" if "A" in pressed else "open"
        if "Y" in pressed:
            self._arm = (self._arm + 1) % len(self.arms)
            return {}  # Without a command the clutch opens, so the next arm does not move at once.
        x, y, across, along, left, right = (self._axis(pad, name) for name in _STICKS)
        rotation_vector = [0.0, -along, -across]
        if self._is_down(pad, "LEFTSHOULDER"):
            rotation_vector = [-across, -along, 0.0]
        twist: Vector = np.repeat(GAMEPAD_SPEED, 3) * [-y, -x, right - left, *rotation_vector]
        is_down = self._is_down(pad, "RIGHTSHOULDER")
        self._was_open = self._was_open or not is_down
        engaged = is_down and self._was_open
        return {self.arms[self._arm]: DeviceCommand(engaged, twist, None, self._frame, grip)}

    def close(self) -> None:
        self._pad = None
        self._controllers.quit()
        self._pygame.display.quit()

    def _axis(self, pad: Any, name: str) -> float:
        """Return the deflection of a stick, -1 to 1, or a trigger, 0 to 1; 0 in the dead zone."""
        value = (
            float(pad.get_axis(getattr(self._pygame, f"CONTROLLER_AXIS_{name}"))) / FULL_DEFLECTION
        )
        beyond = max(0.0, min(1.0, abs(value)) - DEAD_ZONE) / (1.0 - DEAD_ZONE)
        return math.copysign(beyond, value)

    def _is_down(self, pad: Any, name: str) -> bool:
        return bool(pad.get_button(self._button(name)))

    def _button(self, name: str) -> int:
        return int(getattr(self._pygame, f"CONTROLLER_BUTTON_{name}"))

    def _newly_pressed(self) -> set[str]:
        game, pressed = self._pygame, set()
        for event in game.event.get():
            if self._pad is None or getattr(event, "instance_id", None) != self._id:
                continue
            if event.type == game.CONTROLLERDEVICEREMOVED:
                self._pad = None
            elif event.type == game.CONTROLLERBUTTONDOWN:
                pressed |= {name for name in "ABY" if event.button == self._button(name)}
        return pressed

    def _open(self) -> Any:
        if self._pad is None:
            for index in range(self._controllers.get_count()):
                if self._controllers.is_controller(index):
                    self._pad = self._controllers.Controller(index)
                    self._id = self._pad.as_joystick().get_instance_id()
                    self._was_open = False
                    break
            else:
                raise SourceLost("is not plugged in, or SDL does not know it as a gamepad")
        return self._pad
