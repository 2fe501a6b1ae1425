# SPDX-License-Identifier: Apache-2.0
"""Unified force-impedance control."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.cartesian_gains import MAX_STIFFNESS, CartesianGains
from multipanda_py.cartesian_spring import CartesianSpring
from multipanda_py.context import Context
from multipanda_py.controllet import Controllet
from multipanda_py.energy_tank import SpringTank
from multipanda_py.force_control import ForceController, ForceGains
from multipanda_py.modal_damping import KEPT
from multipanda_py.parameters import number, vector
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import ForceTarget

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract


@dataclass(frozen=True, eq=False)
class ForceParams:
    """Gains of the force part; shared by the laws that control a force."""

    kp: float = number(0.2, low=0, high=5, doc="proportional gain on the force error")
    ki: float = number(10.0, unit="1/s", low=0, high=100, doc="integral gain")
    kd: float = number(0.0, unit="s", low=0, high=0.1, doc="derivative gain")
    filter_time: float = number(
        0.005, unit="s", low=0, high=1, doc="time constant of the force measurement"
    )
    integral_limit: float = number(20.0, unit="N", low=0, high=100, doc="of the integral part")
    contact_force: float = number(
        1.0, unit="N", low=0.01, high=50, doc="measured force from which contact counts as made"
    )
    loss_distance: float = number(
        0.05, unit="m", low=0.001, high=0.5, doc="d_max of the contact-loss shaping"
    )
    release_time: float = number(
        0.03, unit="s", low=0.001, high=10, doc="with which force fades when contact is lost"
    )
    search_force: float = number(
        1.5, unit="N", low=0, high=20, doc="that stays after contact was lost, to find it again"
    )
    tank_gain: float = number(
        200.0, low=0, high=1e4, doc="K_p of the initial tank energy K_p F_d^2 / 2"
    )
    tank_max: float = number(100.0, unit="J", low=0, high=1000, doc="upper limit of each tank")

    def gains(self) -> ForceGains:
        """Return what a force controller takes."""
        return ForceGains(
            self.kp, self.ki, self.kd, self.filter_time, self.integral_limit,
            self.contact_force, self.loss_distance, self.release_time, self.search_force,
            self.tank_gain, self.tank_max, tank_low=TANK_LOW,
        )  # fmt: skip


TANK_LOW = 0.05
"""Energy below which a tank lets out less and less [J]."""


@dataclass(frozen=True, eq=False)
class ForceImpedanceParams(ForceParams, CartesianGains):
    """Gains of :class:`ForceImpedance`; defaults of the impedance are the paper's."""

    stiffness: Vector = vector(
        100, 100, 50, 10, 10, 10, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="translational then rotational stiffness along the axes of gain_frame",
    )  # fmt: skip


class _ArmLaw:
    """Spring, force controller and tanks of one arm."""

    def __init__(self, context: Context, gains: ForceGains) -> None:
        self.spring = CartesianSpring()
        self.force = ForceController(gains, context.period)
        self.tank = SpringTank(context.period)
        self.contact_point = np.zeros(3)
        self.direction, self.wrench = np.zeros(6), np.zeros(6)
        self.size = 0.0


class ForceImpedance(Controllet[ForceTarget, ForceImpedanceParams]):
    r"""Add closed-loop force control to an impedance, with a tank for each.

    .. math::
        \tau = J^T \left( (1 + \alpha_i) K_c \tilde x - D_c \dot x + F'_f u \right), \qquad
        F'_f = (\gamma_f + \alpha_f (1 - \gamma_f)) F_f

    (multipanda_ros2, section IV, eq. 4). The wrench target sets the direction
    :math:`u = F_d / \|F_d\|` and the size of the force that the tool exerts on the world;
    across it the impedance acts alone, along it both act and the integral part takes up what
    the spring adds. Force part, contact-loss shaping and its tank:
    :class:`~multipanda_py.force_control.ForceController`; impedance tank and
    :math:`x'_d = x_d + \alpha_i (x_d - x)`: :class:`~multipanda_py.energy_tank.SpringTank`.
    Each tank is filled by half of what the damper dissipates, so that together they never hold
    more than was dissipated and granted.

    With the acceleration and Coriolis terms of eq. 1 left out, as eq. 2 and the paper's code
    do; the sign is that of :math:`\tilde x = x_d - x` in eq. 1.
    """

    Params, Target = ForceImpedanceParams, ForceTarget
    default_features = ("nullspace", "coriolis")
    report_names = (
        "force [N]", "force error [N]", "contact [-]", "weight [-]",
        "force tank [J]", "impedance tank [J]", "impedance scale [-]", KEPT,
    )  # fmt: skip

    def __init__(self, context: Context, params: ForceImpedanceParams) -> None:
        self._arms = [_ArmLaw(context, params.gains()) for _ in context.arms]
        self._running = False
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand the gains over: at once at rest, else spread over ``gain_time``."""
        p = self.params
        cycles = round(p.gain_time / self.context.period) if self._running else 0
        for arm in self._arms:
            arm.spring.set_shape(p.damping_ratio, p.error_clip, p.gain_frame == "tool")
            arm.spring.set_stiffness(p.stiffness, cycles)
            arm.force.gains = p.gains()

    def on_activate(self, states: Sequence[ArmState], target: ForceTarget) -> None:
        """Hold the measured pose with no force."""
        target.seed(states)
        self._running = False
        self.on_parameters()
        self._running = True
        for arm, state in zip(self._arms, states):
            arm.force.reset()
            arm.tank.reset(0.0)
            arm.size = 0.0
            arm.direction[:] = 0.0
            arm.contact_point[:] = state.position_ee_in_base

    def on_deactivate(self) -> None:
        """Let the next parameters take effect at once."""
        self._running = False

    def on_target(self, channel: str, place: int, target: ForceTarget) -> None:
        """Take a wrench or a stiffness over."""
        arm = self._arms[place]
        if channel == "stiffness":
            cycles = round(self.params.gain_time / self.context.period)
            arm.spring.set_stiffness(target.stiffness[place], cycles)
        elif channel == "wrench":
            self._aim(arm, target.wrench_in_base[place])

    def _aim(self, arm: _ArmLaw, wrench: Vector) -> None:
        arm.size = math.sqrt(float(_dot(wrench, wrench)))
        if arm.size > 0.0:
            _multiply(wrench, 1.0 / arm.size, arm.direction)
        before = arm.force.granted
        arm.force.grant(arm.size)
        # The paper gives both tanks the same initial energy.
        arm.tank.energy += arm.force.granted - before

    def update(self, states: Sequence[ArmState], target: ForceTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        for place, state in enumerate(states):
            arm = self._arms[place]
            spring, force = arm.spring, arm.force
            spring.measure(
                state, target.position_ee_in_base[place], target.rotation_ee_in_base[place]
            )
            twist, turn = state.twist_ee_in_base, spring.turn
            motion = twist if turn is None else _dot(twist, turn)
            dissipated = -0.5 * float(_dot(spring.brake, motion))
            scale = arm.tank.step(
                spring.error, spring.stiffness, spring.spring, motion, dissipated,
                self.params.tank_max,
            )  # fmt: skip
            wrench = _add(_multiply(spring.spring, scale, arm.wrench), spring.brake, arm.wrench)
            if turn is not None:
                wrench = _dot(turn, wrench)
            if force.touching:
                arm.contact_point[:] = state.position_ee_in_base
            away = state.position_ee_in_base - arm.contact_point
            pushed = force.step(
                arm.size,
                -float(_dot(arm.direction, state.wrench_ext_in_base)),
                math.sqrt(float(_dot(away, away))),
                float(_dot(arm.direction, twist)),
                dissipated,
            )
            _dot(wrench + pushed * arm.direction, state.jacobian, self.tau[place])
        self._report()

    def _report(self) -> None:
        """Report on the first arm."""
        arm, report = self._arms[0], self.report
        force: Any = arm.force
        report[0], report[1] = arm.size - force.error, force.error
        report[2], report[3] = force.contact, force.weight
        report[4], report[5], report[6] = force.energy, arm.tank.energy, arm.tank.scale
        report[7] = min([arm.spring.kept for arm in self._arms])
