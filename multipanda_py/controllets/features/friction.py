# SPDX-License-Identifier: Apache-2.0
"""Compensation of joint friction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add, divide, exp, maximum, minimum, multiply, sign, subtract

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import JointVector, choice, joint_vector, number
from multipanda_py.robots.robot import FIGURES
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target


@dataclass(frozen=True, eq=False)
class FrictionParams:
    """Parameters of ``Friction``: friction model and compensated fraction."""

    model: str = choice(
        "identified", options=("identified", "custom"),
        doc="identified: values of the robot's data; custom: phi_1 to phi_3",
    )  # fmt: skip
    scale: float = number(
        0.9, low=0, high=0.95,
        doc="compensated fraction of the friction; a torque that drives a joint grows by up to "
        "the factor 1 / (1 - scale)",
    )  # fmt: skip
    phi_1: JointVector = joint_vector(
        FIGURES[0], unit="Nm", low=0, high=20, doc="height of the friction step"
    )
    phi_2: JointVector = joint_vector(
        FIGURES[1], unit="s/rad", low=0, high=100, doc="steepness of the friction step"
    )
    phi_3: JointVector = joint_vector(
        FIGURES[2], unit="rad/s", low=-1, high=1, doc="velocity offset of the friction step"
    )
    viscous: JointVector = joint_vector(
        0.0, unit="Nm s/rad", low=0, high=20,
        doc="viscous friction in addition to that of an identified model",
    )  # fmt: skip
    dead_zone: JointVector = joint_vector(
        0.5, unit="Nm", low=0, high=20,
        doc="dead zone of the external torque, for offset and noise of its estimate",
    )  # fmt: skip


class _FrictionCompensation:
    def __init__(self, joints: int) -> None:
        self._tau, self._viscous = np.zeros(joints), np.zeros(joints)
        self._drive, self._push, self._direction = (np.zeros(joints) for _ in range(3))

    def set(
        self, fraction: float, phi: Sequence[Vector], viscous: Vector, dead_zone: Vector
    ) -> None:
        phi_1, phi_2, phi_3 = phi  # [Nm, s/rad, rad/s]
        self._height = fraction * phi_1
        self._steepness = -phi_2
        self._shift = -phi_2 * phi_3
        self._at_rest = self._height / (1.0 + np.exp(self._shift))
        self._slope = fraction * viscous
        self._gain = fraction / (1.0 - fraction)
        self._zone, self._zone_low = dead_zone, -dead_zone

    def add(self, state: ArmState, torque: Vector) -> None:
        part, viscous, direction = self._tau, self._viscous, self._direction
        add(multiply(state.dq, self._steepness, part), self._shift, part)
        divide(self._height, add(exp(part, part), 1.0, part), part)
        subtract(part, self._at_rest, part)
        add(part, multiply(state.dq, self._slope, viscous), part)
        sign(state.dq, direction)
        multiply(part, direction, part)
        minimum(part, self._max_compensation(state, torque, direction), out=part)
        add(torque, multiply(part, direction, part), torque)

    def _max_compensation(self, state: ArmState, torque: Vector, direction: Vector) -> Vector:
        """Return the maximum compensation torque along the motion, (n,) [Nm]."""
        drive, push = self._drive, self._push
        minimum(state.tau_ext, self._zone, out=push)
        maximum(push, self._zone_low, out=push)
        subtract(state.tau_ext, push, push)
        multiply(add(torque, push, drive), direction, drive)
        # ``torque`` may contain Coriolis torques, which do not count as driving torque. Use the
        # lower driving torque, with or without them.
        minimum(drive, subtract(drive, multiply(state.coriolis, direction, push), push), out=drive)
        maximum(drive, 0.0, out=drive)
        return multiply(drive, self._gain, drive)


class Friction(Feature[FrictionParams]):
    """Compensation of the expected joint friction, in proportion to the driving torque.

    Equations, per joint::

        tau_f = alpha (phi_1 / (1 + exp(-phi_2 (dq + phi_3)))
                       - phi_1 / (1 + exp(-phi_2 phi_3)) + phi_v dq)
        tau   = sign(dq) min(|tau_f|, alpha / (1 - alpha) max(sign(dq) tau_a, 0))

    - tau: Compensation torque [Nm]; tau_f: expected friction times alpha [Nm].
    - alpha: Compensated fraction ``scale``.
    - phi_1, phi_2, phi_3: Height [Nm], steepness [s/rad] and offset [rad/s] of the Coulomb step.
    - phi_v: Viscous friction [Nm s/rad].
    - dq: Measured joint velocity [rad/s].
    - tau_a: Driving torque [Nm]: sum of the torque of the controllet, of features before this one,
      and of the external torque above its dead zone.

    The bound by tau_a lets the compensation assist a controllet or an operator, but never move the
    arm alone.

    Limits: An external torque within the dead zone has no effect. An unmodelled payload above the
    dead zone counts as a push. If the modelled friction exceeds twice the real one, an undamped
    nullspace oscillates. Controllets with a nullspace therefore require the feature ``nullspace``.

    Source: Gaz, Cognetti, Oliva, Robuffo Giordano and De Luca, IEEE RA-L 2019 (model, and values
    of a Panda, the defaults of Franka arms). An FR3 needs identified values for a high fraction.
    """

    Params = FrictionParams

    def __init__(self, context: Context, params: FrictionParams) -> None:
        self._arms = [_FrictionCompensation(arm.n_joints) for arm in context.arms]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the friction models of all arms from the parameters."""
        p, per_arm = self.params, self.context.per_arm
        promised = zip(per_arm(p.phi_1), per_arm(p.phi_2), per_arm(p.phi_3))
        losses = list(per_arm(p.viscous))
        if p.model == "identified":
            robots = [arm.robot for arm in self.context.arms]
            promised = zip(*([np.array(r.value(name)) for r in robots] for name in FIGURES))
            losses = [own + r.damping for own, r in zip(losses, robots)]
        zones = per_arm(p.dead_zone)
        for own, phi, viscous, zone in zip(self._arms, promised, losses, zones):
            own.set(p.scale, phi, viscous, zone)

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the compensation torques of all arms."""
        for own, state, torque in zip(self._arms, states, tau):
            own.add(state, torque)
