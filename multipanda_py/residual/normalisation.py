# SPDX-License-Identifier: Apache-2.0
"""Positions, velocities and torques of joints as numbers from 0 to 1, and back."""

from __future__ import annotations

from dataclasses import dataclass

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
