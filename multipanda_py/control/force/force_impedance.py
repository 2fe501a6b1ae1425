# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance and force control of one arm, with an energy tank for each."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
from numpy import add, dot, multiply, subtract

from multipanda_py.context import Context, tool_wrench
from multipanda_py.control.force.energy_tank import SpringTank, TankLimitNotice
from multipanda_py.control.force.force_control import ForceController, ForceGains
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.limit_scaling import TorqueSaturation, VelocityLimitScaling
from multipanda_py.control.impedance.pose_error import PoseError, scale_by, sum_of
from multipanda_py.control.impedance.singularity import SingularityDamping, SingularityHold
from multipanda_py.state import ArmState, Matrix, Vector

_exp3 = pin.exp3


class ForceSubspace:
    """Projection that removes the part of a Cartesian spring along a controlled force.

    Equations::

        F = P K e'
        e' = P (e - r)
        P = I - w u u^T

    - u: Unit direction of the controlled force, (6,); 1 m is equivalent to 1 rad.
    - w: Weight, 0 to 1. With 1, the spring does not act along u.
    - K: Stiffness, (6, 6); e: error from the measured pose to the target, (6,) [m, rad].
    - e': Error on which the spring acts, (6,) [m, rad].
    - r: Offset of the target, (6,) [m, rad].
    - F: Wrench of the spring, (6,) [N, Nm].

    ``set_direction`` begins force control: w rises from 0 to 1 within ``FADE_TIME``. When the
    force ends or changes its direction, r becomes the error that P has removed, so the wrench of
    the spring does not jump. r then decreases at limited speed.

    Attributes:
        direction: Unit direction u, (6,).
        weight: Weight w.
        is_idle: True if the spring acts in all directions without offset.

    Thread: control.
    """

    FADE_TIME = 0.1
    """Time in which the spring fades out along a new direction [s]."""
    ROTATION = 0.2
    """Angle between old and new direction of the force [rad]. From this angle on, the spring acts
    in full first, and then fades out along the new direction."""
    ANGULAR_SPEED = 10.0
    """Rate at which the rotational offset of the setpoint decreases [rad/s] while its
    translational offset decreases at 1 m/s."""

    def __init__(self, period: float) -> None:
        self._period = period
        self.direction = np.zeros(6)
        self._error, self._hidden, self._offset = PoseError(), np.zeros(6), np.zeros(6)
        self._part, self._last_direction = np.zeros(6), np.zeros(6)
        self._rotation = np.zeros((3, 3))
        self._position = np.zeros(3)
        self.reset()

    def reset(self) -> None:
        """Let the spring act in all directions, and set the offset r of its target to zero."""
        self.weight = 0.0
        self.is_idle, self._is_requested = True, False
        self.direction[:] = self._offset[:] = self._hidden[:] = self._last_direction[:] = 0.0
        self._note()

    def set_direction(self, direction: Vector) -> None:
        """Begin to fade out the spring along a controlled force.

        Args:
            direction: Unit direction u of the force, (6,).
        """
        direction_change = subtract(direction, self.direction, self._part)
        angle = math.sqrt(dot(direction_change, direction_change))
        if angle > 1e-9:
            old = self.direction
            shown = float(dot(old, self._last_direction)) * float(dot(old, direction))
            self.weight = fraction = self.weight * max(0.0, 1.0 - angle / self.ROTATION)
            # The new projector P removes a part of the present spring error. The offset is changed
            # such that the error after P, and so the wrench, does not jump.
            shown *= fraction / (1.0 - fraction) if fraction < 1.0 else 0.0
            subtract(self._hidden, multiply(direction, shown, self._part), self._offset)
            old[:] = direction
            self._note()
        self.is_idle, self._is_requested = False, True

    def release(self) -> None:
        """End force control, without a jump of the spring wrench."""
        self._offset[:] = self._hidden
        self.weight, self._is_requested = 0.0, False
        self._note()

    def target(
        self, state: ArmState, position: Vector, rotation: Matrix, speed: float
    ) -> tuple[Vector, Matrix]:
        """Return the setpoint of the spring, and advance ``weight`` and the offset r by one cycle.

        Args:
            state: State of the arm.
            position: Target position, (3,) [m].
            rotation: Target rotation, (3, 3).
            speed: Speed at which r decreases after the force has ended [m/s].

        Returns:
            Position, (3,) [m], and rotation, (3, 3), in the base.
        """
        if self.is_idle:
            return position, rotation
        if self._is_requested and self.weight < 1.0:
            self.weight = min(1.0, self.weight + self._period / self.FADE_TIME)
        if self._has_offset or not self._is_requested:
            self._shrink_offset(speed * self._period)
        if not self._rotations:
            return self._target_position(state.position_ee_in_base, position), rotation
        u = self.direction
        error = self._error.measure(
            state.position_ee_in_base, state.rotation_ee_in_base, position, rotation
        )
        left = subtract(error, self._offset, self._last_direction)
        along = multiply(u, self.weight * float(dot(u, left)), self._hidden)
        subtract(left, along, left)
        subtract(error, left, self._hidden)
        add(state.position_ee_in_base, left[:3], self._position)
        dot(_exp3(left[3:]), state.rotation_ee_in_base, self._rotation)
        return self._position, self._rotation

    def _target_position(self, measured: Vector, position: Vector) -> Vector:
        # Setpoint position for a force without torque and an offset without rotation.
        (x, y, z), (px, py, pz) = measured.tolist(), position.tolist()
        ux, uy, uz, *_ = self._u
        rx, ry, rz, *_ = self._offset.tolist()
        ex, ey, ez = px - x - rx, py - y - ry, pz - z - rz
        along = self.weight * (ux * ex + uy * ey + uz * ez)
        hx, hy, hz = along * ux, along * uy, along * uz
        self._hidden[:3] = hx + rx, hy + ry, hz + rz
        self._last_direction[:3] = ex - hx, ey - hy, ez - hz
        return subtract(position, self._hidden[:3], self._position)

    def project(self, wrench: Vector) -> Vector:
        """Multiply a spring wrench in the base, (6,), by P in place, and return it."""
        if self.weight == 0.0:
            return wrench
        u = self.direction
        along = multiply(u, self.weight * float(u.dot(wrench)), self._part)
        return subtract(wrench, along, wrench)

    def _shrink_offset(self, max_translation: float) -> None:
        offset, left = self._offset, 0.0
        for part, max_value in (
            (offset[:3], max_translation),
            (offset[3:], self.ANGULAR_SPEED * max_translation),
        ):
            length = math.sqrt(dot(part, part))
            if length > 0.0:
                left = max(left, length)
                multiply(part, max(0.0, 1.0 - max_value / length), part)
        self._note()
        self.is_idle = not left and not self._is_requested

    def _note(self) -> None:
        self._u = self.direction.tolist()
        offset = self._offset.tolist()
        self._has_offset = any(offset)
        self._rotations = any(offset[3:]) or any(self._u[3:])


MIN_MOBILITY = 0.02
"""Inverse of the maximum effective mass used for damping along a force [1/kg]."""
MASS_CYCLES = 16
"""Number of cycles between updates of the effective mass along a force."""


class ForceImpedanceArm:
    """Cartesian impedance and force control of one arm, each limited by an energy tank.

    Equations::

        F_s = sigma P K e'
        F_f = F u
        tau = J^T (s_v s_tau F_s - d D dx + F_l + F_f + F_0) + tau_h

    - F_s, F_f: Wrenches of the spring and of force control, (6,) [N, Nm].
    - e', P: Pose error, (6,) [m, rad], and projector, (6, 6), of ``ForceSubspace``.
    - K, D: Stiffness and damping of ``CartesianSpring``, (6, 6).
    - sigma: Scale 1 + alpha_i of the spring by ``SpringTank``, 0 to 1.
    - s_tau: Scale by ``TorqueSaturation``; s_v, d: scales by ``VelocityLimitScaling``.
    - F_l: Wrench of ``SingularityDamping`` for the spring wrench s_tau F_s, (6,) [N, Nm].
    - F, u: Output of ``ForceController`` [N] and its unit direction, (6,).
    - F_0: Permanent feed-forward wrench ``load``, (6,) [N, Nm].
    - J: Jacobian along the base axes, (6, n); dx: twist of the tool, (6,).
    - tau_h: Torques of ``SingularityHold``, (n,) [Nm].

    Args:
        context: Context of the controllet.
        place: Index of the arm in the controllet.
        gains: Gains of the force controller.

    Attributes:
        spring: Cartesian impedance.
        force: Force controller with its energy tank.
        tank: Energy tank of the impedance.
        subspace: Removal of the spring along the controlled force.
        wrench_scale: Scale s_tau of the spring wrench, below 1 at the torque limits.
        load: Permanent feed-forward wrench F_0 along the base axes, (6,) [N, Nm].
        carries: True if ``load`` is not zero.

    Thread: control.
    """

    def __init__(self, context: Context, place: int, gains: ForceGains) -> None:
        self._context, self._period = context, context.period
        self._name = context.arms[place].name
        arm = context.arms[place]
        self._torque_saturation = TorqueSaturation(arm)
        self._velocity_scaling = VelocityLimitScaling(arm.limits)
        self._singularity_damping, self.wrench_scale = SingularityDamping(), 1.0
        self.force = ForceController(gains, context.period)
        self.tank = SpringTank(context.period)
        self.subspace = ForceSubspace(context.period)
        self._direction, self._size = np.zeros(6), 0.0
        self._contact_point, self._mass, self._age = np.zeros(3), 0.0, 0
        # Rows: wrenches of the spring, the damper and the force controller. With one array,
        # ``settle`` computes the work of all three by one product.
        n = context.arms[place].n_joints
        self._wrenches, self._torques = np.zeros((3, 6)), np.zeros((3, n))
        self._spring_wrench, self._damper_wrench, self._force_wrench = self._wrenches
        self.spring = CartesianSpring()
        self._hold = SingularityHold(arm, context.period, self.spring.stiffness_along)
        self._works, self._ones = np.zeros(3), np.ones(3)
        self._dq, self._mean = np.zeros(n), np.zeros(n)
        self.load, self.carries, self._load_torque = np.zeros(6), False, np.zeros(n)
        self._energy, self._scale = TankLimitNotice(context.notify), 1.0
        self._reported_loss = self._reported_limit = False

    def start(self, state: ArmState, energy: float) -> None:
        """Start with a relaxed spring and without force.

        Args:
            state: State of the arm.
            energy: Energy granted to the tank of the spring [J].
        """
        self.force.reset()
        self.tank.reset()
        self._hold.reset()
        self.tank.grant(energy)
        self.subspace.reset()
        self._size = 0.0
        self.load[:], self.carries = 0.0, False
        self._direction[:] = self._torques[:] = self._force_wrench[:] = 0.0
        self._dq[:] = state.dq
        self._energy.forget()
        self._reported_loss = self._reported_limit = False

    def set_direction(self, wrench: Vector, state: ArmState) -> None:
        """Start to control a wrench on the environment.

        Args:
            wrench: Desired wrench along the axes of the base, (6,) [N, Nm]; zero ends the force.
            state: State of the arm.
        """
        size = math.sqrt(float(dot(wrench, wrench)))
        if size > 0.0:
            multiply(wrench, 1.0 / size, self._direction)
            self.subspace.set_direction(self._direction)
            if self.force.is_idle:
                self._contact_point[:] = state.position_ee_in_base
            self._age = 0
        self.force.is_controlled = True
        self.force.grant(size)
        self._size = size

    def hold(self, state: ArmState, tau: Vector) -> Vector:
        """Continue torques from before a switch, along nearly singular directions only.

        Args:
            state: State of the arm.
            tau: Torques before the switch, (n,) [Nm].

        Returns:
            Tool wrench equivalent to the continued part of ``tau``, (6,) [N, Nm].
        """
        return tool_wrench(state, self._hold.resume(state, tau))

    def resume(self, state: ArmState, force: Vector) -> None:
        """Continue a force that the arm already exerts, as feed-forward in parallel to the spring.

        Args:
            state: State of the arm.
            force: Wrench on the environment along the axes of the base, (6,) [N, Nm].
        """
        size = math.sqrt(float(dot(force, force)))
        multiply(force, 1.0 / size, self._direction)
        self._contact_point[:] = state.position_ee_in_base
        self.force.resume(size, False)
        self._size, self._age = size, 0

    def settle(self, dq: Vector) -> None:
        """Subtract the work of spring, damper and force in the last cycle from the tanks.

        Args:
            dq: Joint velocities of this cycle, (n,) [rad/s].
        """
        add(self._dq, dq, self._mean)
        self._dq[:] = dq
        works = self._torques.dot(self._mean, self._works)
        half = 0.5 * self._period
        of_spring, of_brake, of_force = [half * work for work in works.tolist()]
        tank, other = self.tank, self.force.tank
        over, other_over = tank.settle(of_spring, tank.held), other.settle(of_force)
        # The dampers and the overflow of a full tank supply energy. The tank that lacks more
        # energy receives it first.
        income = over + other_over - of_brake
        if other.missing > tank.missing:
            tank.receive(other.receive(income), tank.held)
        else:
            other.receive(tank.receive(income, tank.held))

    def update(
        self, state: ArmState, position: Vector, rotation: Matrix, speed: float, tau: Vector
    ) -> None:
        """Write the torques (n,) [Nm] that move the arm to a pose.

        Args:
            state: State of the arm.
            position: Reference position in the base, (3,) [m].
            rotation: Reference rotation in the base, (3, 3).
            speed: Speed at which the spring setpoint returns to the reference after force control
                [m/s].
            tau: Output torques, (n,) [Nm].
        """
        self.settle(state.dq)
        spring, subspace, velocity_scaling = self.spring, self.subspace, self._velocity_scaling
        position, rotation = subspace.target(state, position, rotation, speed)
        spring.measure(state, position, rotation)
        spring_wrench = subspace.project(spring.write_spring(self._spring_wrench))
        sigma = self._energy_scale(state, spring_wrench)
        spring_wrench = scale_by(spring_wrench, sigma)
        s_tau = self._torque_saturation.scale(spring_wrench, state)
        spring_wrench = scale_by(spring_wrench, s_tau)
        singularity_damping = self._singularity_damping.damp(
            state, spring_wrench, spring.damping_along
        )
        velocity_ratio = velocity_scaling.limit_fraction(state)
        s_v, d = velocity_scaling.scales(velocity_ratio, spring.ratio, spring.stiffness_scale)
        scale_by(spring_wrench, s_v)
        damper_wrench = scale_by(spring.write_damper(self._damper_wrench), d)
        sum_of(damper_wrench, singularity_damping)
        self._control_force(state)
        # Compute the torques of spring, damper and force control separately, because ``settle``
        # needs the work of each.
        torques = self._wrenches.dot(state.jacobian, self._torques)
        sum_of(self._ones.dot(torques, tau), self._load_torques(state))
        self._hold.add(state, tau)
        self._scale, self.wrench_scale = sigma, s_tau
        limits = sigma < 1.0 or self.force.is_throttled
        self._energy.check(limits, self.tank, self._name, self._energy_left)

    def _energy_scale(self, state: ArmState, spring_wrench: Vector) -> float:
        stored = 0.5 * float(self.spring.error_in_base.dot(spring_wrench))
        power = float(spring_wrench.dot(state.twist_ee_in_base))
        return self.tank.soften(stored, power)

    def _load_torques(self, state: ArmState) -> Vector | None:
        return self.load.dot(state.jacobian, self._load_torque) if self.carries else None

    def _control_force(self, state: ArmState) -> None:
        force, u = self.force, self._direction
        if not self._size and force.is_idle:
            return
        if force.touching:
            self._contact_point[:] = state.position_ee_in_base
            distance = 0.0
        else:
            away = state.position_ee_in_base - self._contact_point
            # Before the first contact, only motion along the force counts. After a loss of
            # contact, lateral motion counts too: the tool may have slid off the surface.
            squared = dot(away, away) if force.touched else dot(u[:3], away) ** 2
            distance = math.sqrt(float(squared))
        if not self._age:
            inertia_inv = state.operational_space().inertia_inv
            self._mass = 1.0 / max(float(dot(u, dot(inertia_inv, u))), MIN_MOBILITY)
        self._age = (self._age + 1) % MASS_CYCLES
        measured = -float(u.dot(state.wrench_ext_in_base))
        speed = float(u.dot(state.twist_ee_in_base))
        pushed = force.step(self._size, measured, distance, speed, self._mass)
        multiply(u, pushed, self._force_wrench)
        if force.is_idle:
            self.subspace.release()
        if force.is_lost != self._reported_loss:
            self._reported_loss = force.is_lost
            if force.is_lost:
                self._context.notify(
                    f"{self._name}: no contact found within {distance:.3f} m for a force of "
                    f"{self._size:.1f} N. Move closer and send the force again."
                )
        if force.is_held_back != self._reported_limit:
            self._reported_limit = force.is_held_back
            if force.is_held_back:
                estimated = max(measured, 0.0)
                self._context.notify(
                    f"{self._name}: full force applied, but the tool measures {estimated:.1f} N "
                    f"of {self._size:.1f} N. Check collision_avoidance and joint_limits, which "
                    "may oppose it near other links or limits."
                )

    def _energy_left(self) -> str:
        return (
            f"impedance tank {self.tank.free:.2f} J at scale {self._scale:.2f}, "
            f"force tank {self.force.tank.energy:.2f} J. Send smaller steps, or raise tank_start "
            "or tank_power."
        )
