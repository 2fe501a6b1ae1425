# SPDX-License-Identifier: Apache-2.0
"""AwAS-II actuator: one motor drives a lever, and a second motor moves the pivot of the lever."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.actuator import Actuator, ElasticTorque, PresetParams
from multipanda_py.parameters import number
from multipanda_py.state import Vector


@dataclass(frozen=True)
class Awas2Params(PresetParams):
    """Parameters of :class:`Awas2`; the default preset limit is the highest validated one."""

    spring_stiffness: float = number(
        10.0, unit="Nm/rad", low=0, exclusive_low=True, doc="stiffness of the lever spring, K_s"
    )
    lever: float = number(0.05, unit="m", low=0, exclusive_low=True, doc="length of the lever, L")
    radius: float = number(
        0.015, unit="m", low=0, exclusive_low=True, doc="radius of the lever's drive, r_t"
    )
    max_deflection: float = number(
        0.3, unit="rad", low=0, high=0.78, exclusive_low=True,
        doc="maximum deflection of the lever, beyond which its torque is constant",
    )  # fmt: skip
    preset_low: float = number(
        0.0, unit="m", low=0, doc="minimum stiffness preset, the lower stop of the pivot"
    )
    preset_high: float = number(
        0.04, unit="m", low=0, doc="maximum stiffness preset, the upper stop of the pivot, below L"
    )
    damping_per_preset: float = number(
        0.0, unit="Nm s/(rad m)", low=0, doc="increase of the damping per metre of preset"
    )


class Awas2(Actuator[Awas2Params]):
    r"""Variable stiffness actuator: one motor drives the joint, another sets its stiffness.

    .. math::
        \tau_{link} = \tau_1 = \tfrac{c(s)}{2} \sin 2 d, \qquad d = \mathrm{sat}(\phi), \qquad
        \phi = \theta_1 - q

    .. math::
        c(s) = 2 K_s \left(\frac{L}{r_t} \frac{s}{L - s}\right)^2, \qquad \sigma = c \cos 2 d .

    Here :math:`\theta_1` is the motor angle, q the joint angle and :math:`\sigma` the stiffness.
    The pivot position :math:`s = \theta_2` [m] is between its stops ``preset_low`` and
    ``preset_high``. The force on the pivot follows from the same energy,
    :math:`F_2 = \tfrac12 c'(s) \left(\sin^2 d + (\phi - d) \sin 2 d\right)` [N].
    """

    Params = Awas2Params
    preset_unit = "m"
    identified = ("spring_stiffness",)  # Lever and radius can be measured directly.
    source = "Jafari, Tsagarakis and Caldwell, AwAS-II, 2011; defaults of Mengacci et al., 2021"

    def on_parameters(self) -> None:
        """Reject a maximum preset at which the pivot reaches the end of the lever."""
        lever = self._lever = self.of["lever"]
        high = self.preset_high
        for joint in np.flatnonzero(high >= lever):
            raise self.refused(
                f"preset_high of joint {joint + 1}: got {high[joint]:g} m, allowed less than the "
                f"lever length {lever[joint]:g} m"
            )
        self._scale = 2.0 * self.of["spring_stiffness"] * np.square(lever / self.of["radius"])

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the lever torque, and the pivot force as the load of the second motor."""
        s = np.minimum(np.maximum(theta_2, self.preset_low), self.preset_high)
        phi = theta_1 - q
        d = np.minimum(np.maximum(phi, self._lower), self._limit)
        left = self._lever - s
        ratio, sine, cosine = s / left, np.sin(d), np.cos(d)
        push = self._scale * ratio * sine
        torque = push * ratio * cosine
        rise = self._lever / left / left
        # Values are rarely clipped, and comparing bytes is faster than computing the terms of
        # clipped values.
        if s.tobytes() != theta_2.tobytes():
            # At a stop, the pivot rests on the stop, so its motor carries no force.
            rise = rise * (s == theta_2)
        reach = sine
        if d.tobytes() != phi.tobytes():
            beyond = phi - d
            reach = sine + (beyond + beyond) * cosine
        push = push * rise * reach
        return ElasticTorque(torque, torque, push)

    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        s = np.minimum(np.maximum(theta_2, self.preset_low), self.preset_high)
        phi = theta_1 - q
        c = self._scale * np.square(s / (self._lever - s))
        link_stiffness: Vector = c * np.cos(2.0 * self.clipped(phi)) * self.within(phi)
        return link_stiffness
