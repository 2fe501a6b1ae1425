# SPDX-License-Identifier: Apache-2.0
"""Unified force-impedance control."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.cartesian_gains import MAX_STIFFNESS, CartesianGains
from multipanda_py.control.cartesian_spring import CartesianSpring
from multipanda_py.control.energy_tank import SpringTank
from multipanda_py.control.force_control import ForceController, ForceGains
from multipanda_py.control.force_subspace import ForceSubspace
from multipanda_py.control.modal_damping import KEPT
from multipanda_py.controllet import Controllet
from multipanda_py.handover import Handover, share_of
from multipanda_py.parameters import number, vector
from multipanda_py.report import Report
from multipanda_py.state import JOINTS, ArmState, Matrix, Vector
from multipanda_py.targets import ForceTarget

_dot, _add, _multiply = np.dot, np.add, np.multiply


@dataclass(frozen=True, eq=False)
class ForceParams:
    """Gains of the force part; shared by the laws that control a force."""

    # Bounds: stable on contacts of 1e3 to 1e5 N/m on an arm that is late.
    kp: float = number(0.2, low=0, high=0.5, doc="proportional gain on the force error")
    ki: float = number(10.0, unit="1/s", low=0, high=15, doc="integral gain")
    kd: float = number(0.0, unit="s", low=0, high=5e-4, doc="derivative gain")
    filter_time: float = number(
        0.02, unit="s", low=0.02, high=0.03, doc="time constant of the force measurement"
    )
    integral_limit: float = number(20.0, unit="N", low=0, high=100, doc="of the integral part")
    contact_force: float = number(
        1.0, unit="N", low=0.01, high=50, doc="measured force from which contact counts as made"
    )
    approach_speed: float = number(
        0.01, unit="m/s", low=1e-4, high=0.03, doc="with which contact is looked for; bounds the "
        "peak of the impact, about F + v sqrt(k m); beyond 0.01 at most F / (4 sqrt(k m)) "
        "with k = 1e5 N/m",
    )  # fmt: skip
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
    tank_power: float = number(
        2.0, unit="W", low=0, high=100,
        doc="allowance of each tank that holds less than it was granted, for work on friction",
    )  # fmt: skip

    def gains(self) -> ForceGains:
        """Return what a force controller takes."""
        return ForceGains(
            self.kp, self.ki, self.kd, self.filter_time, self.integral_limit,
            self.contact_force, self.approach_speed, self.loss_distance, self.release_time,
            self.search_force, self.tank_gain, self.tank_max, self.tank_power,
            tank_low=TANK_LOW,
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
    tank_start: float = number(
        10.0, unit="J", low=0, high=1000,
        doc="what the tank of the impedance is granted at activation, at most tank_max",
    )  # fmt: skip


class _ArmLaw:
    """Spring, force controller and tanks of one arm."""

    def __init__(self, context: Context, place: int, gains: ForceGains) -> None:
        self._context, self._period = context, context.period
        self._name = context.arms[place].name
        self.spring = CartesianSpring()
        self.force = ForceController(gains, context.period)
        self.tank = SpringTank(context.period)
        self.subspace = ForceSubspace(context.period)
        self._direction, self._size = np.zeros(6), 0.0
        self._contact_point, self._mass, self._age = np.zeros(3), 0.0, 0
        # Rows: spring, damper, force.
        self._wrenches, self._torques = np.zeros((3, 6)), np.zeros((3, JOINTS))
        self._of_spring, self._of_brake, self._of_force = self._wrenches
        self._impedance, self._turned = self._wrenches[:2], np.zeros((2, 6))
        self._works, self._ones = np.zeros(3), np.ones(3)
        self._dq, self._mean = np.zeros(JOINTS), np.zeros(JOINTS)
        self.load, self.carries, self._carrying = np.zeros(6), False, np.zeros(JOINTS)
        self._has_said_energy = self._has_said_lost = False

    def start(self, state: ArmState, energy: float) -> None:
        """Begin with a relaxed spring, no force, and a tank of some energy [J]."""
        self.force.reset()
        self.tank.reset()
        self.tank.grant(energy)
        self.subspace.reset()
        self._size = 0.0
        self.load[:], self.carries = 0.0, False
        self._direction[:] = self._torques[:] = self._of_force[:] = 0.0
        self._dq[:] = state.dq
        self._has_said_energy = self._has_said_lost = False

    def aim(self, wrench: Vector, state: ArmState) -> None:
        """Control a wrench (6,) from now on [N, Nm]."""
        size = math.sqrt(float(_dot(wrench, wrench)))
        if size > 0.0:
            _multiply(wrench, 1.0 / size, self._direction)
            self.subspace.aim(self._direction)
            if self.force.is_idle:
                self._contact_point[:] = state.position_ee_in_base
            self._age = 0
        self.force.is_controlled = True
        self.force.grant(size)
        self._size = size

    def resume(self, state: ArmState, force: Vector) -> None:
        """Go on with a force (6,) that is there already [N], uncontrolled, beside the spring."""
        size = math.sqrt(float(_dot(force, force)))
        _multiply(force, 1.0 / size, self._direction)
        self._contact_point[:] = state.position_ee_in_base
        self.force.resume(size, False)
        self._size, self._age = size, 0

    def settle(self, dq: Vector) -> None:
        """Book what spring, damper and force did in the last cycle [J]."""
        _add(self._dq, dq, self._mean)
        self._dq[:] = dq
        works = _dot(self._torques, self._mean, self._works)
        half = 0.5 * self._period
        of_spring, of_brake, of_force = (half * work for work in works.tolist())
        tank, other = self.tank, self.force.tank
        over, other_over = tank.settle(of_spring, tank.held), other.settle(of_force)
        # What dampers and full tanks have to give goes where it is missed most.
        income = over + other_over - of_brake
        if other.missing > tank.missing:
            tank.receive(other.receive(income), tank.held)
        else:
            other.receive(tank.receive(income, tank.held))

    def update(
        self, state: ArmState, position: Vector, rotation: Matrix, speed: float, tau: Vector
    ) -> None:
        """Write the torques (7,) [Nm] that take the arm to a pose."""
        self.settle(state.dq)
        spring, subspace, turn = self.spring, self.subspace, self.spring.turn
        has_subspace = not subspace.is_idle
        if has_subspace:
            position, rotation = subspace.target(state, position, rotation, speed)
        spring.measure(state, position, rotation)
        turn, pull = spring.turn, spring.spring
        if has_subspace:
            subspace.relieve(pull, turn)
        twist = state.twist_ee_in_base
        motion = twist if turn is None else _dot(twist, turn)
        stored = 0.5 * float(_dot(spring.error, pull))
        scale = self.tank.soften(stored, float(_dot(pull, motion)))
        _multiply(pull, scale, self._of_spring)
        self._of_brake[:] = spring.damper
        if turn is not None:
            self._impedance[:] = _dot(self._impedance, turn.T, self._turned)
        if self._size or not self.force.is_idle:
            self._push(state, twist)
        _dot(self._wrenches, state.jacobian, self._torques)
        _dot(self._ones, self._torques, tau)
        if self.carries:
            _add(tau, _dot(self.load, state.jacobian, self._carrying), tau)
        if scale < 1.0 or self.force.is_throttled:
            self._say_energy(scale)
        elif self._has_said_energy:
            self._has_said_energy = self.tank.missing > 0.5 * self.tank.granted

    def _push(self, state: ArmState, twist: Vector) -> None:
        """Control the force."""
        force, u = self.force, self._direction
        if force.touching:
            self._contact_point[:] = state.position_ee_in_base
            distance = 0.0
        else:
            away = state.position_ee_in_base - self._contact_point
            # Sideways, only a tool that has lost a contact goes away from it.
            squared = _dot(away, away) if force.touched else _dot(u[:3], away) ** 2
            distance = math.sqrt(float(squared))
        if not self._age:
            inertia_inv = state.operational_space().inertia_inv
            self._mass = 1.0 / max(float(_dot(u, _dot(inertia_inv, u))), LEAST_MOBILITY)
        self._age = (self._age + 1) % MASS_CYCLES
        measured = -float(_dot(u, state.wrench_ext_in_base))
        pushed = force.step(self._size, measured, distance, float(_dot(u, twist)), self._mass)
        _multiply(u, pushed, self._of_force)
        if force.is_idle:
            self.subspace.release()
        if force.is_lost != self._has_said_lost:
            self._has_said_lost = force.is_lost
            if force.is_lost:
                self._context.notify(
                    f"{self._name}: no contact found within {distance:.3f} m for a force of "
                    f"{self._size:.1f} N; ask for it again, nearer"
                )

    def _say_energy(self, scale: float) -> None:
        """Report that a tank limits, once until it has recovered."""
        if self._has_said_energy:
            return
        self._has_said_energy = True
        self._context.notify(
            f"{self._name}: out of energy: impedance tank {self.tank.free:.2f} J and scale "
            f"{scale:.2f}, force tank {self.force.tank.energy:.2f} J; smaller steps, or more of "
            "tank_start or tank_power"
        )


LEAST_MOBILITY = 0.02
"""Inverse of the largest mass that damping along a force is made for [1/kg]."""
MASS_CYCLES = 16
"""Cycles in which the effective mass along a force hardly changes."""


class ForceImpedance(Controllet[ForceTarget, ForceImpedanceParams]):
    r"""Add closed-loop force control to an impedance, with a tank for each.

    .. math::
        \tau = J^T \left( (1 + \alpha_i) P K_c P \tilde x - D_c \dot x + F u \right)

    (multipanda_ros2, section IV, eq. 4). The wrench target sets the direction
    :math:`u = F_d / \|F_d\|` and the size of the force that the tool exerts on the world;
    across it the impedance acts alone, along it force control alone:
    :class:`~multipanda_py.control.force_subspace.ForceSubspace` takes the spring out with
    :math:`P = I - u u^T` and brings it back in relaxed when the force is withdrawn. Force part
    F and its tank: :class:`.ForceController`; impedance tank and
    :math:`x'_d = x_d + \alpha_i (x_d - x)`: :class:`.SpringTank`.

    Every cycle the work that the torques of spring, damper and force have done is booked,
    :math:`W = \tau_k^T (\dot q_k + \dot q_{k+1}) T / 2`; what the dampers took and what overflows
    from one tank goes where more is missing. So the work of all three together never exceeds
    what both tanks were granted, plus the allowance ``tank_power`` of each over time. A tank
    that limits is reported as an event.

    A target has no velocity: a damper with a moving reference is a motor. With the acceleration
    and Coriolis terms of eq. 1 left out, as eq. 2 and the paper's code do; the sign is that of
    :math:`\tilde x = x_d - x` in eq. 1.
    """

    Params, Target = ForceImpedanceParams, ForceTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    touches = ("things",)
    report_names = (
        Report("force", "N", "that the tool presses with"),
        Report("force error", "N", "of what is asked for"),
        Report("contact", "-", "1 while there is contact"),
        Report("weight", "-", "of the force part"),
        Report("force tank", "J", "energy that the force part may still spend"),
        Report("impedance tank", "J", "energy that the impedance may still spend"),
        Report("impedance scale", "-", "share of the impedance that the tank allows"),
        KEPT,
    )

    def __init__(self, context: Context, params: ForceImpedanceParams) -> None:
        gains = params.gains()
        self._arms = [_ArmLaw(context, place, gains) for place in range(context.n_arms)]
        self._states: Sequence[ArmState] = ()
        self._running = False
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand the gains over: at once at rest, else spread over ``gain_time``."""
        p = self.params
        cycles = round(p.gain_time / self.context.period) if self._running else 0
        for arm in self._arms:
            arm.spring.set_shape(p.damping_ratio, p.error_clip, p.gain_frame == "tool")
            arm.spring.set_stiffness(p.stiffness, cycles)
            arm.force.set_gains(p.gains())
            arm.tank.limit, arm.tank.power = p.tank_max, p.tank_power

    def on_activate(self, states: Sequence[ArmState], target: ForceTarget) -> None:
        """Hold the measured pose with no force."""
        target.seed(states)
        self._running = False
        self.on_parameters()
        self._running = True
        self._states = states
        for arm, state in zip(self._arms, states):
            arm.start(state, self.params.tank_start)

    def on_handover(
        self, states: Sequence[ArmState], target: ForceTarget, handovers: Sequence[Handover]
    ) -> str:
        """Go on with the force of a contact, until a wrench is asked for; springs take the rest.

        The force is fed forward and fades as on a lost contact. It is not controlled: two arms
        that hold something by their springs would push it about. What is carried unfelt, as a
        payload that was tared, is fed forward for good: a force that is controlled takes the
        spring away that would carry it. It is constant, so what it does on a way it takes back.
        """
        words = []
        for place, (state, handover) in enumerate(zip(states, handovers)):
            wrench, rest = target.wrench_in_base[place], handover.wrench_in_base.copy()
            if handover.contact_force > self.params.contact_force:
                wrench[:3] = handover.contact_in_base[:3]
                self._arms[place].resume(state, wrench)
                rest -= wrench
            load = self._arms[place].load
            load[:3] = handover.wrench_in_base[:3] - handover.contact_in_base[:3]
            self._arms[place].carries = bool(load.any())
            rest -= load
            error, share = self._arms[place].spring.error_for(state, rest)
            target.displace(place, error)
            reached = handover.wrench_in_base - (1.0 - share) * rest
            share = share_of(reached, handover.wrench_in_base)
            words.append(handover.words(state.name, share))
        return "; ".join(filter(None, words))

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
            arm.aim(target.wrench_in_base[place], self._states[place])

    def update(self, states: Sequence[ArmState], target: ForceTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        speed = self.params.approach_speed
        for place, arm in enumerate(self._arms):
            arm.update(
                states[place], target.position_ee_in_base[place],
                target.rotation_ee_in_base[place], speed, self.tau[place],
            )  # fmt: skip
        self._report()

    def _report(self) -> None:
        """Report on the first arm."""
        arm, report = self._arms[0], self.report
        force = arm.force
        report[0], report[1] = force.measured, force.error
        report[2], report[3] = force.contact, force.weight
        report[4], report[5], report[6] = force.tank.energy, arm.tank.free, arm.tank.scale
        report[7] = min([arm.spring.kept for arm in self._arms])
