# SPDX-License-Identifier: Apache-2.0
"""Actions for the instants to come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.exceptions import PolicyFailed
from multipanda_py.gym.real_numbers import real_numbers
from multipanda_py.state import Matrix, Vector

_ROUNDING = 1e-6
"""Share of a period by which an instant may be early."""


@dataclass(frozen=True)
class ActionChunk:
    """Actions at even instants from the one at which their observation was seen.

    Counting from there is what compensates latency: actions whose instants have passed when the
    answer comes are never played.

    Attributes:
        actions: One a row, (n, k).
        begin: When the observation was seen [s].
        period: From one action to the next [s].
        is_between: Whether to interpolate; otherwise the nearest one counts, as steps of real time
            are never quite even.
    """

    actions: Matrix
    begin: float
    period: float
    is_between: bool

    @property
    def end(self) -> float:
        """When the last action is no longer that of the instant [s]."""
        return self.begin + (len(self.actions) - (0.0 if self.is_between else 0.5)) * self.period

    def is_over(self, time: float) -> bool:
        """Return whether there is no action for an instant any more."""
        return time > self.end - _ROUNDING * self.period

    def at(self, time: float) -> Vector:
        """Return the action of an instant, (k,); before the first and after the last, that one."""
        place = np.clip((time - self.begin) / self.period, 0.0, len(self.actions) - 1.0)
        if not self.is_between:
            nearest: Vector = self.actions[round(float(place))]
            return nearest
        before = int(place + _ROUNDING)
        share = max(0.0, float(place) - before)
        action: Vector = self.actions[before]
        if share < _ROUNDING:
            return action
        between: Vector = (1.0 - share) * action + share * self.actions[before + 1]
        return between


def checked(answer: Any, size: int) -> Matrix:
    """Return an answer as actions, (n, size); one action alone is a chunk of one.

    Raises:
        PolicyFailed: If it is of another shape, no numbers, or not finite.
    """
    allowed = f"allowed (n, {size}) with n of at least 1"
    try:
        actions: Matrix = real_numbers(answer)
    except TypeError as error:
        what = f" of real numbers but {error}" if str(error) else ""
        kind = type(answer).__name__
        raise PolicyFailed(f"policy: got a {kind} that is no array{what}, {allowed}") from error
    if actions.ndim == 1:
        actions = actions[None, :]
    if actions.ndim != 2 or actions.shape[1] != size or not len(actions):
        raise PolicyFailed(f"policy: got a chunk of shape {np.shape(answer)}, {allowed}")
    if not np.isfinite(actions).all():
        row, column = np.argwhere(~np.isfinite(actions))[0]
        raise PolicyFailed(
            f"policy: number {column} of action {row} is {actions[row, column]}, "
            "allowed finite ones"
        )
    return actions
