# SPDX-License-Identifier: Apache-2.0
"""Admittance control around a stiff impedance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context, Handover, bounded_error
from multipanda_py.control.force.virtual_mass import VirtualBody, length
from multipanda_py.control.impedance.gains import MAX_STIFFNESS
from multipanda_py.control.impedance.limit_scaling import BORNE
from multipanda_py.control.impedance.modal_damping import KEPT
from multipanda_py.controllet import Controllet
from multipanda_py.controllets.cartesian_impedance import (
    CartesianImpedance,
    CartesianImpedanceParams,
)
from multipanda_py.parameters import number, vector
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import CartesianTarget, Report

_dot, _add = np.dot, np.add


@dataclass(frozen=True, eq=False)
class AdmittanceParams:
    """The virtual body of :class:`Admittance`, its bounds, and how the arm follows it."""

    mass: Vector = vector(
        4, 4, 4, unit="kg", low=0.5, high=100, doc="virtual mass along the axes of the base"
    )
    inertia: Vector = vector(
        0.2, 0.2, 0.2, unit="kg m^2", low=0.02, high=10, doc="virtual inertia about those axes"
    )
    stiffness: Vector = vector(
        200, 200, 200, 10, 10, 10, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="virtual spring to the target; zero lets go",
    )  # fmt: skip
    damping: Vector = vector(
        100, 100, 100, 6, 6, 6, unit="N s/m, Nm s/rad", low=0, high=(5000,) * 3 + (300,) * 3,
        doc="virtual damper; too little is unstable in contact, see the law",
    )  # fmt: skip
    inner_stiffness: Vector = vector(
        1000, 1000, 1000, 50, 50, 50,
        unit="N/m, Nm/rad", low=(10,) * 3 + (1,) * 3, high=MAX_STIFFNESS,
        doc="of the impedance by which the arm follows the virtual body",
    )  # fmt: skip
    max_force: float = number(
        60.0, unit="N", low=5, high=200,
        doc="with which the tool is drawn to the virtual body along each axis at most",
    )  # fmt: skip
    max_torque: float = number(16.0, unit="Nm", low=1, high=40, doc="the same about each axis")
    wrench_time: float = number(
        0.01, unit="s", low=0, high=1, doc="time constant of the measured wrench's low-pass"
    )
    tare_time: float = number(
        0.1, unit="s", low=0, high=5,
        doc="the wrench averaged over this time after activation counts as zero; 0 takes none",
    )  # fmt: skip
    max_tare_force: float = number(
        5.0,
        unit="N",
        low=0,
        high=50,
        doc="largest force that may count as zero; more is a contact",
    )
    max_tare_torque: float = number(
        1.0, unit="Nm", low=0, high=10, doc="largest torque that may count as zero"
    )
    force_deadband: float = number(
        1.0, unit="N", low=0, high=50, doc="taken off the size of the measured force"
    )
    torque_deadband: float = number(
        0.2, unit="Nm", low=0, high=10, doc="taken off the size of the measured torque"
    )
    max_displacement: float = number(
        0.3, unit="m", low=0, high=1, doc="largest distance from the target"
    )
    max_rotation: float = number(
        1.0, unit="rad", low=0, high=2.5, doc="largest angle from the target"
    )
    max_speed: float = number(0.3, unit="m/s", low=0.001, high=1.5, doc="largest virtual speed")
    max_turn: float = number(
        1.0, unit="rad/s", low=0.001, high=2.5, doc="largest virtual angular speed"
    )


class Admittance(Controllet[CartesianTarget, AdmittanceParams]):
    r"""Move the tool as a virtual mass, spring and damper would under the measured wrench.

    .. math::
        M \ddot\delta + D \dot\delta + K \delta = F_{ext}, \qquad
        p_c = p_d + \delta_p, \quad R_c = \exp([\delta_\phi]_\times)\, R_d

    A stiffer :class:`.CartesianImpedance` draws
    the tool to :math:`p_c, R_c`. Translation and rotation are integrated apart and about the
    fixed axes of the base, see :class:`.VirtualBody`: a pure rotation
    leaves the tool's point where it is. Displacement and speed are bounded, and the integration
    stops at the bounds.

    The wrench is the arm's estimate at the tool's point. Its mean over ``tare_time`` after
    activation is taken off as far as it may be a bias, it is low-passed, and a smooth deadband
    keeps the virtual body at rest under what is left of noise and bias. Near a singular
    configuration, only :math:`\Lambda_d \Lambda^{-1} F` of it counts. Along the singular direction
    the estimate divides errors of joint torques by nearly zero. The static displacement
    of the target is :math:`K^{-1} (F - F_{deadband})`; the tool gives way by
    :math:`K_i^{-1} F` beyond it.

    The inner law's error is clipped to what ``max_force`` and ``max_torque`` belong to, by default
    as hard as an impedance of default gains pulls at its own clip. So a wall feels no more than
    that from a target that goes on behind it, and the impact; the stiff inner law would press
    with 150 N before the virtual body has given way. Where joints bear less in a posture,
    it is less. In free space it bounds how fast the tool
    can be drawn along, to about 0.5 m/s.

    A wrench that the arm withstood before the activation goes on: the inner law keeps up the
    force, the virtual body does not feel it, and the target is the measured pose. As that wrench
    goes away, so does the force against it, which does not come back; the tool ends where it was.

    Stability. The estimate contains all that the environment does to the arm, so also its
    reaction to the push of the inner law. Along one axis, with apparent mass :math:`\Lambda`,
    inner gains :math:`K_i` and :math:`D_i = 2 \sqrt{\Lambda K_i}`, an undamped contact of
    stiffness :math:`K_e` and the low-pass time T, the motion is stable if all roots of

    .. math::
        (\Lambda s^2 + D_i s + K_i + K_e)(M s^2 + D s + K)(T s + 1) + K_e K_i = 0

    have negative real parts. For T = 0 the criterion of Routh gives a condition that is enough
    for contacts of any stiffness:

    .. math::
        D \left( D - \tfrac12 \sqrt{\Lambda K_i} \right) \ge K_i M

    so a stiffer inner law and a heavier virtual body both need more damping. The defaults are
    stable against any contact up to an apparent mass of 30 kg and 1.5 kg m^2, low-pass and one
    cycle of delay included; damping in the contact adds to that. For the same reason the inner
    law is not told the virtual velocity: with it, a virtual mass below the real one is unstable
    against stiff contacts whatever the damping. Sources: Hogan 1985 (impedance and admittance);
    Colgate and Hogan, Int. J. Control 1988 (stability in contact).

    Attributes:
        inner: Cartesian impedance that draws the tools to :math:`p_c, R_c`.
    """

    Params, Target = AdmittanceParams, CartesianTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    for_features = ("joint",)
    touches = ("things",)
    report_names = (
        Report("displacement", "m", "of the tool from its target"),
        Report("rotation", "rad", "of the tool from its target"),
        Report("force", "N", "that the tool feels"),
        Report("torque", "Nm", "that the tool feels"),
        KEPT,
        BORNE,
    )

    def __init__(self, context: Context, params: AdmittanceParams) -> None:
        self._bodies = [VirtualBody(context.period) for _ in context.arms]
        self.inner = CartesianImpedance(context, _inner_params(params))
        self._place = CartesianImpedance.Target(context.n_arms, n_joints=context.joints)
        self._loads = [np.zeros(6) for _ in context.arms]
        self._compliances = [np.zeros((6, 6)) for _ in context.arms]
        self._carries = [False] * context.n_arms
        super().__init__(context, params)
        self.tau = self.inner.tau

    def on_parameters(self) -> None:
        """Hand the gains to the virtual bodies and to the inner law."""
        p = self.params
        for body in self._bodies:
            body.set_gains(np.concatenate([p.mass, p.inertia]), p.damping, p.stiffness)
            body.set_bounds((p.max_displacement, p.max_rotation), (p.max_speed, p.max_turn))
            body.set_filter(p.wrench_time, (p.force_deadband, p.torque_deadband))
        inner, old = _inner_params(p), self.inner.params
        if not (
            np.array_equal(inner.stiffness, old.stiffness)
            and np.array_equal(inner.error_clip, old.error_clip)
        ):
            self.inner.params = inner
            self.inner.on_parameters()

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Hold the measured pose, with the virtual body at rest on it."""
        target.seed(states)
        self.inner.on_activate(states, self._place)
        p = self.params
        for body in self._bodies:
            body.rest(p.tare_time, (p.max_tare_force, p.max_tare_torque))
        self._carries = [False] * len(states)

    def on_handover(
        self, states: Sequence[ArmState], target: CartesianTarget, handovers: Sequence[Handover]
    ) -> str:
        """Withstand what the arms withstood, for as long as it is there.

        What of it is not felt, such as a payload that was tared, stays.
        """
        for arm, (state, handover) in enumerate(zip(states, handovers)):
            self._bodies[arm].withstand(-handover.contact_in_base)
            rest = handover.wrench_in_base - handover.contact_in_base
            self._loads[arm][:] = rest - self.inner.hold(arm, state, handover.tau)
            self._compliances[arm][:] = self.inner.compliance(arm, state)
            self._carries[arm] = handover.matters
        words = (h.words(state.name, 1.0) for state, h in zip(states, handovers))
        return "; ".join(filter(None, words))

    def on_deactivate(self) -> None:
        """Let the inner law forget, too."""
        self.inner.on_deactivate()

    def update(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Move the virtual bodies on, and write the torques that make the arms follow them."""
        place = self._place
        for arm, state in enumerate(states):
            body = self._bodies[arm]
            body.step(_observed(state))
            _add(target.position_ee_in_base[arm], body.translation, place.position_ee_in_base[arm])
            _dot(body.turn, target.rotation_ee_in_base[arm], place.rotation_ee_in_base[arm])
            if self._carries[arm]:
                error = _dot(self._compliances[arm], self._loads[arm] - body.withstood)
                bounded_error(error, self.inner.params.error_clip)
                place.displace(arm, error)
        self.inner.update(states, place, period)
        body = self._bodies[0]
        self.report[:4] = [
            length(part)
            for part in (body.translation, body.rotation, body.wrench[:3], body.wrench[3:])
        ]
        self.report[4], self.softest = self.inner.kept, self.inner.softest
        self.report[5] = self.inner.report[1]


def _observed(state: ArmState) -> Vector:
    r"""Return the part :math:`\Lambda_d \Lambda^{-1} F` of the estimated wrench, (6,) [N, Nm].

    Along a singular direction, the structure of the arm bears forces. The estimate along it is an
    error of joint torques divided by nearly zero.
    """
    space, wrench = state.operational_space(), state.wrench_ext_in_base
    if space.damping == 0.0:
        return wrench
    observed: Vector = space.inertia.dot(space.inertia_inv.dot(wrench))
    return observed


def _inner_params(params: AdmittanceParams) -> CartesianImpedanceParams:
    """Return a spring that is as stiff as asked for, and pulls no harder than it may."""
    most = np.repeat((params.max_force, params.max_torque), 3) / params.inner_stiffness
    clip = np.minimum(most, CartesianImpedanceParams().error_clip)
    return CartesianImpedanceParams(stiffness=params.inner_stiffness, error_clip=clip)
