# SPDX-License-Identifier: Apache-2.0
"""BAVS actuator: bidirectional antagonism with variable stiffness, by two motors per joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.actuator import Actuator, AntagonisticParams, ElasticTorque
from multipanda_py.parameters import number
from multipanda_py.state import Vector


@dataclass(frozen=True)
class BavsParams(AntagonisticParams):
    """Parameters of :class:`Bavs`; the defaults are those of the ROS-Gazebo toolbox."""

    a: float = number(1.21e-6, low=0, doc="coefficient of the pushing flank of a spring")
    b: float = number(2.38e-6, low=0, doc="coefficient of the pulling flank of a spring")
    k: float = number(
        1.6e5, unit="Nm", low=0, exclusive_low=True, doc="torque scale of both flanks"
    )
    exponent: float = number(
        8.71, unit="1/rad", low=0, exclusive_low=True, doc="exponent of both flanks, c"
    )
    max_deflection: float = number(
        0.27,
        unit="rad",
        low=0,
        exclusive_low=True,
        doc="maximum deflection of a spring, beyond which its torque is constant",
    )
    preset_high: float = number(0.22, unit="rad", doc="maximum stiffness preset")


class Bavs(Actuator[BavsParams]):
    r"""Antagonistic actuator with two motors, each behind a spring that pushes and pulls.

    .. math::
        \tau_1 = k (b e^{c d_1} - a e^{-c d_1}), \qquad
        \tau_2 = k (a e^{c d_2} - b e^{-c d_2}), \qquad
        d_i = \mathrm{sat}(\theta_i - q), \qquad \tau_{link} = \tau_1 + \tau_2 .

    Here :math:`\theta_i` are the motor angles, q is the joint angle and c the exponent. The flanks
    differ, so the motors exert opposing torques even at preset 0.
    """

    Params = BavsParams
    is_antagonistic = True
    identified = ("a", "b", "exponent")  # Only the products k a and k b can be identified.
    source = (
        "Petit, Friedl, Höppner and Grebenstein, Analysis and synthesis of the bidirectional "
        "antagonistic variable stiffness mechanism, 2015; defaults of Mengacci et al., 2021"
    )

    def on_parameters(self) -> None:
        """Scale the flanks by k."""
        self._a, self._b = self.of["k"] * self.of["a"], self.of["k"] * self.of["b"]

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the torques of both springs, and their sum."""
        exponent = self.of["exponent"]
        first = np.exp(exponent * self.clipped(theta_1 - q))
        second = np.exp(exponent * self.clipped(theta_2 - q))
        tau_1 = self._b * first - self._a / first
        tau_2 = self._a * second - self._b / second
        return ElasticTorque(tau_1 + tau_2, tau_1, tau_2)

    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the sum of the stiffnesses of both springs."""
        exponent, d_1, d_2 = self.of["exponent"], theta_1 - q, theta_2 - q
        first = np.exp(exponent * self.clipped(d_1))
        second = np.exp(exponent * self.clipped(d_2))
        slope_1 = (self._b * first + self._a / first) * self.within(d_1)
        slope_2 = (self._a * second + self._b / second) * self.within(d_2)
        link_stiffness: Vector = exponent * (slope_1 + slope_2)
        return link_stiffness
