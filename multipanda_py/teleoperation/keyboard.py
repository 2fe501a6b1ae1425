# SPDX-License-Identifier: Apache-2.0
"""The keys of a terminal."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from multipanda_py.exceptions import ConfigurationError, SourceLost
from multipanda_py.state import Vector
from multipanda_py.teleoperation.source import HandCommand

KEYBOARD_SPEED = (0.1, 0.5)
"""While a key is held [m/s, rad/s]."""
KEY_LASTS = 0.12
"""A terminal tells of keys, not of their release: each counts for this long [s]."""
_AXES = {
    key: (axis, sign)
    for axis, pair in enumerate(("ws", "ad", "rf", "uo", "ik", "jl"))
    for key, sign in zip(pair, (1.0, -1.0))
}
_ESCAPES = re.compile(r"\x1b[\[O]?[0-9;]*[A-Za-z~]?")
"""Arrows and the like, whose last letter is no key of ours."""
KEYBOARD_HELP = (
    "space: clutch; w s, a d, r f: along x, y, z; u o, i k, j l: about x, y, z; g: hand; "
    "tab: next arm; Ctrl-C: end"
)


class Keyboard:
    """Moves one of its arms at a time, as long as keys are held; space closes the clutch.

    A key that is held repeats after a delay that the terminal sets: the first touch is a short
    step, what follows is steady.

    Args:
        arms: Those that it may move; tab goes to the next one.
        frame: Along whose axes: as in :class:`.HandCommand`.
        fd: Of the terminal.
        clock: Returns the time [s].

    Raises:
        ConfigurationError: If ``fd`` is no terminal.
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
            raise ConfigurationError("keyboard: standard input is no terminal: start it in one")
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        self._until: Vector = np.full(6, -np.inf)
        self._signs: Vector = np.zeros(6)
        self._arm, self._is_engaged, self._is_closed = 0, False, False

    def read(self) -> Mapping[str, HandCommand]:
        """Return what the keys since the last call ask for.

        Raises:
            SourceLost: If the terminal is gone.
        """
        now = self._clock()
        grip: Literal["", "open", "close"] = ""
        for key in self._keys():
            if key in _AXES:
                axis, sign = _AXES[key]
                self._until[axis], self._signs[axis] = now + KEY_LASTS, sign
            elif key == " ":
                self._is_engaged = not self._is_engaged
            elif key == "\t":  # the next arm is not to move by a key meant for this one
                self._arm = (self._arm + 1) % len(self.arms)
                self._is_engaged, self._is_closed = False, False
            elif key == "g":
                self._is_closed = not self._is_closed
                grip = "close" if self._is_closed else "open"
        twist = np.repeat(KEYBOARD_SPEED, 3) * np.where(self._until > now, self._signs, 0.0)
        command = HandCommand(self._is_engaged, twist, frame=self._frame, gripper=grip)
        return {self.arms[self._arm]: command}

    def close(self) -> None:
        """Give the terminal back as it was."""
        try:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        except termios.error:  # it is gone
            return

    def _keys(self) -> str:
        try:
            if not select.select([self._fd], [], [], 0.0)[0]:
                return ""
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:
            raise SourceLost("the terminal is gone")
        return _ESCAPES.sub("", data.decode("ascii", "ignore")).lower()
