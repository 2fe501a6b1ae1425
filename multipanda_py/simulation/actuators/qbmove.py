# SPDX-License-Identifier: Apache-2.0
"""qbMove Advanced actuator: two motors act on a joint through springs that harden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.actuator import Actuator, AntagonisticParams, ElasticTorque
from multipanda_py.parameters import number
from multipanda_py.state import Vector


@dataclass(frozen=True)
class QbmoveParams(AntagonisticParams):
    """Parameters of :class:`Qbmove`; defaults of the ROS-Gazebo toolbox and the data sheet."""

    a_1: float = number(
        8.9992, unit="1/rad", low=0, exclusive_low=True, doc="exponent of the first spring"
    )
    k_1: float = number(
        0.0019, unit="Nm", low=0, exclusive_low=True, doc="torque scale of the first spring"
    )
    a_2: float = number(
        8.9992, unit="1/rad", low=0, exclusive_low=True, doc="exponent of the second spring"
    )
    k_2: float = number(
        0.0019, unit="Nm", low=0, exclusive_low=True, doc="torque scale of the second spring"
    )
    preset_high: float = number(0.6, unit="rad", doc="maximum stiffness preset")


class Qbmove(Actuator[QbmoveParams]):
    r"""Antagonistic actuator with two motors behind hardening springs.

    .. math::
        \tau_i = k_i \sinh\left(a_i\, \mathrm{sat}(\theta_i - q)\right), \qquad
        \tau_{link} = \tau_1 + \tau_2, \qquad
        \sigma = \sum_i a_i k_i \cosh\left(a_i (\theta_i - q)\right) .

    Here q is the joint angle, :math:`\sigma` the stiffness, and
    :math:`\theta_{1,2} = \theta_{eq} \pm p` are the motor angles. A larger preset p makes the
    joint stiffer. With equal springs,
    :math:`\tau_{link} = 2 k \cosh(a p) \sinh(a (\theta_{eq} - q))`. With unequal springs, the
    unloaded joint does not rest at :math:`\theta_{eq}`.
    """

    Params = QbmoveParams
    is_antagonistic = True
    identified = ("a_1", "k_1", "a_2", "k_2")
    source = (
        "Della Santina et al., The quest for natural machine motion, 2017; defaults of Mengacci "
        "et al., 2021"
    )

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the torques of both springs, and their sum."""
        of = self.of
        first = of["k_1"] * np.sinh(of["a_1"] * self.clipped(theta_1 - q))
        second = of["k_2"] * np.sinh(of["a_2"] * self.clipped(theta_2 - q))
        return ElasticTorque(first + second, first, second)

    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the sum of the stiffnesses of both springs."""
        of, d_1, d_2 = self.of, theta_1 - q, theta_2 - q
        first = of["a_1"] * of["k_1"] * np.cosh(of["a_1"] * self.clipped(d_1)) * self.within(d_1)
        second = of["a_2"] * of["k_2"] * np.cosh(of["a_2"] * self.clipped(d_2)) * self.within(d_2)
        link_stiffness: Vector = first + second
        return link_stiffness
