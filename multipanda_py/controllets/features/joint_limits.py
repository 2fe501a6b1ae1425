# SPDX-License-Identifier: Apache-2.0
"""Barriers at joint position limits, and a brake near joint speed limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import eigenpy
import numpy as np
from numpy import absolute, add, maximum, minimum, multiply, sqrt, subtract

from multipanda_py.context import Context
from multipanda_py.control.impedance.brakes import SpeedBrake
from multipanda_py.control.impedance.gains import gershgorin_scale
from multipanda_py.control.impedance.modal_damping import MIN_DAMPING_RATIO
from multipanda_py.feature import Feature
from multipanda_py.parameters import JointVector, joint_vector, number
from multipanda_py.state import ArmLimits, ArmState, Vector
from multipanda_py.targets import Target


class BarrierFadeIn:
    """Slow increase of barrier torques for joints that start inside a barrier.

    Equations, per joint::

        tau = T - sign(T) max(0, o - k x)
        o   = |T| - clip(sign(T) tau_0, 0, |T|)   at the start
        do  = -c sqrt(o),   0 <= o <= |T|

    - tau: Resulting torque [Nm]; T: barrier torque at the present position [Nm].
    - tau_0: Part of T that was commanded in the last cycle [Nm].
    - o: Decaying offset [Nm]; c: its decay rate [sqrt(Nm)/s].
    - x: Motion back towards the limit, from the farthest position since the start [rad].
    - k: Stiffness against motion towards the limit [Nm/rad].

    With ``c = 2 v sqrt(tau_max) / r``, a free joint leaves the barrier of ``JointLimits`` at the
    speed v.

    Args:
        joints: Number of joints n.

    Attributes:
        holds: True if an offset exists, or may exist in the next cycle.
        is_idle: True after ``end``, until ``start``, ``resume`` or ``remember`` is called.
        holding: 1 for joints with an offset, 0 for other joints, (n,).

    Thread: control.
    """

    def __init__(self, joints: int) -> None:
        self._offset, self._last, self._position = np.zeros((3, joints))
        self._rate, self.holding = np.zeros(joints), np.zeros(joints)
        self.holds = self._starts_next_cycle = self._runs = self.is_idle = False

    def set_speed(self, rate: Vector) -> None:
        """Set the decay rate c, (n,) [sqrt(Nm)/s]."""
        self._rate = rate

    def start(self, torque: Vector) -> None:
        """From this cycle on, fade from the last commanded torques tau_0, (n,) [Nm], to T."""
        self._last[:] = torque
        self.holds = self._starts_next_cycle = True
        self.is_idle = False

    def resume(self) -> None:
        """From the next cycle on, fade from the last barrier torques to the computed ones.

        Before the first cycle, this has no effect.
        """
        self.holds = self._starts_next_cycle = self._runs
        self.is_idle = False

    def end(self) -> None:
        """Remove all offsets. Call this while no joint is inside a barrier."""
        self._starts_next_cycle = self.holds = False
        self._runs = self.is_idle = True
        self._last[:] = 0.0

    def lead_out(self, torque: Vector, q: Vector, stiffness: Vector, period: float) -> None:
        """Subtract the remaining offsets from ``torque``.

        Args:
            torque: Barrier torques T, (n,) [Nm].
            q: Joint positions, (n,) [rad].
            stiffness: Stiffness k against motion towards the limits, (n,) [Nm/rad].
            period: Cycle time [s].
        """
        if self._starts_next_cycle:
            self._starts_next_cycle = False
            whole = np.absolute(torque)
            self._offset[:] = whole - np.clip(np.sign(torque) * self._last, 0.0, whole)
            self._position[:] = q
        offset, position, side = self._offset, self._position, np.sign(torque)
        offset -= period * self._rate * np.sqrt(offset)
        minimum(maximum(offset, 0.0, out=offset), absolute(torque), out=offset)
        position[:] = np.where(side > 0.0, maximum(position, q), minimum(position, q))
        nearer = side * (position - q)
        torque -= side * maximum(offset - stiffness * nearer, 0.0)
        np.sign(offset, self.holding)
        self.holds = bool(offset.any())

    def remember(self, torque: Vector) -> None:
        """Store the torques of this cycle, (n,) [Nm], for the next ``resume``."""
        self._last[:], self._runs, self.is_idle = torque, True, False


_TINY = 1e-12
MAX_BARRIER_STIFFNESS, MAX_BARRIER_DAMPING_RATE = 3600.0, 40.0
"""Maximum stiffness per unit inertia [1/s^2] and maximum damping rate [1/s] of the barriers, in
addition to those of a controllet."""
MAX_EXIT_SPEED = 0.05
"""Maximum speed at which a joint moves out of a barrier that it started in [rad/s, m/s]."""
BRAKING_SPEED_FRACTION, SPEED_DECAY_RATE = 0.8, 60.0
"""Fraction of a speed limit above which a joint is braked, and decay rate of the excess speed
[1/s]."""


@dataclass(frozen=True, eq=False)
class JointLimitsParams:
    """Parameters of ``JointLimits``: width, torque and damping of the barriers."""

    range: JointVector = joint_vector(
        0.1, unit="rad", low=1e-3, high=1.0,
        doc="distance from a limit at which the barrier starts",
    )  # fmt: skip
    max_torque: JointVector = joint_vector(
        "barrier_torque", unit="Nm", low=0, high="torque", doc="barrier torque at the limit"
    )
    damping_ratio: float = number(
        1.0, low=MIN_DAMPING_RATIO, high=5,
        doc="damping ratio for the local stiffness of the barrier and the inertia of the joint",
    )  # fmt: skip


class _JointBarriers:
    def __init__(self, limits: ArmLimits) -> None:
        n = limits.n_joints
        self._limits = limits
        self._low, self._high, self._depth = (np.zeros(n) for _ in range(3))
        self._brake, self._max, self._soft = (np.zeros(n) for _ in range(3))
        self._mass, self._unit = eigenpy.LLT(np.eye(n)), np.eye(n)
        self._start, self._is_new = BarrierFadeIn(n), False

    def set(self, width: Vector, max_torque: Vector, damping_ratio: float) -> None:
        self._lower, self._upper = self._limits.lower + width, self._limits.upper - width
        self._slope, self._max_torque = 1.0 / width, max_torque
        self._stiffness = 2.0 * max_torque / width
        self._damping = 2.0 * damping_ratio * np.sqrt(self._stiffness)
        self._softest = MAX_BARRIER_STIFFNESS / np.maximum(self._stiffness, _TINY)
        self._start.set_speed(MAX_EXIT_SPEED * 2.0 * np.sqrt(max_torque) / width)

    def start(self) -> None:
        # ``add`` starts the fade, because it needs the torques of the next cycle.
        self._is_new = True

    def change(self) -> None:
        # New parameters must not cause a step of the barrier torques.
        self._start.resume()

    def add(self, state: ArmState, tau: Vector, period: float) -> None:
        low, high, depth, slope = self._low, self._high, self._depth, self._slope
        multiply(subtract(self._lower, state.q, low), slope, low)
        multiply(subtract(state.q, self._upper, high), slope, high)
        maximum(low, high, out=depth)
        if max(depth.tolist()) <= 0.0:
            if not self._start.is_idle:
                self._start.end()
            self._is_new = False
            return
        for part in (low, high, depth):
            minimum(part, 1.0, out=part)
            maximum(part, 0.0, out=part)
        self._add_inside_barriers(state, tau, period)

    def _add_inside_barriers(self, state: ArmState, tau: Vector, period: float) -> None:
        low, high, depth, brake, max_value = (
            self._low,
            self._high,
            self._depth,
            self._brake,
            self._max,
        )
        max_torque, start = self._max_torque, self._start
        if self._is_new:
            self._is_new = False
            start.start(state.tau - tau)
        inverse = self._mass.compute(state.mass_matrix).solve(self._unit)
        mobility = inverse.diagonal()
        soft = minimum(depth, self._softest / mobility, out=self._soft)
        stiffness = soft * self._stiffness
        scale = gershgorin_scale(stiffness, inverse, MAX_BARRIER_STIFFNESS)
        multiply(sqrt(soft / mobility, brake), self._damping, brake)
        if start.holds:
            maximum(brake, start.holding * MAX_BARRIER_DAMPING_RATE / mobility, out=brake)
        multiply(brake, gershgorin_scale(brake, inverse, MAX_BARRIER_DAMPING_RATE), brake)
        multiply(brake, state.dq, brake)
        multiply(max_torque, depth, max_value)
        minimum(brake, max_value, out=brake)
        maximum(brake, multiply(max_value, -1.0, max_value), out=brake)
        for side in (low, high):
            linear = minimum(side, soft, out=max_value)
            multiply(subtract(multiply(side, 2.0, side), linear, side), linear, side)
        multiply(subtract(low, high, low), scale * max_torque, low)
        if start.holds:
            stiffest = (
                gershgorin_scale(1.0 / mobility, inverse, 1.0) * MAX_BARRIER_STIFFNESS / mobility
            )
            start.lead_out(low, state.q, maximum(stiffest - stiffness, 0.0), period)
        start.remember(low)
        add(tau, subtract(low, brake, low), tau)


class JointLimits(Feature[JointLimitsParams]):
    """Barrier and damper near the position limits, and brake near the speed limits of the joints.

    Equations, per joint::

        s    = clip(max((q - (q_max - r)) / r, ((q_min + r) - q) / r), 0, 1)
        U    = tau_max r s^3 / 3
        tau  = -/+ tau_max s^2 - clamp(2 zeta sqrt(k(s) m) dq, -tau_max s, tau_max s)
        k(s) = 2 tau_max s / r
        m    = 1 / (M^-1)_ii

    - s: Depth in the barrier, 0 to 1; r: ``range`` [rad].
    - q, dq: Measured position [rad] and velocity [rad/s]; q_min, q_max: limits.
    - U: Potential of the barrier [J].
    - tau: Torque [Nm], negative at the upper limit; tau_max: ``max_torque`` [Nm].
    - zeta: ``damping_ratio``; k(s): local stiffness [Nm/rad].
    - m: Inertia of joint i while the other joints are free [kg m^2]; M: inertia matrix.

    Beyond a position limit, s = 1. For stability with latency, the damping rate is at most 40 1/s,
    and the barrier is linear where k exceeds 3600 1/s^2 times m. Barriers on the same motion are
    scaled down (``gershgorin_scale``).

    A joint that is inside a barrier at the activation leaves it at up to 0.05 rad/s
    (``BarrierFadeIn``).

    Joints faster than 0.8 of their speed limit are braked, with a decay rate of the excess speed
    of 60 1/s (``SpeedBrake``). A fault occurs at 1.1 of the limit. Only this feature brakes a
    joint that a push or an unmodelled payload accelerates.

    The default of ``range`` is that of the CRISP controllers.
    """

    Params = JointLimitsParams

    def __init__(self, context: Context, params: JointLimitsParams) -> None:
        self._barriers = [_JointBarriers(arm.limits) for arm in context.arms]
        speeds = [BRAKING_SPEED_FRACTION * arm.limits.velocity for arm in context.arms]
        self._fast = [(speed, float(speed.min())) for speed in speeds]
        self._brakes = [
            SpeedBrake(arm.n_joints, SPEED_DECAY_RATE, np.array(arm.limits.torque))
            for arm in context.arms
        ]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        p, per_arm = self.params, self.context.per_arm
        for own, width, torque in zip(self._barriers, per_arm(p.range), per_arm(p.max_torque)):
            own.set(width, torque, p.damping_ratio)
            own.change()

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Start with reduced torques for joints that are inside a barrier."""
        for barriers in self._barriers:
            barriers.start()

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of barriers, dampers and brakes of all arms."""
        for arm, (barriers, state, torque) in enumerate(zip(self._barriers, states, tau)):
            barriers.add(state, torque, period)
            speed, slow = self._fast[arm]
            if hypot(*state.dq.tolist()) > slow:
                self._brakes[arm].add(state, speed, torque)
