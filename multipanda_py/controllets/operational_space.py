# SPDX-License-Identifier: Apache-2.0
"""Operational-space control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import dot, maximum, minimum, multiply, subtract

from multipanda_py.context import BumplessTransfer, Context, bounded_error, fraction_of
from multipanda_py.control.impedance.cartesian_spring import ConservativeSpring
from multipanda_py.control.impedance.free_motion import SLOW_MODE, projected_inertia
from multipanda_py.control.impedance.gains import CartesianGains, Ramp, RampedGains
from multipanda_py.control.impedance.limit_scaling import (
    MAX_BRAKING_SPEED_FRACTION,
    WRENCH_SCALE,
    BrakingSpeedLimit,
    TorqueSaturation,
)
from multipanda_py.control.impedance.pose_error import PoseError, scale_by, sum_of
from multipanda_py.parameters import vector
from multipanda_py.robots.dynamics.task_inertia import fade
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import CartesianTarget

MIN_STIFFNESS = 1.0
"""Stiffness below which an axis takes over no wrench at a switch [1/s^2]."""
_FREE_AXIS_INERTIA = 1e-6
"""Additional inertia of free axes, which avoids a singular matrix [kg, kg m^2]."""
_SINGULAR_BANDWIDTH_FRACTION = 0.25
"""Bandwidth of the configuration spring along singular directions, as a fraction of the bandwidth
of the tool."""


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

        e   = clip([p_d - p; log(R_d R^T)])
        a_s = nu K e
        a_d = D J dq
        F_s = s_tau Lambda_d a_s
        F_d = Lambda_d a_d
        F_n = (Lambda - Lambda_d) J (k_s (q_n - q) - d_s dq)
        tau = J^T (F_s - F_d + F_n)

    with the gains::

        D   = min(2 Z K^1/2, b)
        k_s = min_i k_i / 16
        d_s = min_i d_i / 4

    - tau: Joint torques, (n,) [Nm].
    - F_s, F_d, F_n: Wrenches of spring, damper and configuration spring, (6,) [N, Nm].
    - a_s, a_d: Accelerations of spring and damper, (6,) [m/s^2, rad/s^2].
    - e: Clipped pose error, (6,) [m, rad].
    - J: Jacobian along the base axes, (6, n).
    - Lambda, Lambda_d: Task-space inertia without and with damping near singularities, (6, 6).
    - K, D: Diagonal acceleration per error [1/s^2] and per velocity [1/s], (6, 6).
    - k_i, d_i: Elements of K and D.
    - Z: Diagonal damping ratios, (6, 6).
    - b: ``MAX_DAMPING`` [1/s], required by the torque-rate limits.
    - nu, s_tau: Scales of the spring by ``BrakingSpeedLimit`` and ``TorqueSaturation``, 0 to 1.
    - p, R: Measured position [m] and rotation; p_d, R_d: reference.
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_n: Desired nullspace configuration, (n,) [rad].
    - k_s, d_s: Stiffness [1/s^2] and damping [1/s] of the configuration spring.

    Away from singularities (Lambda_d = Lambda), the axes are decoupled and follow dde + D de + K e
    = 0 in any configuration, with the bandwidth K^1/2 [rad/s]. The stiffness in contact is Lambda
    K, which depends on the configuration. Use ``cartesian_impedance`` for a defined stiffness.

    *Free axes.* No wrench acts along an axis without stiffness, except the correction by
    ``ConservativeSpring``.

    *Limits.* For a far target, nu scales all axes of the spring equally, so the path remains
    straight. s_tau is reported as ``wrench scale``.

    *Singularities.* If the smallest eigenvalue of J M^-1 J^T is below 0.02 1/kg, the inertia is
    damped (``TaskInertia``). Along the singular direction, the configuration spring acts at a
    quarter of the bandwidth. The arm slows down before it is stretched, so a tool may stop before
    its target.

    Sources: Khatib, IEEE J. Robotics and Automation 1987, where nu bounds the tool speed; paper on
    the CRISP controllers, section III-A2.
    """

    Params, Target = OperationalSpaceParams, CartesianTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    contact_classes = ("objects",)
    report_names = (WRENCH_SCALE,)

    def __init__(self, context: Context, params: OperationalSpaceParams) -> None:
        self._torque_saturation = [TorqueSaturation(arm) for arm in context.arms]
        self._braking_limits = [
            BrakingSpeedLimit(arm, _SINGULAR_BANDWIDTH_FRACTION) for arm in context.arms
        ]
        self._error, self._root = PoseError(), Ramp(np.sqrt(params.stiffness))
        self._stiffness, self._damping, self._approach_rate = np.zeros((3, 6))
        self._acceleration, self._brake = np.zeros((2, 6))
        self._spring_wrench, self._wrench, self._twist = np.zeros((3, 6))
        self._approach_twist, self._braking = np.zeros((2, 6))
        self._joint_springs, self._joint_dampers = context.joint_zeros(), context.joint_zeros()
        self._reported_damping, self._conservative = 0.0, ConservativeSpring()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Start the ramp to the new gains, or apply them immediately while inactive."""
        p = self.params
        self._root.go(np.sqrt(p.stiffness), self.gain_cycles())
        self._rate = 2.0 * p.damping_ratio
        self._error.set_bounds(p.error_clip)
        self._in_tool = p.gain_frame == "tool"
        self._set_gains()
        self._desired_damping = float((self._rate * np.sqrt(p.stiffness)).max())
        self._notify_of_limited_damping()

    def _notify_of_limited_damping(self) -> None:
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
        np.divide(self._stiffness, np.maximum(self._damping, 1e-9), self._approach_rate)
        for limit in self._braking_limits:
            limit.set_damping(max(self._damping.tolist()))
        self._free = 1.0 - self._stiffness * fade(self._stiffness, SLOW_MODE)
        self._freedom: float = max(self._free.tolist())
        self.is_free[:] = [bool(self._free.any())] * len(self.is_free)
        self._max_approach_rate = max(self._approach_rate.tolist())
        self._negligible = BrakingSpeedLimit.negligible(self._max_approach_rate)
        self._nullspace_rate_squared = _SINGULAR_BANDWIDTH_FRACTION**2 * min(
            self._stiffness.tolist()
        )
        self._nullspace_damping = _SINGULAR_BANDWIDTH_FRACTION * min(self._damping.tolist())

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Hold the measured pose, with the measured configuration as the nullspace target."""
        target.seed(states)
        self._reported_damping = 0.0
        self.start_gains()
        self._notify_of_limited_damping()

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: CartesianTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Displace the targets so that the springs exert the same wrenches as before the switch.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        words = []
        soft = self._stiffness < MIN_STIFFNESS
        for arm, (state, handover) in enumerate(zip(states, transfers)):
            rotation = (
                np.kron(np.eye(2), state.rotation_ee_in_base) if self._in_tool else np.eye(6)
            )
            inertia = state.operational_space().inertia
            desired = np.linalg.pinv(inertia, rcond=1e-9) @ handover.wrench_in_base @ rotation
            error: Vector = np.where(soft, 0.0, desired / np.where(soft, 1.0, self._stiffness))
            bounded_error(error, self._error.bounds)
            reached = inertia @ rotation @ (self._stiffness * error)
            target.displace(arm, np.dot(rotation, error))
            words.append(
                handover.describe(state.name, fraction_of(reached, handover.wrench_in_base))
            )
        return "; ".join(filter(None, words))

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the tool in directions without stiffness, (n,) [rad/s]."""
        twist = self._twist_along_gains(state) * self._free
        if self._in_tool:
            _rotate_both_halves(twist, state.rotation_ee_in_base.T)
        space = state.operational_space()
        velocity: Vector = space.minv_jt.dot(projected_inertia(space).dot(twist))
        return velocity

    def update(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Write the joint torques of all arms."""
        if self._root.step():
            self._set_gains()
        wrench_scale = 1.0
        for arm, state in enumerate(states):
            space = state.operational_space()
            error = self._clipped_error(arm, state, target)
            nu = self._speed_scale(arm, state, error)
            acceleration = scale_by(multiply(self._stiffness, error, self._acceleration), nu)
            spring_acceleration = self._acceleration_in_base(arm, state, acceleration)
            acceleration = multiply(self._damping, self._twist_along_gains(state), self._brake)
            damper_acceleration = self._acceleration_in_base(arm, state, acceleration)
            spring_wrench = space.apply_inertia(spring_acceleration, self._spring_wrench)
            spring_wrench = self._correct_spring_wrench(arm, state, spring_wrench)
            s_tau = self._torque_saturation[arm].scale(spring_wrench, state)
            spring_wrench = scale_by(spring_wrench, s_tau)
            damper_wrench = space.apply_inertia(damper_acceleration, self._wrench)
            configuration_wrench = self._configuration_wrench(
                arm, state, target.nullspace_configuration[arm]
            )
            wrench = subtract(spring_wrench, damper_wrench, self._wrench)
            wrench = sum_of(wrench, configuration_wrench)
            dot(wrench, state.jacobian, self.tau[arm])
            if s_tau < wrench_scale:
                wrench_scale = s_tau
        self.report[0] = wrench_scale

    def _clipped_error(self, arm: int, state: ArmState, target: CartesianTarget) -> Vector:
        """Return the clipped error e along the axes of the gains, (6,) [m, rad]."""
        error = self._error.measure(
            state.position_ee_in_base, state.rotation_ee_in_base,
            target.position_ee_in_base[arm], target.rotation_ee_in_base[arm],
        )  # fmt: skip
        if self._in_tool:
            _rotate_both_halves(error, state.rotation_ee_in_base)
        if self.is_free[arm]:
            self._conservative.project(error, 0.0)
        return self._error.clip_measured()

    def _twist_along_gains(self, state: ArmState) -> Vector:
        """Return the twist of the tool along the axes of the gains, (6,) [m/s, rad/s]."""
        if not self._in_tool:
            return state.twist_ee_in_base
        self._twist[:] = state.twist_ee_in_base
        return _rotate_both_halves(self._twist, state.rotation_ee_in_base)

    def _acceleration_in_base(self, arm: int, state: ArmState, acceleration: Vector) -> Vector:
        if self._in_tool:
            _rotate_both_halves(acceleration, state.rotation_ee_in_base.T)
        return (
            self._without_wrench_along_free_axes(state, acceleration)
            if self.is_free[arm]
            else acceleration
        )

    def _speed_scale(self, arm: int, state: ArmState, error: Vector) -> float:
        """Return the scale nu of the spring by ``BrakingSpeedLimit``, 0 to 1."""
        if self._max_approach_rate * self._error.size <= self._negligible:
            return 1.0
        twist = multiply(self._approach_rate, error, self._approach_twist)
        if dot(twist, twist) <= self._negligible**2:
            return 1.0
        braking = multiply(self._approach_rate, twist, self._braking)
        if self._in_tool:
            _rotate_both_halves(twist, state.rotation_ee_in_base.T)
            _rotate_both_halves(braking, state.rotation_ee_in_base.T)
        return self._braking_limits[arm].scale(state, twist, braking)

    def _correct_spring_wrench(self, arm: int, state: ArmState, wrench: Vector) -> Vector:
        if self.is_free[arm]:
            if self._in_tool:
                _rotate_both_halves(wrench, state.rotation_ee_in_base)
            self._conservative.correct(wrench, self._freedom, self._in_tool)
            if self._in_tool:
                _rotate_both_halves(wrench, state.rotation_ee_in_base.T)
        return wrench

    def _without_wrench_along_free_axes(self, state: ArmState, acceleration: Vector) -> Vector:
        """Return a - G (G Lambda G + I - G^2)^-1 G Lambda a, (6,) [m/s^2, rad/s^2].

        - a: Acceleration, changed in place; Lambda: task-space inertia, (6, 6).
        - G: Diagonal fraction by which each axis is free, (6, 6).
        """
        free, inertia = np.diag(self._free), state.operational_space().inertia
        if self._in_tool:
            to_base = np.kron(np.eye(2), state.rotation_ee_in_base)
            free = to_base @ free @ to_base.T
        held = (1.0 + _FREE_AXIS_INERTIA) * np.eye(6) - free @ free
        rest = np.linalg.solve(free @ inertia @ free + held, free @ (inertia @ acceleration))
        return subtract(acceleration, free @ rest, acceleration)

    def _configuration_wrench(
        self, arm: int, state: ArmState, configuration: Vector
    ) -> Vector | None:
        """Return the wrench F_n of the configuration spring, (6,) [N, Nm]; None if it is zero."""
        space = state.operational_space()
        if space.damping == 0.0:
            return None
        spring, damper = self._joint_springs[arm], self._joint_dampers[arm]
        error = subtract(configuration, state.q, spring)
        multiply(error, self._nullspace_rate_squared, spring)
        max_value = multiply(
            state.limits.velocity, MAX_BRAKING_SPEED_FRACTION * self._nullspace_damping, damper
        )
        minimum(spring, max_value, out=spring)
        maximum(spring, np.negative(max_value, max_value), out=spring)
        subtract(spring, multiply(state.dq, self._nullspace_damping, damper), spring)
        wrench: Vector = dot(space.removed_inertia(), dot(state.jacobian, spring))
        return wrench


def _rotate_both_halves(pair: Vector, rotation: Matrix) -> Vector:
    # ``dot(v, rotation)`` rotates v by the inverse of ``rotation``.
    pair[:3], pair[3:] = dot(pair[:3], rotation), dot(pair[3:], rotation)
    return pair
