# SPDX-License-Identifier: Apache-2.0
"""Springs that follow joints and slip: where they turned round, as numbers."""

from __future__ import annotations

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Vector

_add, _subtract, _dot = np.add, np.subtract, np.dot
_maximum, _minimum = np.maximum, np.minimum


class SlipSprings:
    r"""Follow the way of joints with springs that slip after a distance.

    .. math:: z_{i,j} \leftarrow \mathrm{clip}\left(z_{i,j} + \frac{2}{d_i} \Delta q_j,\,
        -1,\, 1\right)

    A sum of such is friction with hysteresis (generalized Maxwell-slip): z changes its sign within
    the distance :math:`d_i` after a joint has turned round. Only ways count, not where a joint is,
    nor speed nor time. Springs are at zero where they are first told of a position.

    Source: Al-Bender, Lampaert and Swevers, The generalized Maxwell-slip model, 2005.

    Args:
        distances: d, (s,) [rad, m]; may be none.
        unit: What one of the positions' units is, (n,) [rad, m].
        drawn: Where z is kept, (s n,), joint by joint within a distance.

    Attributes:
        drawn: z, live, -1 to 1.
        last: Position that they were last told of, live, (n,).
        begun: Whether they were told of any.

    Raises:
        ConfigurationError: If a distance is not above zero and finite.

    Thread: one.
    """

    def __init__(self, distances: Vector, unit: Vector, drawn: Vector) -> None:
        given = np.asarray(distances, float)
        if given.ndim != 1 or not ((given > 0.0) & np.isfinite(given)).all():
            raise ConfigurationError(f"distances: got {distances}, allowed a row above 0")
        n = len(unit)
        self.drawn, self.last, self.begun = drawn, np.zeros(n), False
        self._stiffness = np.vstack([np.zeros((0, n)), *(np.diag(2.0 * unit / d) for d in given)])
        self._way, self._change = np.zeros(n), np.zeros(drawn.size)
        self._most, self._least = np.ones(drawn.size), -np.ones(drawn.size)

    def reset(self) -> None:
        """Be at zero where the joints are next."""
        self.drawn[:] = self.last[:] = 0.0
        self.begun = False

    def follow(self, q: Vector) -> None:
        """Go on to where the joints are, (n,), in their units."""
        if not self.begun:
            self.last[:] = q
            self.begun = True
        way, drawn = _subtract(q, self.last, self._way), self.drawn
        self.last[:] = q
        _add(drawn, _dot(self._stiffness, way, self._change), drawn)
        _minimum(_maximum(drawn, self._least, out=drawn), self._most, out=drawn)
