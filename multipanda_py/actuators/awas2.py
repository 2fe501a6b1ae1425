# SPDX-License-Identifier: Apache-2.0
"""A motor behind a lever, whose pivot a second motor moves: AwAS-II."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.actuator import Actuator, ActuatorParams, ElasticTorque
from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.parameters import number
from multipanda_py.state import Vector


@dataclass(frozen=True)
class Awas2Params(ActuatorParams):
    """Of :class:`Awas2`, as in the toolbox; its stiffest validated preset is the largest."""

    spring: float = number(10.0, unit="Nm/rad", low=0, exclusive_low=True, doc="of the lever, K_s")
    lever: float = number(0.05, unit="m", low=0, exclusive_low=True, doc="its length, L")
    radius: float = number(0.015, unit="m", low=0, exclusive_low=True, doc="of its drive, r_t")
    max_deflection: float = number(
        0.3, unit="rad", low=0, high=0.78, exclusive_low=True,
        doc="of the lever; torque grows no further",
    )  # fmt: skip
    preset_high: float = number(0.04, unit="m", doc="largest stiffness preset, below the lever's")


class Awas2(Actuator[Awas2Params]):
    r"""Drive a joint by one motor, and set its stiffness by another.

    .. math::
        \tau_{link} = \tau_1 = \tfrac{c(s)}{2} \sin 2d, \quad d = \mathrm{sat}(\theta_1 - q), \quad
        c(s) = 2 K_s \left(\frac{L}{r_t} \frac{s}{L - s}\right)^2, \quad \sigma = c \cos 2d

    with the pivot's place :math:`s = \theta_2` in metres. The force that the pivot is held with
    follows from the same energy, :math:`F_2 = \tfrac12 c'(s) \sin^2 d` [N].
    (Jafari, Tsagarakis and Caldwell, AwAS-II, 2011.)
    """

    Params = Awas2Params
    preset_unit = "m"

    def __init__(self, n_joints: int, params: Mapping[str, ArrayLike] | None = None) -> None:
        super().__init__(n_joints, params)
        if (self.of["preset_high"] >= self.of["lever"]).any() or (self.of["preset_low"] < 0).any():
            raise ActuatorRefused(
                f"awas2: preset_low to preset_high: got {self.of['preset_low']} to "
                f"{self.of['preset_high']} m, allowed 0 to less than the lever {self.of['lever']}"
            )

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the lever's torque, and the force on its pivot as the second motor's load."""
        d, s, lever = self.clipped(theta_1 - q), theta_2, self.of["lever"]
        scale = 2.0 * self.of["spring"] * np.square(lever / self.of["radius"])
        ratio = s / (lever - s)
        torque = 0.5 * scale * np.square(ratio) * np.sin(2.0 * d)
        slope = 2.0 * scale * ratio * lever / np.square(lever - s)
        return ElasticTorque(torque, torque, 0.5 * slope * np.square(np.sin(d)))

    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return that of the lever."""
        d, s, lever = theta_1 - q, theta_2, self.of["lever"]
        c = 2.0 * self.of["spring"] * np.square(lever / self.of["radius"] * s / (lever - s))
        found: Vector = c * np.cos(2.0 * self.clipped(d)) * self.within(d)
        return found

    def references(self, equilibrium: Vector, preset: Vector) -> tuple[Vector, Vector]:
        """Return the equilibrium [rad], and the preset [m]."""
        return equilibrium, preset
