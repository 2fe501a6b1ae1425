# SPDX-License-Identifier: Apache-2.0
"""What networks of residuals see: states, speeds as friction does, and where joints turned."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.residual.normalisation import Normalisation
from multipanda_py.residual.slip_springs import SlipSprings
from multipanda_py.state import Matrix, Vector

_tanh, _multiply, _add = np.tanh, np.multiply, np.add


def own_inputs(joint: int, n: int, size: int) -> list[int]:
    """Return where speeds and springs of one of n joints are in inputs of a size."""
    return [n + joint, *range(3 * n + joint, size, n)]


class Inputs:
    r"""Put speeds, as friction sees them, and springs that slip beside a normalised state.

    .. math:: x = \left(\hat x, \tanh\frac{\dot q}{v_1}, \tanh\frac{\dot q}{v_2}, \dots,
        z_1, z_2, \dots\right)

    Friction turns round within hundredths of a rad/s, where a normalised speed hardly changes;
    that of gears within hundredths of a rad, see :class:`.SlipSprings`, which begin at zero.

    Args:
        scale: Of states.
        speeds: :math:`v`, (s,) [rad/s]; may be none.
        distances: Of springs, (d,) [rad, m]; may be none.

    Attributes:
        size: Of what a network sees, (3 + s + d) n.
        seen: x, live.
        state: Where the next state is put, of x, (3 n,).

    Raises:
        ConfigurationError: If a speed or distance is not above zero and finite.

    Thread: one.
    """

    def __init__(
        self,
        scale: Normalisation,
        speeds: Vector,
        distances: Vector | tuple[float, ...] = (),
    ) -> None:
        self.speeds: Vector = np.asarray(speeds, float)
        if self.speeds.ndim != 1 or not ((self.speeds > 0.0) & np.isfinite(self.speeds)).all():
            raise ConfigurationError(f"speeds: got {speeds}, allowed a row of numbers above 0")
        n, ways = scale.joints, np.asarray(distances, float)
        last = (3 + len(self.speeds)) * n
        self.size = last + ways.size * n
        self.seen = np.zeros(self.size)
        self.state, self._speeds = self.seen[: 3 * n], self.seen[3 * n : last]
        self._q = self.state[:n]
        self._turns = bool(ways.size)
        self._springs = SlipSprings(ways, scale.span[:n], self.seen[last:])
        span, low = scale.span[n : 2 * n], scale.low[n : 2 * n]
        self._slopes: Vector = (span / self.speeds[:, None]).ravel()
        self._shifts: Vector = (low / self.speeds[:, None]).ravel()
        self._places = np.tile(np.arange(n, 2 * n), len(self.speeds))

    def reset(self) -> None:
        """Forget where joints turned round."""
        self._springs.reset()

    def memory(self) -> tuple[Any, ...]:
        """Return what it goes on from; changed by the next step."""
        return self._springs.drawn, self._springs.last, self._springs.begun

    def remember(self, memory: tuple[Any, ...]) -> None:
        """Go on from what :meth:`memory` returned."""
        self._springs.drawn[:], self._springs.last[:], self._springs.begun = memory

    def of(self, state: Vector) -> Vector:
        """Return what is seen of the next normalised state (3 n,); the next call changes it."""
        self.state[:] = state
        self.follow()
        return self.seen

    def follow(self) -> None:
        """Go on to what is in ``state``."""
        found = self.state.take(self._places, None, self._speeds, "clip")
        _tanh(_add(_multiply(found, self._slopes, found), self._shifts, found), found)
        if self._turns:
            self._springs.follow(self._q)

    def rows(self, states: Matrix) -> Matrix:
        """Return what is seen of a motion's normalised states (k, 3 n) from its start, (k, m)."""
        self.reset()
        return np.array([self.of(state).copy() for state in states]).reshape(-1, self.size)
