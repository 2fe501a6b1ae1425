# SPDX-License-Identifier: Apache-2.0
"""Motion mapping, force reflection, passivity and tare of the wrench for teleoperation."""

from __future__ import annotations

import math

import numpy as np
from numpy import add, dot, multiply, subtract

from multipanda_py.control.force.virtual_mass import length, limit, remaining
from multipanda_py.state import ArmState, Matrix, Vector


class MotionMapping:
    """Mapping of the leader's motion since the coupling to a reference pose of the follower.

    Equations::

        p_F = p_F0 + alpha C (p_L - p_L0)
        R_F = C R_L R_L0^T C^T R_F0
        C   = R_wF^T R_wL

    - p_L, R_L: Position [m] and rotation of the leader's tool in its base.
    - p_F, R_F: Position [m] and rotation of the follower's tool in its base.
    - Index 0: Value at coupling.
    - C: Rotation from the axes of the leader's base to those of the follower's.
    - R_wL, R_wF: Rotations of the bases in the world.
    - alpha: Scale of the translation.

    Args:
        rotation_leader_in_world: Rotation of the leader's base, (3, 3).
        rotation_follower_in_world: Rotation of the follower's base, (3, 3).

    Attributes:
        axes_rotation: Rotation C, (3, 3).
        position: Reference position of the follower in its base, (3,) [m].
        rotation: Reference rotation of the follower in its base, (3, 3).
        twist: Reference twist of the follower, (6,) [m/s, rad/s].

    Thread: control.
    """

    def __init__(
        self, rotation_leader_in_world: Matrix, rotation_follower_in_world: Matrix
    ) -> None:
        self.axes_rotation: Matrix = rotation_follower_in_world.T @ rotation_leader_in_world
        self.position, self.rotation, self.twist = np.zeros(3), np.eye(3), np.zeros(6)
        self._linear, self._angular = self.twist[:3], self.twist[3:]
        self._scaled = self.axes_rotation.copy()
        self._scale = 1.0
        self._leader, self._follower = np.zeros(3), np.zeros(3)
        self._grip, self._half, self._moved = np.eye(3), np.zeros((3, 3)), np.zeros(3)

    def couple(
        self,
        position_leader: Vector,
        rotation_leader: Matrix,
        position_follower: Vector,
        rotation_follower: Matrix,
        scale: float,
    ) -> None:
        """Couple leader and follower at their current poses, each in the base of its arm.

        Args:
            position_leader: Position of the leader's tool, (3,) [m].
            rotation_leader: Rotation of the leader's tool, (3, 3).
            position_follower: Position of the follower's tool, (3,) [m].
            rotation_follower: Rotation of the follower's tool, (3, 3).
            scale: Ratio alpha of the follower's translation to the leader's.
        """
        self._scale = scale
        multiply(self.axes_rotation, scale, self._scaled)
        self._leader[:], self._follower[:] = position_leader, position_follower
        self._grip[:] = rotation_leader.T @ self.axes_rotation.T @ rotation_follower

    def follow(self, position: Vector, rotation: Matrix, twist: Vector) -> None:
        """Compute pose and twist of the follower from those of the leader, in the leader's base.

        Args:
            position: Position of the leader's tool, (3,) [m].
            rotation: Rotation of the leader's tool, (3, 3).
            twist: Twist of the leader's tool, (6,) [m/s, rad/s].
        """
        subtract(position, self._leader, self._moved)
        add(self._follower, dot(self._scaled, self._moved, self.position), self.position)
        dot(dot(self.axes_rotation, rotation, self._half), self._grip, self.rotation)
        dot(self._scaled, twist[:3], self._linear)
        dot(self.axes_rotation, twist[3:], self._angular)


class ForceReflection:
    """Filter of the reflected wrench, with deadband, bound and gain.

    Equations, for force and torque separately::

        dy/dt = (C^T F_ext - y) / T_f
        z     = dead(y, F_0)
        F_fb  = g z min(1, F_max / |z|)

    - F_ext: External wrench on the follower's tool [N, Nm].
    - C: Rotation from the leader's base to the follower's.
    - y, z: Filtered wrench, and its part above the deadband.
    - T_f: Filter time constant [s].
    - F_0, F_max: Deadband and bound of force [N] or torque [Nm].
    - g: Gain.
    - F_fb: Wrench reflected to the leader.

    The output of the deadband ``dead`` is zero below 0.5 F_0 and reduced by F_0 above 1.5 F_0. It
    is smooth and has a maximum slope of 1 (``remaining``).

    Attributes:
        wrench: Reflected wrench F_fb along the axes of the leader's base, (6,) [N, Nm].
        force: Norm of the reflected force [N].
        torque: Norm of the reflected torque [Nm].
        contact_strength: Strength of the contact, from 0 within the deadband to nearly 1 far above
            it.

    Thread: control.
    """

    def __init__(self) -> None:
        self.wrench, self._filtered, self._new = np.zeros(6), np.zeros(6), np.zeros(6)
        self.force = self.torque = self.contact_strength = 0.0
        self._filter_gain = 1.0
        self._parts = [
            (self._filtered[:3], self.wrench[:3]),
            (self._filtered[3:], self.wrench[3:]),
        ]
        self._shapes = [(0.0, math.inf, 1.0), (0.0, math.inf, 1.0)]

    def set_filter(self, time_constant: float, period: float) -> None:
        """Set the low-pass filter of the reflected wrench.

        Args:
            time_constant: Time constant T_f [s]; 0 disables the filter.
            period: Cycle time [s].
        """
        self._filter_gain = -math.expm1(-period / time_constant) if time_constant > 0.0 else 1.0

    def set_shape(
        self, force: tuple[float, float, float], torque: tuple[float, float, float]
    ) -> None:
        """Set deadband, bound and gain of the reflected wrench.

        Args:
            force: Deadband [N], bound [N] and gain of the force.
            torque: Deadband [Nm], bound [Nm] and gain of the torque.
        """
        self._shapes = [force, torque]

    def reset(self) -> None:
        self._filtered[:] = 0.0

    def filter(self, wrench: Vector, rotation: Matrix) -> Vector:
        """Filter the wrench of one cycle, and return the reflected wrench F_fb, (6,) [N, Nm].

        Args:
            wrench: External wrench on the follower's tool, along its base axes, (6,) [N, Nm].
            rotation: Rotation C from the leader's base axes to the follower's, (3, 3).
        """
        new = self._new
        dot(wrench[:3], rotation, new[:3])
        dot(wrench[3:], rotation, new[3:])
        subtract(new, self._filtered, new)
        add(self._filtered, multiply(new, self._filter_gain, new), self._filtered)
        sizes, self.contact_strength = [], 0.0
        for (y, out), (deadband, bound, gain) in zip(self._parts, self._shapes):
            selected = remaining(y, deadband)
            size = selected * length(y)
            factor = gain * selected * (bound / size if size > bound else 1.0)
            multiply(y, factor, out)
            sizes.append(gain * min(size, bound))
            self.contact_strength = max(self.contact_strength, selected)
        self.force, self.torque = sizes
        return self.wrench


class PassivityObserver:
    """Passivity observer that reduces a reflected wrench which has released too much energy.

    Equations::

        dE/dt = -F^T v                       if E >= 0
        dE/dt = -F^T v + beta dq^T D dq      if E < 0
        E    <= c E_F
        E_F   = |f|^2 / (2 kappa_f) + |m|^2 / (2 kappa_m)
        s     = clip(1 + E / E_F, 0, 1)

    - E: Energy balance of the leader; negative after a net release of energy [J].
    - F: Reflected wrench with force f [N] and moment m [Nm].
    - v: Twist of the leader's tool, (6,).
    - beta, c: ``DAMPING_CREDIT`` and ``MAX_CREDIT``.
    - D: Joint damping of the leader; dq: its joint velocities.
    - kappa_f, kappa_m: Maximum stiffness that the leader feels [N/m, Nm/rad].
    - E_F: Energy that a spring of this stiffness stores at the wrench F [J].
    - s: Scale of the wrench that the leader receives.

    If more energy is released than was stored, E becomes negative and the wrench fades. It returns
    when the leader moves back.

    The bound c limits the balance after a contact that absorbs energy. While the leader presses
    against the wrench, s is 0.5 or more.

    Sources: Hannaford and Ryu, IEEE Trans. Robotics and Automation 2002 (passivity observer);
    Franken, Stramigioli, Misra, Secchi and Macchelli, IEEE Trans. Robotics 2011 (energy tanks in
    teleoperation).

    Attributes:
        energy: Energy balance E [J].
        scale: Wrench scale s.

    Thread: control.
    """

    DAMPING_CREDIT = 0.25
    """Fraction beta of the energy dissipated by the leader's dampers that repays a negative
    balance."""
    MAX_CREDIT = 4.0
    """Bound c of the energy balance in units of E_F. The energy stored in contacts as soft as
    kappa / c is returned in full."""
    MIN_SCALE = 0.5
    """Minimum scale of the wrench for a leader that presses against it."""
    FADE_SPEED, FADE_ANGULAR_SPEED = 0.2, 1.0
    """Speeds at which a leader that presses receives at least ``MIN_SCALE`` of the wrench [m/s,
    rad/s]. At lower speeds, this minimum is proportionally lower."""
    MIN_STORED_ENERGY = 1e-9
    """Energy E_F below which the observer treats the reflected wrench as zero [J]."""

    def __init__(self) -> None:
        self.energy, self.scale = 0.0, 1.0
        self._force = self._torque = 0.0

    def set_stiffness(self, force: float, torque: float) -> None:
        """Set the maximum stiffness that the leader feels.

        Args:
            force: Translational stiffness [N/m].
            torque: Rotational stiffness [Nm/rad].
        """
        self._force, self._torque = 0.5 / force, 0.5 / torque

    def reset(self) -> None:
        self.energy, self.scale = 0.0, 1.0

    def update(
        self, force: float, torque: float, wrench: Vector, twist: Vector, taken: float,
        period: float,
    ) -> float:  # fmt: skip
        """Update the energy balance for one cycle, and return the scale of the reflected wrench.

        Args:
            force: Norm of the reflected force [N].
            torque: Norm of the reflected torque [Nm].
            wrench: Reflected wrench, (6,) [N, Nm].
            twist: Twist of the leader's tool, (6,) [m/s, rad/s].
            taken: Power dissipated by the leader's dampers [W].
            period: Cycle time [s].
        """
        stored = force * force * self._force + torque * torque * self._torque
        energy = before = self.energy
        scale = 1.0
        if stored > self.MIN_STORED_ENERGY:
            power = float(dot(wrench, twist))
            if energy < 0.0:
                scale = max(0.0, 1.0 + energy / stored)
                if power < 0.0 and scale < self.MIN_SCALE:
                    soon = self.FADE_SPEED * force + self.FADE_ANGULAR_SPEED * torque
                    scale = max(scale, self.MIN_SCALE * min(1.0, -power / soon))
            energy -= power * period
            if energy < before:
                energy = max(energy, min(before, -stored))
        if energy < 0.0:
            energy = min(0.0, energy + self.DAMPING_CREDIT * taken * period)
        self.energy = min(energy, self.MAX_CREDIT * stored) if energy > 0.0 else energy
        self.scale = scale
        return scale


MIN_JOINT_SPEED = 0.05
"""Minimum joint speed of an arm in motion; measured noise is below it [rad/s]."""


class WrenchTare:
    """Tare of a wrench estimate: its mean at rest becomes an offset that is subtracted.

    Equations::

        b  = bound(1/n sum_k F_k)
        F' = F - b

    - F_k: Wrench in cycle k of n, (6,) [N, Nm].
    - b: Offset, (6,). ``bound`` limits the norms of force and torque.
    - F': Wrench without the offset.

    Motion restarts the average. The output is zero until the average is complete.

    Args:
        period: Cycle time [s].

    Attributes:
        wrench: Wrench F' without the offset, (6,) [N, Nm].
        bias: Offset b, (6,) [N, Nm].
        done: True when the average is complete.

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self.wrench, self.bias, self._sum = np.zeros(6), np.zeros(6), np.zeros(6)
        self._cycles = self._left = 0
        self._bounds = (0.0, 0.0)
        self.done = True

    def start(self, time: float, max_force: float, max_torque: float) -> None:
        """Start to average the wrench for a new offset.

        Args:
            time: Averaging time [s].
            max_force: Maximum force of the offset [N].
            max_torque: Maximum torque of the offset [Nm].
        """
        self._cycles = self._left = round(time / self._period)
        self._bounds = (max_force, max_torque)
        self.done = self._left == 0
        for array in (self.wrench, self.bias, self._sum):
            array[:] = 0.0

    def update(self, wrench: Vector, *arms: ArmState) -> Vector:
        """Return the wrench of one cycle without its offset, (6,) [N, Nm].

        The result is zero until the average is complete.

        Args:
            wrench: Estimated wrench, (6,) [N, Nm].
            arms: Arms that must be at rest during the average.
        """
        if self.done:
            return subtract(wrench, self.bias, self.wrench)
        if any(max(map(abs, arm.dq.tolist())) > MIN_JOINT_SPEED for arm in arms):
            self._left, self._sum[:] = self._cycles, 0.0
            return self.wrench
        add(self._sum, wrench, self._sum)
        self._left -= 1
        if self._left == 0:
            self.done = True
            self.bias[:] = self._sum / self._cycles
            limit(self.bias[:3], self._bounds[0])
            limit(self.bias[3:], self._bounds[1])
        return self.wrench
