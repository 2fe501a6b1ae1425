# SPDX-License-Identifier: Apache-2.0
"""Operational-space control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add, dot, maximum, minimum, multiply, subtract

from multipanda_py.context import Context, Handover, bounded_error, share_of
from multipanda_py.control.impedance.cartesian_spring import ConservativeSpring
from multipanda_py.control.impedance.free_motion import SLOW_MODE, projected_inertia
from multipanda_py.control.impedance.gains import CartesianGains, Ramp, RampedGains
from multipanda_py.control.impedance.limit_scaling import (
    MAX_BRAKING_SPEED_FRACTION,
    WRENCH_SCALE,
    BrakingSpeedLimit,
    TorqueSaturation,
)
from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.parameters import vector
from multipanda_py.robots.dynamics.task_inertia import fade
from multipanda_py.state import ArmState, Matrix, TaskSpaceDynamics, Vector
from multipanda_py.targets import CartesianTarget

MIN_STIFFNESS = 1.0
"""Stiffness below which an axis takes over no wrench at a switch [1/s^2]."""
_FREE_AXIS_INERTIA = 1e-6
"""Additional inertia of free axes, which avoids a singular matrix [kg, kg m^2]."""
_SINGULAR_BANDWIDTH_FRACTION = 0.25
"""Bandwidth of the configuration spring along singular directions, as a fraction of the task's."""


MAX_DAMPING = 80.0
"""Maximum damping rate of the tool, critical for the maximum stiffness [1/s]."""
NOTICE_RATIO = 1.05
"""Ratio of requested to maximum damping above which a notice is sent."""


@dataclass(frozen=True, eq=False)
class OperationalSpaceParams(CartesianGains):
    """Gains of ``OperationalSpace``."""

    stiffness: Vector = vector(
        400, 400, 400, 400, 400, 400, unit="1/s^2", low=0, high=1600,
        doc="acceleration per error along the axes of gain_frame; its root is the bandwidth",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6, low=0.5, high=5,
        doc="damping ratio; 1 is critical, values below 0.5 oscillate at the torque-rate limit",
    )  # fmt: skip


class OperationalSpace(RampedGains[CartesianTarget, OperationalSpaceParams]):
    """Second-order tool motion towards the target, identical in every configuration.

    Equations::

        tau = J^T Lambda_d (nu K clip(e) - D J dq)
              + J^T (Lambda - Lambda_d) J (k_s (q_n - q) - d_s dq)
        e   = [p_d - p; log(R_d R^T)]
        D   = min(2 Z K^1/2, b)
        k_s = min_i k_i / 16
        d_s = min_i d_i / 4

    - tau: Joint torques, (n,) [Nm].
    - J: Jacobian along the base axes, (6, n).
    - Lambda, Lambda_d: Task-space inertia without and with damping near singularities, (6, 6).
    - K, D: Diagonal acceleration per error [1/s^2] and per velocity [1/s], (6, 6).
    - k_i, d_i: Elements of K and D.
    - Z: Diagonal damping ratios, (6, 6).
    - b: ``MAX_DAMPING`` [1/s], since all directions brake at this rate and torques change at a
      limited rate.
    - nu: Scale of the spring by ``BrakingSpeedLimit``, 0 to 1.
    - p, R: Measured position [m] and rotation; p_d, R_d: reference.
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_n: Desired nullspace configuration, (n,) [rad].
    - k_s, d_s: Stiffness [1/s^2] and damping [1/s] of the configuration along singular directions.

    If Lambda_d = Lambda, the axes are decoupled and follow dde + D de + K e = 0 in any
    configuration, with the bandwidth K^1/2 [rad/s]. The stiffness in contact is Lambda K, which
    depends on the configuration. Use ``cartesian_impedance`` for a defined stiffness. With
    ``gain_frame: tool``, error and velocity are rotated into the tool axes, and the acceleration
    is rotated back. The velocity product dJ dq is not compensated. The feature ``coriolis`` adds
    the Coriolis torques.

    *Free axes.* An axis without stiffness is free: no wrench acts along it, except the torques
    that make the spring wrench conservative (``ConservativeSpring``). The other axes remain
    decoupled.

    *Limits.* With a target that stays ahead, the tool moves at the twist D^-1 K clip(e), which may
    exceed the speed or braking ability of the joints. In every cycle, nu scales the whole spring
    (``BrakingSpeedLimit``), so the path remains straight. Its Lambda_s is Lambda_d for a damping
    of lambda^2 / 4, because the configuration spring brakes less along singular directions. The
    configuration spring is limited to the speed 0.6 dq_max. ``TorqueSaturation`` keeps the spring
    within the torque limits (``wrench scale``), because a saturated wrist would deviate. Like the
    clip, these limits bound the force of a large error.

    *Singularities.* At a smallest eigenvalue of J M^-1 J^T below 0.02 1/kg, the inertia is damped
    (``TaskInertia``). The configuration spring replaces the removed part along the singular
    direction, at a quarter of the bandwidth. The arm slows down before it is stretched, and can
    return. However, a tool may stop before its target, in the majority of these configurations by
    less than 1 % of a 3 cm step, and by 7 % in some.

    Sources: Khatib, IEEE J. Robotics and Automation 1987 (with nu as a bound of the tool speed);
    CRISP, section III-A2.
    """

    Params, Target = OperationalSpaceParams, CartesianTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    touches = ("things",)
    report_names = (WRENCH_SCALE,)

    def __init__(self, context: Context, params: OperationalSpaceParams) -> None:
        self._saturation = [TorqueSaturation(arm) for arm in context.arms]
        self._spring_torque = np.zeros(6)
        self._error, self._acceleration, self._wrench = PoseError(), np.zeros(6), np.zeros(6)
        self._twist, self._brake = np.zeros(6), np.zeros(6)
        self._root = Ramp(np.sqrt(params.stiffness))
        self._stiffness, self._damping = np.zeros(6), np.zeros(6)
        self._drift, self._desired_acceleration = np.zeros(6), np.zeros(6)
        self._pulls, self._slows = context.joint_zeros(), context.joint_zeros()
        self._braking = np.zeros(6)
        self._bounds = [
            BrakingSpeedLimit(arm, _SINGULAR_BANDWIDTH_FRACTION) for arm in context.arms
        ]
        self._reported_damping, self._conservative = 0.0, ConservativeSpring()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Start the ramp to the new gains. While inactive, they apply immediately."""
        p = self.params
        self._root.go(np.sqrt(p.stiffness), self.gain_cycles())
        self._rate = 2.0 * p.damping_ratio
        self._error.set_bounds(p.error_clip)
        self._in_tool = p.gain_frame == "tool"
        self._set_gains()
        self._desired_damping = float((self._rate * np.sqrt(p.stiffness)).max())
        self._report_damping()

    def _report_damping(self) -> None:
        """Send a notice if the requested damping exceeds the maximum, once per value."""
        requested = self._desired_damping
        if requested > NOTICE_RATIO * MAX_DAMPING and requested != self._reported_damping:
            self.context.notify(
                f"operational_space: the damping is limited to {MAX_DAMPING:g} 1/s, but stiffness "
                f"and damping_ratio require "
                f"{requested:.0f} 1/s. Lower them to keep the damping ratio."
            )
        self._reported_damping = requested

    def _set_gains(self) -> None:
        root = self._root.value
        multiply(root, root, self._stiffness)
        minimum(multiply(self._rate, root, self._damping), MAX_DAMPING, out=self._damping)
        np.divide(self._stiffness, np.maximum(self._damping, 1e-9), self._drift)
        for bound in self._bounds:
            bound.set_damping(max(self._damping.tolist()))
        self._free = 1.0 - self._stiffness * fade(self._stiffness, SLOW_MODE)
        self._freedom: float = max(self._free.tolist())
        self.is_free[:] = [bool(self._free.any())] * len(self.is_free)
        self._slow2 = BrakingSpeedLimit.negligible(max(self._drift.tolist())) ** 2
        self._nullspace_rate_squared = _SINGULAR_BANDWIDTH_FRACTION**2 * min(
            self._stiffness.tolist()
        )
        self._nullspace_damping = _SINGULAR_BANDWIDTH_FRACTION * min(self._damping.tolist())

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Hold the measured pose, with the measured configuration as the nullspace target."""
        target.seed(states)
        self._reported_damping = 0.0
        self.start_gains()
        self._report_damping()

    def on_handover(
        self, states: Sequence[ArmState], target: CartesianTarget, handovers: Sequence[Handover]
    ) -> str:
        """Set the targets at which Lambda_d K e equals the wrench before the switch."""
        words = []
        soft = self._stiffness < MIN_STIFFNESS
        for arm, (state, handover) in enumerate(zip(states, handovers)):
            rotation = (
                np.kron(np.eye(2), state.rotation_ee_in_base) if self._in_tool else np.eye(6)
            )
            inertia = state.operational_space().inertia
            desired = np.linalg.pinv(inertia, rcond=1e-9) @ handover.wrench_in_base @ rotation
            error: Vector = np.where(soft, 0.0, desired / np.where(soft, 1.0, self._stiffness))
            bounded_error(error, self._error.bounds)
            reached = inertia @ rotation @ (self._stiffness * error)
            target.displace(arm, np.dot(rotation, error))
            words.append(handover.words(state.name, share_of(reached, handover.wrench_in_base)))
        return "; ".join(filter(None, words))

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the motion along axes without stiffness, (n,) [rad/s]."""
        twist, rotation = state.twist_ee_in_base.copy(), state.rotation_ee_in_base
        if self._in_tool:
            self._rotate(twist, rotation)
        twist *= self._free
        if self._in_tool:
            self._rotate(twist, rotation.T)
        space = state.operational_space()
        velocity: Vector = space.minv_jt.dot(projected_inertia(space).dot(twist))
        return velocity

    def update(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Write the joint torques of all arms."""
        if self._root.step():
            self._set_gains()
        acceleration, brake, stiffness_scale = self._acceleration, self._brake, 1.0
        for arm, state in enumerate(states):
            error = self._error.measure(
                state.position_ee_in_base, state.rotation_ee_in_base,
                target.position_ee_in_base[arm], target.rotation_ee_in_base[arm],
            )  # fmt: skip
            twist = state.twist_ee_in_base
            if self._in_tool:
                twist = self._twist
                twist[:] = state.twist_ee_in_base
                self._rotate(error, state.rotation_ee_in_base)
                self._rotate(twist, state.rotation_ee_in_base)
            if self.is_free[arm]:
                self._conservative.project(error, 0.0)
            self._error.clip()
            multiply(self._stiffness, error, acceleration)
            desired = multiply(self._drift, error, self._desired_acceleration)
            if dot(desired, desired) > self._slow2:
                multiply(acceleration, self._fraction_of(arm, state, desired), acceleration)
            multiply(self._damping, twist, brake)
            if self._in_tool:
                self._rotate(acceleration, state.rotation_ee_in_base.T)
                self._rotate(brake, state.rotation_ee_in_base.T)
            space = state.operational_space()
            if self.is_free[arm]:
                for term in (acceleration, brake):
                    self._release(space.inertia, state.rotation_ee_in_base, term)
            spring_wrench = space.apply_inertia(acceleration, self._spring_torque)
            if self.is_free[arm]:
                if self._in_tool:
                    self._rotate(spring_wrench, state.rotation_ee_in_base)
                self._conservative.correct(spring_wrench, self._freedom, self._in_tool)
                if self._in_tool:
                    self._rotate(spring_wrench, state.rotation_ee_in_base.T)
            scale = self._saturation[arm].scale(spring_wrench, state)
            if scale < 1.0:
                multiply(spring_wrench, scale, spring_wrench)
                stiffness_scale = min(stiffness_scale, scale)
            wrench = subtract(
                spring_wrench, space.apply_inertia(brake, self._wrench), self._wrench
            )
            if space.damping > 0.0:
                add(wrench, self._rest_of(space, arm, state, target.posture[arm]), wrench)
            dot(wrench, state.jacobian, self.tau[arm])
        self.report[0] = stiffness_scale

    def _release(self, inertia: Matrix, rotation: Matrix, acceleration: Vector) -> None:
        """Remove in place the accelerations that would cause a wrench along free axes.

        Equation::

            a = a - G (G Lambda G + I - G^2)^-1 G Lambda a

        - a: Acceleration, (6,) [m/s^2, rad/s^2].
        - G: Diagonal fraction by which each axis is free, (6, 6).
        - Lambda: Task-space inertia, (6, 6).

        A wrench along a free axis would do work while the tool moves there.

        Args:
            inertia: Task-space inertia, (6, 6).
            rotation: Rotation of the tool in the base, (3, 3).
            acceleration: Desired acceleration, modified in place, (6,) [m/s^2, rad/s^2].
        """
        free = np.diag(self._free)
        if self._in_tool:
            rotation_step = np.kron(np.eye(2), rotation)
            free = rotation_step @ free @ rotation_step.T
        held = (1.0 + _FREE_AXIS_INERTIA) * np.eye(6) - free @ free
        rest = np.linalg.solve(free @ inertia @ free + held, free @ (inertia @ acceleration))
        acceleration -= free @ rest

    def _fraction_of(self, arm: int, state: ArmState, twist: Vector) -> float:
        """Return the scale nu for a twist (6,) along the gain axes, which is rotated in place."""
        braking = multiply(self._drift, twist, self._braking)
        if self._in_tool:
            self._rotate(twist, state.rotation_ee_in_base.T)
            self._rotate(braking, state.rotation_ee_in_base.T)
        return self._bounds[arm].scale(state, twist, braking)

    def _rest_of(
        self, space: TaskSpaceDynamics, arm: int, state: ArmState, configuration: Vector
    ) -> Vector:
        """Return the wrench of the configuration spring in singular directions, (6,) [N, Nm]."""
        spring_torque, brake = self._pulls[arm], self._slows[arm]
        multiply(
            subtract(configuration, state.q, spring_torque),
            self._nullspace_rate_squared,
            spring_torque,
        )
        max_value = multiply(
            state.limits.velocity, MAX_BRAKING_SPEED_FRACTION * self._nullspace_damping, brake
        )
        minimum(spring_torque, max_value, out=spring_torque)
        maximum(spring_torque, np.negative(max_value, max_value), out=spring_torque)
        subtract(spring_torque, multiply(state.dq, self._nullspace_damping, brake), spring_torque)
        wrench: Vector = dot(space.removed_inertia(), dot(state.jacobian, spring_torque))
        return wrench

    @staticmethod
    def _rotate(pair: Vector, rotation: Matrix) -> None:
        """Rotate two stacked vectors in place: multiply each by ``rotation`` from the right."""
        pair[:3], pair[3:] = dot(pair[:3], rotation), dot(pair[3:], rotation)
