# SPDX-License-Identifier: Apache-2.0
"""An energy tank that pays for moving the set point of a spring."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.state import Matrix, Vector

_dot = np.dot


class SpringTank:
    r"""Hold a spring's set point back when moving it would cost more energy than there is.

    .. math::
        x'_d = x_d + \alpha_i (x_d - x), \qquad
        \alpha_i = -1 + \sqrt{\frac{V_{old} + E_i}{V_{new}}} \in [-1, 0], \qquad
        \dot E_i = \beta P_{diss} - \dot V_{set}

    A jump of the set point or of the stiffness stores :math:`V_{new} - V_{old}` in the spring,
    with :math:`V = \tfrac12 e^T K e`; the tank pays for it. What it cannot pay is held back:
    with the error scaled by :math:`1 + \alpha_i` the spring holds just what was paid. As
    dissipation fills the tank again, :math:`\alpha_i` goes back to zero. The form of
    :math:`x'_d` is that of multipanda_ros2 (section IV, below eq. 4), which gives neither the
    range nor the law of :math:`\alpha_i`; the tank is after Haddadin and Shahriari (IJRR 2024).

    Attributes:
        energy: In the tank [J].
        scale: :math:`1 + \alpha_i`, 0 to 1.

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._error, self._gain = np.zeros(6), np.zeros((6, 6))
        self._force = np.zeros(6)
        self.energy, self.scale = 0.0, 1.0

    def reset(self, energy: float) -> None:
        """Start with a relaxed spring and some energy [J]."""
        self.energy, self.scale = energy, 1.0
        self._error[:] = 0.0
        self._gain[:] = 0.0

    def step(
        self,
        error: Vector,
        stiffness: Matrix,
        spring: Vector,
        motion: Vector,
        dissipated: float,
        tank_max: float,
    ) -> float:
        """Return the factor on the spring's wrench for this cycle.

        Args:
            error: Present error, (6,) [m, rad].
            stiffness: Present stiffness, (6, 6).
            spring: Their product, (6,) [N, Nm].
            motion: Twist of the tool, along the axes of the error, (6,).
            dissipated: Power that damping takes out of the motion, for this tank [W].
            tank_max: Upper limit [J].
        """
        self.energy = min(self.energy + max(0.0, dissipated) * self._period, tank_max)
        wanted = 0.5 * float(_dot(error, spring))
        # What the spring of the last cycle holds now that the tool has moved on.
        self._error -= self._period * motion
        held = 0.5 * float(_dot(self._error, _dot(self._gain, self._error, self._force)))
        held *= self.scale * self.scale
        if wanted > held:
            paid = min(max(0.0, self.energy), wanted - held)
            self.scale = math.sqrt((held + paid) / wanted) if wanted > 0.0 else 1.0
            self.energy -= paid
        else:
            self.energy = min(self.energy + held - wanted, tank_max)
            self.scale = 1.0
        self._error[:] = error
        self._gain[:] = stiffness
        return self.scale
