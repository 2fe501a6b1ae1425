# SPDX-License-Identifier: Apache-2.0
"""What networks of residuals see: states, speeds as friction does, and where joints turned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Matrix, Vector

QUANTITIES = ("q", "dq", "tau")
"""What a row holds, of n joints each: rad, rad/s, Nm (m, m/s, N of sliding joints)."""
SIDES = ("twin", "plant")
"""Who has done a motion of paired data."""


def row_labels(joints: int) -> list[str]:
    """Return the names of a row's numbers: ``q_1`` to ``tau_n``."""
    return [f"{what}_{joint + 1}" for what in QUANTITIES for joint in range(joints)]


@dataclass(frozen=True, eq=False)
class Normalisation:
    r"""Scale rows :math:`x = (q, \dot q, \tau)` by what the joints' data sheet allows.

    .. math:: \hat x = \frac{x - x_{low}}{x_{high} - x_{low}}, \qquad
        \hat r = \frac{r}{x_{high} - x_{low}}

    A state within the limits is in [0, 1], so the difference :math:`\hat r` of two such states is
    in [-1, 1]. Limits, not extremes of the data: two data sets of one robot agree, and what a
    network was trained on can be told from what the robot can do.

    Source: Realeasy, section on data (joint limit specifications).

    Attributes:
        low: :math:`x_{low}`, (3 n,) [rad, rad/s, Nm].
        high: :math:`x_{high}`, (3 n,) [rad, rad/s, Nm].
    """

    low: Vector
    high: Vector

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, float), np.asarray(self.high, float)
        if low.ndim != 1 or low.shape != high.shape or low.size == 0 or low.size % 3:
            raise ConfigurationError(
                f"limits of a normalisation: got shapes {low.shape} and {high.shape}, allowed "
                f"two vectors of three numbers a joint ({', '.join(QUANTITIES)})"
            )
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ConfigurationError(
                f"limits of a normalisation: got {low.tolist()} and {high.tolist()}, allowed "
                "finite ones, the lower below the upper"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def of_limits(
        cls, q_lower: Vector, q_upper: Vector, dq_max: Vector, tau_max: Vector
    ) -> Normalisation:
        """Return that of joints with speeds and torques bounded alike both ways, (n,) each."""
        return cls(
            np.concatenate([q_lower, -np.asarray(dq_max), -np.asarray(tau_max)]),
            np.concatenate([q_upper, dq_max, tau_max]),
        )

    @property
    def joints(self) -> int:
        """Number of joints n."""
        return self.low.size // 3

    @property
    def span(self) -> Vector:
        """What one normalised unit is, (3 n,) [rad, rad/s, Nm]."""
        return self.high - self.low

    def state(self, rows: Matrix) -> Matrix:
        """Return normalised states of rows (..., 3 n)."""
        return (rows - self.low) / self.span

    def state_of(self, normalised: Matrix) -> Matrix:
        """Return rows of normalised states (..., 3 n)."""
        return normalised * self.span + self.low

    def residual(self, differences: Matrix) -> Matrix:
        """Return normalised differences of two rows (..., 3 n)."""
        return differences / self.span

    def residual_of(self, normalised: Matrix) -> Matrix:
        """Return differences of rows of normalised ones (..., 3 n)."""
        return normalised * self.span


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
