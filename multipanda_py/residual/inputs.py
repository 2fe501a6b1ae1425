# SPDX-License-Identifier: Apache-2.0
"""What networks of residuals see: states, and speeds as friction does."""

from __future__ import annotations

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.residual.normalisation import Normalisation
from multipanda_py.state import Matrix, Vector

_tanh, _multiply = np.tanh, np.multiply


class Inputs:
    r"""Put speeds, as friction sees them, beside a normalised state.

    .. math:: x = \left(\hat x, \tanh\frac{\dot q}{v_1}, \tanh\frac{\dot q}{v_2}, \dots\right)

    Friction turns round within hundredths of a rad/s, where a normalised speed hardly changes.

    Args:
        scale: Of states.
        speeds: :math:`v`, (s,) [rad/s]; may be none.

    Attributes:
        size: Of what a network sees, (3 + s) n.

    Raises:
        ConfigurationError: If a speed is not above zero and finite.

    Thread: one.
    """

    def __init__(self, scale: Normalisation, speeds: Vector) -> None:
        self.speeds: Vector = np.asarray(speeds, float)
        if self.speeds.ndim != 1 or not ((self.speeds > 0.0) & np.isfinite(self.speeds)).all():
            raise ConfigurationError(f"speeds: got {speeds}, allowed a row of numbers above 0")
        n = scale.joints
        self.size = (3 + len(self.speeds)) * n
        self._n, self._all = n, np.zeros(self.size)
        self._state = self._all[: 3 * n]
        self._speeds = self._all[3 * n :].reshape(len(self.speeds), n)
        span, low = scale.span[n : 2 * n], scale.low[n : 2 * n]
        self._slopes: Matrix = span / self.speeds[:, None]
        self._shifts: Matrix = low / self.speeds[:, None]

    def of(self, state: Vector) -> Vector:
        """Return what is seen of a normalised state (3 n,); the next call changes it."""
        self._state[:] = state
        n, found = self._n, self._speeds
        np.add(_multiply(self._slopes, state[n : 2 * n], found), self._shifts, found)
        _tanh(found, found)
        return self._all

    def rows(self, states: Matrix) -> Matrix:
        """Return what is seen of normalised states (k, 3 n), (k, (3 + s) n)."""
        return np.array([self.of(state).copy() for state in states]).reshape(-1, self.size)
