# SPDX-License-Identifier: Apache-2.0
"""Built-in compliant actuators: series elastic, qbMove Advanced, BAVS and AwAS-II."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.actuator import (
    Actuator,
    ActuatorParams,
    AntagonisticParams,
    ElasticTorque,
    PresetParams,
)
from multipanda_py.parameters import number
from multipanda_py.state import Vector


@dataclass(frozen=True)
class SeaParams(ActuatorParams):
    """Parameters of :class:`Sea`, with the default stiffness of Mengacci et al., 2021."""

    stiffness: float = number(
        10.0, unit="Nm/rad", low=0, exclusive_low=True, doc="stiffness of the spring, k"
    )


class Sea(Actuator[SeaParams]):
    r"""Series elastic actuator with one linear spring, without second motor and preset.

    .. math:: \tau_{link} = \tau_1 = k\, \mathrm{sat}(\theta_1 - q), \qquad \sigma = k .

    Here k is the stiffness of the spring, :math:`\theta_1` the motor angle, q the joint angle and
    :math:`\sigma` the stiffness of the joint. sat limits the deflection.
    """

    Params = SeaParams
    preset_unit = ""
    identified = ("stiffness",)
    source = (
        "Pratt and Williamson, Series elastic actuators, 1995; defaults of Mengacci et al., 2021"
    )

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the spring torque on link and motor; the torque on a second motor is zero."""
        torque = self.of["stiffness"] * self.clipped(theta_1 - q)
        return ElasticTorque(torque, torque, np.zeros_like(torque))

    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        return self.of["stiffness"] * self.within(theta_1 - q)


@dataclass(frozen=True)
class QbmoveParams(AntagonisticParams):
    """Parameters of :class:`Qbmove`; defaults: Mengacci et al., 2021, and qbMove data sheet."""

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

    Here q is the joint angle, :math:`\sigma` the stiffness, :math:`k_i` the torque scale of spring
    i and :math:`a_i` its exponent. The motor angles are :math:`\theta_{1,2} = \theta_{eq} \pm p`
    with the equilibrium angle and the preset p. sat limits the deflection of a spring. With equal
    springs, :math:`\tau_{link} = 2 k \cosh(a p) \sinh(a (\theta_{eq} - q))`. With unequal springs,
    the unloaded joint does not rest at :math:`\theta_{eq}`.
    """

    Params = QbmoveParams
    is_antagonistic = True
    identified = ("a_1", "k_1", "a_2", "k_2")
    source = (
        "Della Santina et al., The quest for natural machine motion, 2017; defaults of Mengacci "
        "et al., 2021"
    )

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the torques of both springs on the motors, and their sum on the link."""
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


@dataclass(frozen=True)
class BavsParams(AntagonisticParams):
    """Parameters of :class:`Bavs`, with defaults of Mengacci et al., 2021."""

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

    Here :math:`\theta_i` are the motor angles, q is the joint angle, k the torque scale and c the
    exponent. sat limits the deflection of a spring. The factors for pushing (a) and pulling (b)
    differ, so the motors exert opposing torques even at preset 0.
    """

    Params = BavsParams
    is_antagonistic = True
    # Motions determine only the products k a and k b, so a and b are identified for a fixed k.
    identified = ("a", "b", "exponent")
    source = (
        "Petit, Friedl, Höppner and Grebenstein, Analysis and synthesis of the bidirectional "
        "antagonistic variable stiffness mechanism, 2015; defaults of Mengacci et al., 2021"
    )

    def on_parameters(self) -> None:
        # Torque scales of the pushing and the pulling flank [Nm].
        self._a, self._b = self.of["k"] * self.of["a"], self.of["k"] * self.of["b"]

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the torques of both springs on the motors, and their sum on the link."""
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


@dataclass(frozen=True)
class Awas2Params(PresetParams):
    """Parameters of :class:`Awas2`, with defaults of Mengacci et al., 2021."""

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
    r"""Lever actuator: one motor drives the joint, another moves a pivot to set its stiffness.

    .. math::
        \tau_{link} = \tau_1 = \tfrac{c(s)}{2} \sin 2 d, \qquad d = \mathrm{sat}(\phi), \qquad
        \phi = \theta_1 - q

    .. math::
        c(s) = 2 K_s \left(\frac{L}{r_t} \frac{s}{L - s}\right)^2, \qquad \sigma = c \cos 2 d .

    Here :math:`\theta_1` is the motor angle, q the joint angle and :math:`\sigma` the stiffness.
    sat limits the deflection :math:`\phi`. :math:`K_s`, L and :math:`r_t` are the parameters
    ``spring_stiffness``, ``lever`` and ``radius``. The pivot position :math:`s = \theta_2` [m] is
    between its stops ``preset_low`` and ``preset_high``. The force on the pivot is
    :math:`F_2 = \tfrac12 c'(s) \left(\sin^2 d + (\phi - d) \sin 2 d\right)` [N].
    """

    Params = Awas2Params
    preset_unit = "m"
    # Lever and radius are lengths that can be measured, so they are not identified from motions.
    identified = ("spring_stiffness",)
    source = "Jafari, Tsagarakis and Caldwell, AwAS-II, 2011; defaults of Mengacci et al., 2021"

    def on_parameters(self) -> None:
        """Reject a maximum preset at which the pivot reaches the end of the lever."""
        lever = self._lever = self.of["lever"]
        high = self.preset_high
        for joint in np.flatnonzero(high >= lever):
            raise self.rejected(
                f"preset_high of joint {joint + 1}: got {high[joint]:g} m, allowed less than the "
                f"lever length {lever[joint]:g} m"
            )
        self._scale = 2.0 * self.of["spring_stiffness"] * np.square(lever / self.of["radius"])

    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the torque on link and first motor, and the force on the pivot motor."""
        s = np.minimum(np.maximum(theta_2, self.preset_low), self.preset_high)
        phi = theta_1 - q
        d = np.minimum(np.maximum(phi, self._lower), self._limit)
        left = self._lever - s
        ratio, sine, cosine = s / left, np.sin(d), np.cos(d)
        push = self._scale * ratio * sine
        torque = push * ratio * cosine
        rise = self._lever / left / left
        # The terms below are needed only for a pivot beyond a stop, which is rare. Comparing
        # bytes is faster than always computing them.
        if s.tobytes() != theta_2.tobytes():
            # A pivot beyond its stop rests on the stop, so its motor carries no force.
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
