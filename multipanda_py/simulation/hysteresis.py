# SPDX-License-Identifier: Apache-2.0
"""Friction that remembers where a joint turned round."""

from __future__ import annotations

import numpy as np

from multipanda_py.config.perturbation_section import PerturbationConfig
from multipanda_py.simulation.drive import Measured, Stage
from multipanda_py.state import Matrix, Vector

SLIPPING = (0.125, 0.25, 0.5, 1.0)
"""When each element slips the other way after a reversal, as a share of the distance after which
all do: strain wave gears are stiff first and give way gradually."""


class Hysteresis(Stage):
    r"""Rub as springs that slip one after another: rate-independent, with memory.

    .. math::
        \tau_h = \sum_i z_i, \qquad
        z_i \leftarrow \mathrm{clip}\left(z_i + \frac{2 w}{s_i d} \Delta q,\, -w,\, w\right),
        \qquad w = \frac{h}{m}

    This is the Maxwell-slip model, with m elements of the same strength. From rest torque grows
    with the angle up to :math:`h` (``hysteresis``), half of a reversal's distance away; after
    a reversal it takes the distance :math:`d` (``hysteresis_distance``) to be :math:`-h`. It
    follows Masing's rules: a loop within a loop closes, and leaves no trace once it has closed.
    Only angles count, not speed and not time, so a joint at rest keeps its torque. Of presliding
    friction: Al-Bender, Lampaert and Swevers, The generalized Maxwell-slip model, 2005; of strain
    wave gears: Tjahjowidodo, Al-Bender and Van Brussel, Theoretical modelling and experimental
    identification of nonlinear torsional behaviour in harmonic drives, 2013.

    As other friction that the robot does not know it is beyond what ``tau_J`` shows, and felt
    as a push from outside.

    Args:
        settings: What is wrong with the arm.
        q: Positions of its joints in the world, live, (n,) [rad].

    Thread: control.
    """

    CHANGING = ("_last", "_springs", "_torque")

    def __init__(self, settings: PerturbationConfig, q: Vector) -> None:
        self._q, n = q, len(q)
        strength: Vector = np.array(settings.hysteresis) / len(SLIPPING)
        distances = np.outer(SLIPPING, settings.hysteresis_distance)
        self._stiffness: Matrix = 2.0 * strength / distances
        self._most: Matrix = np.tile(strength, (len(SLIPPING), 1))
        self._least: Matrix = -self._most
        self._last: Vector | None = None  # where the joints were; None before the first cycle
        self._springs, self._torque = np.zeros((len(SLIPPING), n)), np.zeros(n)
        self._way, self._change = np.zeros(n), np.zeros((len(SLIPPING), n))

    def execute(self, tau: Vector) -> None:
        """Move the springs on to where the joints are, and take their torque away."""
        if self._last is None:
            self._last = self._q.copy()
        springs, change = self._springs, self._change
        way = np.subtract(self._q, self._last, self._way)
        self._last[:] = self._q
        np.add(springs, np.multiply(self._stiffness, way, change), springs)
        np.maximum(springs, self._least, out=springs)
        np.minimum(springs, self._most, out=springs)
        tau -= springs.sum(axis=0, out=self._torque)

    def measure(self, state: Measured) -> None:
        """Show the motor's torque, and feel the rest as a push."""
        state.tau_ext -= self._torque
        state.tau_J += self._torque
