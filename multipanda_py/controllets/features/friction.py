# SPDX-License-Identifier: Apache-2.0
"""Compensation of joint friction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import JointVector, choice, joint_vector, number
from multipanda_py.robots.robot import FIGURES
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

_multiply, _subtract, _add = np.multiply, np.subtract, np.add
_exp, _divide, _sign = np.exp, np.divide, np.sign
_minimum, _maximum = np.minimum, np.maximum


@dataclass(frozen=True, eq=False)
class FrictionParams:
    """Model of :class:`Friction`."""

    model: str = choice(
        "identified",
        options=("identified", "custom"),
        doc="the values of the robot's data, or phi_1 to phi_3 below",
    )
    share: float = number(
        0.9, low=0, high=0.95,
        doc="of the friction that is compensated; what is asked grows by up to 1 / (1 - share)",
    )  # fmt: skip
    phi_1: JointVector = joint_vector(
        FIGURES[0], unit="Nm", low=0, high=20, doc="height of the step"
    )
    phi_2: JointVector = joint_vector(
        FIGURES[1], unit="s/rad", low=0, high=100, doc="steepness of the step"
    )
    phi_3: JointVector = joint_vector(
        FIGURES[2], unit="rad/s", low=-1, high=1, doc="offset of the step"
    )
    viscous: JointVector = joint_vector(
        0.0,
        unit="Nm s/rad",
        low=0,
        high=20,
        doc="viscous friction, beyond that of an identified model",
    )
    dead_zone: JointVector = joint_vector(
        0.5, unit="Nm", low=0, high=20,
        doc="external torque that is no push: offset and noise of its estimate",
    )  # fmt: skip


class _Compensation:
    """Friction model of one arm's joints."""

    def __init__(self, joints: int) -> None:
        self._tau, self._viscous = np.zeros(joints), np.zeros(joints)
        self._drive, self._push, self._way = (np.zeros(joints) for _ in range(3))

    def set(self, share: float, phi: Sequence[Vector], viscous: Vector, dead_zone: Vector) -> None:
        """Prepare the sigmoid's constants, with the share in them."""
        phi_1, phi_2, phi_3 = phi
        self._height = share * phi_1
        self._steepness = -phi_2
        self._shift = -phi_2 * phi_3
        self._at_rest = self._height / (1.0 + np.exp(self._shift))
        self._slope = share * viscous
        self._gain = share / (1.0 - share)
        self._zone, self._zone_low = dead_zone, -dead_zone

    def add(self, state: ArmState, torque: Vector) -> None:
        """Add the expected friction, as far as something drives the joints."""
        part, viscous, way = self._tau, self._viscous, self._way
        _add(_multiply(state.dq, self._steepness, part), self._shift, part)
        _divide(self._height, _add(_exp(part, part), 1.0, part), part)
        _subtract(part, self._at_rest, part)
        _add(part, _multiply(state.dq, self._slope, viscous), part)
        _sign(state.dq, way)
        _multiply(part, way, part)
        _minimum(part, self._bound(state, torque, way), out=part)
        _add(torque, _multiply(part, way, part), torque)

    def _bound(self, state: ArmState, torque: Vector, way: Vector) -> Vector:
        """Return the most that may be added along the motion, (n,) [Nm]."""
        drive, push = self._drive, self._push
        _minimum(state.tau_ext, self._zone, out=push)
        _maximum(push, self._zone_low, out=push)
        _subtract(state.tau_ext, push, push)
        _multiply(_add(torque, push, drive), way, drive)
        # Whether Coriolis torques are in the torque is not known: the lesser of both readings.
        _minimum(drive, _subtract(drive, _multiply(state.coriolis, way, push), push), out=drive)
        _maximum(drive, 0.0, out=drive)
        return _multiply(drive, self._gain, drive)


class Friction(Feature[FrictionParams]):
    r"""Add the torque that joint friction is expected to take away from what drives a joint.

    .. math::
        \hat\tau_f = \alpha \left( \frac{\varphi_1}{1 + e^{-\varphi_2 (\dot q + \varphi_3)}}
        - \frac{\varphi_1}{1 + e^{-\varphi_2 \varphi_3}} + \varphi_v \dot q \right), \qquad
        \tau = \mathrm{sgn}(\dot q) \min\!\left( |\hat\tau_f|,
        \frac{\alpha}{1 - \alpha} \max(\mathrm{sgn}(\dot q)\, \tau_a, 0) \right)

    A sigmoid of the measured velocity stands for Coulomb friction, without a step at rest; it
    is zero there. :math:`\tau_a` is what drives the joint: the torque of the law and of the
    features before this one, and the external torque beyond its dead zone. In steady motion
    :math:`\tau_a + \tau = \tau_f`: with the right model the bound is :math:`\tau` itself, and
    with one that promises too much it is that share of the real friction. So compensation
    helps who moves the arm, a law or a hand, and never moves it alone: nothing is added where
    nothing drives, nor where the law brakes, and its power is at most
    :math:`\alpha / (1 - \alpha)` times the power asked for. An arm that is let go of comes to
    rest by its own friction, however much is promised. A swinging spring without damping
    gains energy only if more than twice the friction is promised, as it is helped half of the
    way.

    Limits: a hand that pushes less than the dead zone gets no help, braking none either, and
    an offset of the external torque beyond the dead zone (an unknown load) is taken for a push.
    Coriolis torques, compensated or not, are not taken for a drive. A posture that nothing damps
    swings where more than twice the friction is promised: laws with a nullspace are refused
    without the feature of that name.

    Source: Gaz, Cognetti, Oliva, Robuffo Giordano and De Luca, IEEE RA-L 2019 (model, and
    values of a Panda, which Franka arms begin with; an FR3 needs its own for a high share).
    """

    Params = FrictionParams

    def __init__(self, context: Context, params: FrictionParams) -> None:
        self._arms = [_Compensation(arm.n_joints) for arm in context.arms]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand the models over."""
        p, per_arm = self.params, self.context.per_arm
        promised = zip(per_arm(p.phi_1), per_arm(p.phi_2), per_arm(p.phi_3))
        losses = list(per_arm(p.viscous))
        if p.model == "identified":
            robots = [arm.robot for arm in self.context.arms]
            promised = zip(*([np.array(r.figure(name)) for r in robots] for name in FIGURES))
            losses = [own + r.damping for own, r in zip(losses, robots)]
        zones = per_arm(p.dead_zone)
        for own, phi, viscous, zone in zip(self._arms, promised, losses, zones):
            own.set(p.share, phi, viscous, zone)

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the expected friction of every arm, as far as something drives its joints."""
        for own, state, torque in zip(self._arms, states, tau):
            own.add(state, torque)
