# SPDX-License-Identifier: Apache-2.0
"""Impedance and force control of one arm, with a tank for each."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.bearable_share import BearableShare
from multipanda_py.control.cartesian_spring import CartesianSpring
from multipanda_py.control.energy_notice import EnergyNotice
from multipanda_py.control.energy_tank import SpringTank
from multipanda_py.control.force_control import ForceController, ForceGains
from multipanda_py.control.force_subspace import ForceSubspace
from multipanda_py.control.lost_modes import LostModes
from multipanda_py.control.singularity_guard import SingularityGuard
from multipanda_py.control.speed_margin import FAST, SpeedMargin
from multipanda_py.handover import tool_wrench
from multipanda_py.state import ArmState, Matrix, Vector

_dot, _add, _multiply = np.dot, np.add, np.multiply

LEAST_MOBILITY = 0.02
"""Inverse of the largest mass that damping along a force is made for [1/kg]."""
MASS_CYCLES = 16
"""Cycles in which the effective mass along a force hardly changes."""


class ForceImpedanceArm:
    """Spring, force controller and tanks of one arm.

    Args:
        context: Of the law.
        place: Of the arm among the law's.
        gains: Of the force part.

    Attributes:
        spring: The impedance.
        force: The force part, with its tank.
        tank: Of the impedance.
        subspace: The directions that the force part has for itself.
        borne: Share of the spring's wrench that torque limits leave.
        load: Wrench that is fed forward for good along the axes of the base, (6,) [N, Nm].
        carries: Whether there is one.

    Thread: control.
    """

    def __init__(self, context: Context, place: int, gains: ForceGains) -> None:
        self._context, self._period = context, context.period
        self._name = context.arms[place].name
        arm = context.arms[place]
        self._bearable, self._margin = BearableShare(arm), SpeedMargin(arm.limits)
        self._lost, self.borne = LostModes(), 1.0
        self._guard = SingularityGuard(arm, context.period)
        self.force = ForceController(gains, context.period)
        self.tank = SpringTank(context.period)
        self.subspace = ForceSubspace(context.period)
        self._direction, self._size = np.zeros(6), 0.0
        self._contact_point, self._mass, self._age = np.zeros(3), 0.0, 0
        # Rows: spring, damper, force.
        n = context.arms[place].n_joints
        self._wrenches, self._torques = np.zeros((3, 6)), np.zeros((3, n))
        self._of_spring, self._of_brake, self._of_force = self._wrenches
        self.spring = CartesianSpring(self._of_brake)
        self._impedance, self._turned = self._wrenches[:2], np.zeros((2, 6))
        self._works, self._ones = np.zeros(3), np.ones(3)
        self._dq, self._mean = np.zeros(n), np.zeros(n)
        self.load, self.carries, self._carrying = np.zeros(6), False, np.zeros(n)
        self._energy, self._scale = EnergyNotice(context.notify), 1.0
        self._has_said_lost = self._has_said_held = False

    def start(self, state: ArmState, energy: float) -> None:
        """Begin with a relaxed spring, no force, and a tank of some energy [J]."""
        self.force.reset()
        self.tank.reset()
        self._guard.reset()
        self.tank.grant(energy)
        self.subspace.reset()
        self._size = 0.0
        self.load[:], self.carries = 0.0, False
        self._direction[:] = self._torques[:] = self._of_force[:] = 0.0
        self._dq[:] = state.dq
        self._energy.forget()
        self._has_said_lost = self._has_said_held = False

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

    def hold(self, state: ArmState, tau: Vector) -> Vector:
        """Keep earlier torques (n,) along singular motions; return their wrench (6,)."""
        return tool_wrench(state, self._guard.resume(state, self.spring.stiffness_along, tau))

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
        works = self._torques.dot(self._mean, self._works)
        half = 0.5 * self._period
        of_spring, of_brake, of_force = [half * work for work in works.tolist()]
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
        """Write the torques (n,) [Nm] that take the arm to a pose."""
        self.settle(state.dq)
        spring, subspace = self.spring, self.subspace
        has_subspace = not subspace.is_idle
        if has_subspace:
            position, rotation = subspace.target(state, position, rotation, speed)
        spring.measure(state, position, rotation)
        turn, pull = spring.turn, spring.spring
        if has_subspace:
            subspace.relieve(pull, turn)
        twist = state.twist_ee_in_base
        motion = twist if turn is None else twist.dot(turn)
        stored = 0.5 * float(spring.error.dot(pull))
        scale = self.tank.soften(stored, float(pull.dot(motion)))
        _multiply(pull, scale, self._of_spring)
        if turn is not None:
            self._impedance[:] = self._impedance.dot(turn.T, self._turned)
        self._bound(state)
        if self._size or not self.force.is_idle:
            self._push(state, twist)
        self._wrenches.dot(state.jacobian, self._torques)
        self._ones.dot(self._torques, tau)
        if self.carries:
            _add(tau, self.load.dot(state.jacobian, self._carrying), tau)
        self._guard.add(state, spring.stiffness_along, tau)
        self._scale = scale
        limits = scale < 1.0 or self.force.is_throttled
        self._energy.look(limits, self.tank, self._name, self._energy_left)

    def _bound(self, state: ArmState) -> None:
        """Leave of the spring what joints can bear, and damp it as fast and lost ones need."""
        pull, brake, spring = self._of_spring, self._of_brake, self.spring
        self.borne = share = self._bearable.of(pull, state)
        if share < 1.0:
            _multiply(pull, share, pull)
        lost = None
        if state.operational_space().damping > 0.0:  # a direction is being lost
            lost = self._lost.damp(state, pull, spring.damping_along)
        margin = self._margin
        if (used := margin.used(state)) > FAST:
            _multiply(pull, margin.spring(used), pull)
            _multiply(brake, margin.damper(used, spring.ratio, spring.kept), brake)
        if lost is not None:
            _add(brake, lost, brake)

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
        measured = -float(u.dot(state.wrench_ext_in_base))
        pushed = force.step(self._size, measured, distance, float(u.dot(twist)), self._mass)
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
        if force.is_held_back != self._has_said_held:
            self._has_said_held = force.is_held_back
            if force.is_held_back:
                felt = max(measured, 0.0)
                self._context.notify(
                    f"{self._name}: presses with {felt:.1f} N of {self._size:.1f} N, and gives "
                    "all it may: something holds it, as collision_avoidance does where another "
                    "link is near what it presses on, or joint_limits"
                )

    def _energy_left(self) -> str:
        """Return what the tanks hold, and what helps."""
        return (
            f"impedance tank {self.tank.free:.2f} J and scale {self._scale:.2f}, "
            f"force tank {self.force.tank.energy:.2f} J; smaller steps, or more of tank_start "
            "or tank_power"
        )
