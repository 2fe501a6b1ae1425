# SPDX-License-Identifier: Apache-2.0
"""A gamepad, by pygame; needs the extra ``teleop``."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from multipanda_py.exceptions import SourceLost
from multipanda_py.extras import needed
from multipanda_py.state import Vector
from multipanda_py.teleoperation.source import HandCommand

GAMEPAD_SPEED = (0.2, 0.8)
"""With sticks at their ends [m/s, rad/s]."""
DEAD_ZONE = 0.12
"""Sticks that nobody touches are not quite in the middle."""
FULL = 32767.0
"""What SDL says of an axis at its end."""
_STICKS = ("LEFTX", "LEFTY", "RIGHTX", "RIGHTY", "TRIGGERLEFT", "TRIGGERRIGHT")
GAMEPAD_HELP = (
    "right shoulder: clutch, held; left stick, triggers: along; right stick: about y and z, with "
    "the left shoulder about x; A closes the hand, B opens it; Y: next arm"
)


class Gamepad:
    """Moves one of its arms at a time, while the right shoulder button is held.

    Sticks and buttons have the names that SDL's table of pads gives them, so that they are the
    same on all it knows. A pad that is plugged in later is taken, and so is one that comes back,
    or another one; its clutch counts once it has been seen open.

    Args:
        arms: Those that it may move; Y goes to the next one.
        frame: Along whose axes: as in :class:`.HandCommand`.

    Raises:
        MissingExtra: If pygame is not installed.

    Thread: one.
    """

    name = "gamepad"

    def __init__(self, arms: Sequence[str], frame: str = "") -> None:
        for name, value in (
            ("PYGAME_HIDE_SUPPORT_PROMPT", "1"),
            ("SDL_VIDEODRIVER", "dummy"),  # no window, which events come with otherwise
            ("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1"),
            ("SDL_NO_SIGNAL_HANDLERS", "1"),  # Ctrl-C is ours
        ):
            os.environ.setdefault(name, value)
        self._pygame = needed("pygame")
        self.arms, self._frame, self._arm = tuple(arms), frame, 0
        self._pygame.display.init()
        self._controllers = needed("pygame._sdl2.controller")
        self._controllers.init()
        self._pad: Any = None
        self._id, self._was_open = -1, False

    def read(self) -> Mapping[str, HandCommand]:
        """Return what sticks and buttons ask for.

        Raises:
            SourceLost: If there is no gamepad that SDL knows, or the one that was there is gone.
        """
        had_one = self._pad is not None
        pressed = self._pressed()
        is_lost = had_one and self._pad is None
        pad = self._open()
        if is_lost:
            raise SourceLost("was unplugged; another one is there")
        grip: Literal["", "open", "close"] = ""
        if "A" in pressed or "B" in pressed:
            grip = "close" if "A" in pressed else "open"
        if "Y" in pressed:
            self._arm = (self._arm + 1) % len(self.arms)
            return {}  # the clutch opens: one arm does not go on with the motion of another
        x, y, across, along, left, right = (self._axis(pad, name) for name in _STICKS)
        turn = [0.0, -along, -across]
        if self._is_down(pad, "LEFTSHOULDER"):
            turn = [-across, -along, 0.0]
        twist: Vector = np.repeat(GAMEPAD_SPEED, 3) * [-y, -x, right - left, *turn]
        is_down = self._is_down(pad, "RIGHTSHOULDER")
        self._was_open = self._was_open or not is_down
        engaged = is_down and self._was_open
        return {self.arms[self._arm]: HandCommand(engaged, twist, None, self._frame, grip)}

    def close(self) -> None:
        """Let go of the gamepad."""
        self._pad = None
        self._controllers.quit()
        self._pygame.display.quit()

    def _axis(self, pad: Any, name: str) -> float:
        """Return an axis from -1 to 1, a trigger from 0; 0 near its middle."""
        value = float(pad.get_axis(getattr(self._pygame, f"CONTROLLER_AXIS_{name}"))) / FULL
        beyond = max(0.0, min(1.0, abs(value)) - DEAD_ZONE) / (1.0 - DEAD_ZONE)
        return math.copysign(beyond, value)

    def _is_down(self, pad: Any, name: str) -> bool:
        return bool(pad.get_button(self._button(name)))

    def _button(self, name: str) -> int:
        return int(getattr(self._pygame, f"CONTROLLER_BUTTON_{name}"))

    def _pressed(self) -> set[str]:
        """Return the buttons that were pressed since the last call; see who is gone."""
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
