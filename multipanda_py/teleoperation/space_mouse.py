# SPDX-License-Identifier: Apache-2.0
"""A SpaceMouse, by pyspacemouse; needs the extra ``teleop`` and the system's hidapi."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from multipanda_py.exceptions import SourceLost
from multipanda_py.extras import needed
from multipanda_py.teleoperation.source import HandCommand

SPACE_MOUSE_SPEED = (0.2, 0.8)
"""With the cap at its stops [m/s, rad/s]."""
AGAIN = 1.0
"""A mouse that is gone is looked for this often [s]."""
MOST_REPORTS = 64
"""Read at once: the mouse sends up to some 250 a second."""
SPACE_MOUSE_HELP = "left button: clutch; push, pull and turn the cap; right button: hand"


class SpaceMouse:
    """Moves an arm along and about all axes of its cap; the left button closes the clutch.

    Args:
        arms: The one that it moves; of several, the first.
        frame: Along whose axes: as in :class:`.HandCommand`; x is away from the user.
        open_device: Opens a ``pyspacemouse.SpaceMouseDevice`` with the axes of ROS, by default
            the first that is there.
        clock: Returns the time [s].

    Raises:
        MissingExtra: If pyspacemouse is not installed.

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
        self._next_try, self._why = -np.inf, ""
        self._is_engaged, self._is_closed = False, False
        self._buttons, self._time = [0, 0], -1.0

    def read(self) -> Mapping[str, HandCommand]:
        """Return what cap and buttons ask for.

        Raises:
            SourceLost: If the mouse is gone.
        """
        if self._mouse is None:
            self._look_for_it()
        grip: Literal["", "open", "close"] = ""
        for _ in range(MOST_REPORTS):
            state, is_new = self._report()
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
        return {self.arms[0]: HandCommand(self._is_engaged, twist, None, self._frame, grip)}

    def close(self) -> None:
        """Let go of the mouse."""
        mouse, self._mouse = self._mouse, None
        if mouse is not None:
            with contextlib.suppress(Exception):  # it may be gone
                mouse.close()

    def _report(self) -> tuple[Any, bool]:
        """Read one report; return the state, and whether the report was new."""
        mouse = self._mouse
        try:
            state = mouse.read()
        except Exception as error:  # whatever the library of the system says
            self.close()
            self._is_engaged = False
            raise SourceLost(f"is gone ({str(error) or type(error).__name__})") from error
        is_new, self._time = state.t != self._time, state.t
        return state, is_new

    def _is_pressed(self, state: Any, button: int) -> bool:
        return len(state.buttons) > 1 and bool(state.buttons[button] and not self._buttons[button])

    def _look_for_it(self) -> None:
        if self._clock() >= self._next_try:
            self._next_try = self._clock() + AGAIN
            try:
                self._mouse = self._open()
                self._buttons = [0] * max(2, len(self._mouse.info.button_specs))
                return
            except Exception as error:  # no library of the system, no permission, no device
                self._why = str(error) or type(error).__name__
        raise SourceLost(f"cannot be opened: {self._why}")
