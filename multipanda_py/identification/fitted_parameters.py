# SPDX-License-Identifier: Apache-2.0
"""Parameters of an actuator as a solver varies them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multipanda_py.parameter_spec import Spec
from multipanda_py.state import Matrix, Vector

SPREAD = 8.0
"""Factor by which starts are off the defaults."""
FARTHEST = 1e4
"""Factor by which a parameter may end up away from its default."""


class FittedParameters:
    r"""Scale parameters: :math:`x = \ln p` of what is positive, else shares of the default.

    So that steps, bounds and standard deviations are relative, whatever the units.

    Args:
        specs: Of the parameters, p of them.

    Attributes:
        names: Of the parameters.
        lower: Smallest values of x, (p,).
        upper: Largest ones.
    """

    def __init__(self, specs: Sequence[Spec]) -> None:
        self.names = [spec.name for spec in specs]
        self._is_log = np.array([spec.bounds[0][0] >= 0.0 < spec.default for spec in specs])
        default = np.array([spec.default for spec in specs], dtype=np.float64)
        self._scale = np.where(default == 0.0, 1.0, np.abs(default))
        self._here = np.where(self._is_log, np.log(self._scale), default / self._scale)
        low, high = np.array([spec.bounds[0] for spec in specs]).T
        far, at = math.log(FARTHEST), np.log(self._scale)
        with np.errstate(divide="ignore"):
            lower = np.maximum(np.log(np.maximum(low, 0.0)), at - far)
            upper = np.minimum(np.log(np.maximum(high, 0.0)), at + far)
        self.lower = np.where(self._is_log, lower, np.maximum(low / self._scale, -FARTHEST))
        self.upper = np.where(self._is_log, upper, np.minimum(high / self._scale, FARTHEST))

    def values(self, x: Vector) -> Vector:
        """Return the parameters, (p,) or (k, p)."""
        return np.where(self._is_log, np.exp(np.where(self._is_log, x, 0.0)), x * self._scale)

    def slopes(self, x: Vector) -> Vector:
        """Return the derivatives of parameters by x, (p,)."""
        return np.where(self._is_log, self.values(x), self._scale)

    def starts(self, count: int, rng: np.random.Generator) -> Matrix:
        """Return the defaults, and places around them, (count, p)."""
        wide = np.where(self._is_log, math.log(SPREAD), 1.0)
        around = rng.uniform(-1.0, 1.0, (count, len(self.names))) * wide
        around[0] = 0.0
        return np.clip(self._here + around, self.lower + 1e-4, self.upper - 1e-4)

    def at_end(self, x: Vector) -> list[str]:
        """Return the names of parameters at the end of what is allowed."""
        near = np.minimum(x - self.lower, self.upper - x) < 1e-6
        return [name for name, one in zip(self.names, near) if one]
