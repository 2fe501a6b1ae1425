# SPDX-License-Identifier: Apache-2.0
"""Damping of the directions that the tool is about to lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

_dot, _multiply, _subtract = np.dot, np.multiply, np.subtract
_maximum = np.maximum
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class SingularityParams:
    """Damping of :class:`Singularity`."""

    threshold: float = number(
        0.02,
        unit="1/kg",
        low=1e-6,
        high=10,
        doc="eigenvalue of the inverse inertia below which a direction is damped",
    )
    rate: float = number(
        20.0,
        unit="1/s",
        low=0,
        high=100,
        doc="rate at which motion along a direction that is lost decays",
    )


class Singularity(Feature[SingularityParams]):
    r"""Slow the tool down along directions in which it becomes very heavy.

    .. math::
        \tau = -J^T D J \dot q, \qquad
        D = V \,\mathrm{diag}\!\left( \frac{\rho(w_i)}{w_i} \right) V^T, \qquad
        J M^{-1} J^T = V \mathrm{diag}(w) V^T, \\
        \rho(w) = \rho_0 \left( 1 - w / \epsilon \right)^2 \text{ for } w < \epsilon,
        \text{ else } 0

    Near a singularity an eigenvalue w goes to zero: its direction seems to weigh
    :math:`1 / w`. Damping in proportion to that mass makes motion along it decay at the
    rate :math:`\rho`, whatever the posture: :math:`J M^{-1} \tau = -\rho \dot x` there. The
    torque stays bounded, as :math:`J^T v_i` shrinks with :math:`\sqrt{w_i}`; it is zero above
    the threshold and sets in with its derivative. It only takes energy. Source: the damping of
    Albu-Schäffer et al., ICRA 2003, for the inertia of Khatib 1987.
    """

    Params = SingularityParams

    def __init__(self, context: Context, params: SingularityParams) -> None:
        self._modes, self._rate = np.zeros(6), np.zeros(6)
        self._wrench, self._taus = np.zeros(6), context.joint_zeros()
        super().__init__(context, params)

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the damping of every arm that is near a singularity."""
        threshold = self.params.threshold
        for arm, state in enumerate(states):
            space = state.operational_space()
            if space.manipulability >= threshold:
                continue
            w, v = space.eigen()
            rate = self._rate
            _maximum(_subtract(1.0, w / threshold, rate), 0.0, out=rate)
            _multiply(rate, rate, rate)
            _multiply(rate, self.params.rate / np.maximum(w, _TINY), rate)
            modes = _multiply(_dot(state.twist_ee_in_base, v, self._modes), rate, self._modes)
            torque = _dot(_dot(v, modes, self._wrench), state.jacobian, self._taus[arm])
            _subtract(tau[arm], torque, tau[arm])
