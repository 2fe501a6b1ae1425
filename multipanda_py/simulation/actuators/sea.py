# SPDX-License-Identifier: Apache-2.0
"""Series elastic actuator: a motor drives a joint through one linear spring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.actuator import Actuator, ActuatorParams, ElasticTorque
from multipanda_py.parameters import number
from multipanda_py.state import Vector


@dataclass(frozen=True)
class SeaParams(ActuatorParams):
    """Parameters of :class:`Sea`; the default stiffness is that of the ROS-Gazebo toolbox."""

    stiffness: float = number(
        10.0, unit="Nm/rad", low=0, exclusive_low=True, doc="stiffness of the spring, k"
    )


class Sea(Actuator[SeaParams]):
    r"""Series elastic actuator with one linear spring.

    .. math:: \tau_{link} = \tau_1 = k\, \mathrm{sat}(\theta_1 - q), \qquad \sigma = k .

    Here :math:`\theta_1` is the motor angle, q the joint angle and :math:`\sigma` the stiffness.
    There is no second motor and no preset.
    """

    Params = SeaParams
    preset_unit = ""
    identified = ("stiffness",)
    source = (
        "Pratt and Williamson, Series elastic actuators, 1995; defaults of Mengacci et al., 2021"
    )

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the spring torque, which is also the load of the motor."""
        torque = self.of["stiffness"] * self.clipped(theta_1 - q)
        return ElasticTorque(torque, torque, np.zeros_like(torque))

    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        return self.of["stiffness"] * self.within(theta_1 - q)
