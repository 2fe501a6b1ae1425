# SPDX-License-Identifier: Apache-2.0
"""Compensation of joint friction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import choice, number, vector
from multipanda_py.state import JOINTS, ArmState, Vector
from multipanda_py.targets import Target

_multiply, _subtract, _add = np.multiply, np.subtract, np.add
_exp, _divide = np.exp, np.divide

PANDA = (
    (0.54615, 0.87224, 0.64068, 1.2794, 0.83904, 0.30301, 0.56489),
    (5.1181, 9.0657, 10.136, 5.5903, 8.3469, 17.133, 10.336),
    (0.039533, 0.025882, -0.04607, 0.036194, 0.026226, -0.021047, 0.0035526),
)
"""phi_1 [Nm], phi_2 [s/rad] and phi_3 [rad/s], identified on a Panda by Gaz et al., RA-L 2019."""


@dataclass(frozen=True, eq=False)
class FrictionParams:
    """Model of :class:`Friction`."""

    model: str = choice(
        "panda", options=("panda", "custom"), doc="identified values, or phi_1 to phi_3 below"
    )
    share: float = number(
        0.9, low=0, high=1, doc="of the friction that is compensated; 1 risks a limit cycle"
    )
    phi_1: Vector = vector(*PANDA[0], unit="Nm", low=0, high=20, doc="height of the step")
    phi_2: Vector = vector(*PANDA[1], unit="s/rad", low=0, high=100, doc="steepness of the step")
    phi_3: Vector = vector(*PANDA[2], unit="rad/s", low=-1, high=1, doc="offset of the step")
    viscous: Vector = vector(
        *[0.0] * JOINTS, unit="Nm s/rad", low=0, high=20, doc="viscous friction"
    )


class Friction(Feature[FrictionParams]):
    r"""Add the torque that joint friction is expected to take away.

    .. math::
        \tau = \alpha \left( \frac{\varphi_1}{1 + e^{-\varphi_2 (\dot q + \varphi_3)}}
        - \frac{\varphi_1}{1 + e^{-\varphi_2 \varphi_3}} + \varphi_v \dot q \right)

    A sigmoid of the measured velocity stands for Coulomb friction, without a step at rest; it
    is zero there. :math:`\alpha` (``share``) stays below 1 because compensation beyond what is
    really there feeds motion. Source: Gaz, Cognetti, Oliva, Robuffo Giordano and De Luca,
    IEEE RA-L 2019 (model, and values of a Panda; an FR3 needs its own for a high share).
    """

    Params = FrictionParams

    def __init__(self, context: Context, params: FrictionParams) -> None:
        self._tau, self._viscous = np.zeros(JOINTS), np.zeros(JOINTS)
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare the sigmoid's constants, with the share in them."""
        p = self.params
        panda = p.model == "panda"
        phi_1, phi_2, phi_3 = map(np.array, PANDA) if panda else (p.phi_1, p.phi_2, p.phi_3)
        self._height = p.share * phi_1
        self._steepness = -phi_2
        self._shift = -phi_2 * phi_3
        self._at_rest = self._height / (1.0 + np.exp(self._shift))
        self._slope = p.share * p.viscous

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the expected friction of every arm."""
        part, viscous = self._tau, self._viscous
        for state, torque in zip(states, tau):
            _add(_multiply(state.dq, self._steepness, part), self._shift, part)
            _divide(self._height, _add(_exp(part, part), 1.0, part), part)
            _subtract(part, self._at_rest, part)
            _add(part, _multiply(state.dq, self._slope, viscous), part)
            _add(torque, part, torque)
