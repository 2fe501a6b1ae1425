# SPDX-License-Identifier: Apache-2.0
"""Inputs of residual networks: normalised states, scaled speeds, and springs for friction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import add, dot, maximum, minimum, multiply, subtract, tanh

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Matrix, Vector

QUANTITIES = ("q", "dq", "tau")
"""Quantities in a sample, one value per joint [rad, rad/s, Nm; m, m/s, N if prismatic]."""
SIDES = ("twin", "plant")
"""Sides of a paired motion."""


def row_labels(joints: int) -> list[str]:
    """Return the names of a sample's values: ``q_1`` to ``q_n``, then ``dq_1``..., ``tau_1``..."""
    return [f"{quantity}_{joint + 1}" for quantity in QUANTITIES for joint in range(joints)]


@dataclass(frozen=True, eq=False)
class Normalisation:
    r"""Scaling of samples :math:`x = (q, \dot q, \tau)` by the limits of the joints.

    .. math:: \hat x = \frac{x - x_{low}}{x_{high} - x_{low}}, \qquad
        \hat r = \frac{r}{x_{high} - x_{low}}.

    A sample x within the limits has a normalised state :math:`\hat x` in [0, 1]. The difference r
    of two samples has a normalised difference :math:`\hat r` in [-1, 1].

    Source: Dürr et al., Realeasy, IEEE CASE 2021, section on data (joint limit specifications).

    Attributes:
        low: Lower limits :math:`x_{low}`, (3 n,) [rad, rad/s, Nm].
        high: Upper limits :math:`x_{high}`, (3 n,) [rad, rad/s, Nm].
    """

    low: Vector
    high: Vector

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, float), np.asarray(self.high, float)
        if low.ndim != 1 or low.shape != high.shape or low.size == 0 or low.size % 3:
            raise ConfigurationError(
                f"limits of a normalisation: got shapes {low.shape} and {high.shape}, allowed "
                f"two vectors with three numbers per joint ({', '.join(QUANTITIES)})"
            )
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ConfigurationError(
                f"limits of a normalisation: got {low.tolist()} and {high.tolist()}, allowed "
                "finite numbers with the lower below the upper"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def of_limits(
        cls, q_lower: Vector, q_upper: Vector, dq_max: Vector, tau_max: Vector
    ) -> Normalisation:
        """Return the scaling for joint limits [rad, rad/s, Nm], (n,) each."""
        return cls(
            np.concatenate([q_lower, -np.asarray(dq_max), -np.asarray(tau_max)]),
            np.concatenate([q_upper, dq_max, tau_max]),
        )

    @property
    def joints(self) -> int:
        return self.low.size // 3

    @property
    def span(self) -> Vector:
        """Difference of the upper and lower limits, (3 n,) [rad, rad/s, Nm]."""
        return self.high - self.low

    def state(self, rows: Matrix) -> Matrix:
        """Return the normalised states of samples (..., 3 n)."""
        return (rows - self.low) / self.span

    def state_of(self, normalised: Matrix) -> Matrix:
        """Return the samples of normalised states (..., 3 n)."""
        return normalised * self.span + self.low

    def residual(self, differences: Matrix) -> Matrix:
        """Return the normalised differences of samples (..., 3 n)."""
        return differences / self.span

    def residual_of(self, normalised: Matrix) -> Matrix:
        """Return the differences of samples from normalised ones (..., 3 n)."""
        return normalised * self.span


class SlipSprings:
    r"""Springs between joints and ground that slip beyond a distance: friction with hysteresis.

    .. math:: z_{i,j} \leftarrow \mathrm{clip}\left(z_{i,j} + \frac{2}{d_i} \Delta q_j,\,
        -1,\, 1\right).

    :math:`z_{i,j}` is the deflection of spring i of joint j, initially zero. :math:`d_i` is the
    slip distance, and :math:`\Delta q_j` the displacement of the joint.

    Source: Al-Bender, Lampaert and Swevers, The generalized Maxwell-slip model, 2005.

    Args:
        distances: Slip distances d, (s,) [rad, m]; may be empty.
        unit: Unit of the joint positions in :meth:`follow`, (n,) [rad, m].
        deflection: Array for z, (s n,): all joints of the first distance, then of the next one.

    Attributes:
        deflection: Deflections z, -1 to 1, (s n,); updated in place.
        last: Last positions of :meth:`follow`, (n,); updated in place.
        has_started: True after the first position.

    Raises:
        ConfigurationError: A distance is not positive and finite.

    Thread: one at a time.
    """

    def __init__(self, distances: Vector, unit: Vector, deflection: Vector) -> None:
        value = np.asarray(distances, float)
        if value.ndim != 1 or not ((value > 0.0) & np.isfinite(value)).all():
            raise ConfigurationError(
                f"distances: got {distances}, allowed a list of numbers above 0"
            )
        n = len(unit)
        self.deflection, self.last, self.has_started = deflection, np.zeros(n), False
        self._stiffness = np.vstack([np.zeros((0, n)), *(np.diag(2.0 * unit / d) for d in value)])
        self._displacement, self._change = np.zeros(n), np.zeros(deflection.size)
        self._max, self._min = np.ones(deflection.size), -np.ones(deflection.size)

    def reset(self) -> None:
        """Set all deflections to zero. The next position is the start of a new motion."""
        self.deflection[:] = self.last[:] = 0.0
        self.has_started = False

    def follow(self, q: Vector) -> None:
        """Update the deflections for the next joint positions.

        Args:
            q: Joint positions in multiples of ``unit``, (n,).
        """
        if not self.has_started:
            self.last[:] = q
            self.has_started = True
        displacement, drawn = subtract(q, self.last, self._displacement), self.deflection
        self.last[:] = q
        add(drawn, dot(self._stiffness, displacement, self._change), drawn)
        minimum(maximum(drawn, self._min, out=drawn), self._max, out=drawn)


def joint_input_indices(joint: int, n: int, size: int) -> list[int]:
    """Return the indices of the inputs of one joint: its speed, scaled speeds and springs.

    Args:
        joint: Index of the joint, from 0.
        n: Number of joints.
        size: Number of inputs of all joints, :attr:`Inputs.size`.
    """
    return [n + joint, *range(3 * n + joint, size, n)]


class Inputs:
    r"""Inputs of a network: a normalised state, scaled speeds and slip springs.

    .. math:: x = \left(\hat x, \tanh\frac{\dot q}{v_1}, \tanh\frac{\dot q}{v_2}, \dots,
        z_1, z_2, \dots\right).

    :math:`\hat x` is the normalised state. The reference speeds :math:`v_i` scale the joint
    velocities :math:`\dot q`. :math:`z_i` are the deflections of :class:`.SlipSprings`.

    Args:
        scale: Scaling of normalised states.
        speeds: Reference speeds :math:`v_i`, (s,) [rad/s]; may be empty.
        distances: Slip distances of the springs, (d,) [rad, m]; may be empty.

    Attributes:
        size: Number of inputs, (3 + s + d) n.
        values: Inputs x, (size,); updated in place.
        state: View of the part of ``values`` for the normalised state, (3 n,).

    Raises:
        ConfigurationError: A speed or distance is not positive and finite.

    Thread: one at a time.
    """

    def __init__(
        self,
        scale: Normalisation,
        speeds: Vector,
        distances: Vector | tuple[float, ...] = (),
    ) -> None:
        self.speeds: Vector = np.asarray(speeds, float)
        if self.speeds.ndim != 1 or not ((self.speeds > 0.0) & np.isfinite(self.speeds)).all():
            raise ConfigurationError(f"speeds: got {speeds}, allowed a list of numbers above 0")
        n, paths = scale.joints, np.asarray(distances, float)
        last = (3 + len(self.speeds)) * n
        self.size = last + paths.size * n
        self.values = np.zeros(self.size)
        self.state, self._speeds = self.values[: 3 * n], self.values[3 * n : last]
        self._q = self.state[:n]
        self._rotations = bool(paths.size)
        self._springs = SlipSprings(paths, scale.span[:n], self.values[last:])
        span, low = scale.span[n : 2 * n], scale.low[n : 2 * n]
        self._slopes: Vector = (span / self.speeds[:, None]).ravel()
        self._shifts: Vector = (low / self.speeds[:, None]).ravel()
        self._indices = np.tile(np.arange(n, 2 * n), len(self.speeds))

    def reset(self) -> None:
        self._springs.reset()

    def internal_state(self) -> tuple[Any, ...]:
        """Return views of the springs' state for :meth:`restore`; the next step changes them."""
        return self._springs.deflection, self._springs.last, self._springs.has_started

    def restore(self, internal_state: tuple[Any, ...]) -> None:
        self._springs.deflection[:], self._springs.last[:], self._springs.has_started = (
            internal_state
        )

    def compute(self, state: Vector) -> Vector:
        """Return the inputs for the next normalised state, (3 n,). The next call changes them."""
        self.state[:] = state
        self.follow()
        return self.values

    def follow(self) -> None:
        """Update ``values`` for the normalised state that the caller has written to ``state``."""
        result = self.state.take(self._indices, None, self._speeds, "clip")
        tanh(add(multiply(result, self._slopes, result), self._shifts, result), result)
        if self._rotations:
            self._springs.follow(self._q)

    def rows(self, states: Matrix) -> Matrix:
        """Return the inputs of a motion, (k, ``size``), from its normalised states, (k, 3 n)."""
        self.reset()
        return np.array([self.compute(state).copy() for state in states]).reshape(-1, self.size)
