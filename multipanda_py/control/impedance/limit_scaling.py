# SPDX-License-Identifier: Apache-2.0
"""Scaling of springs to torque limits, speed limits and braking ability."""

from __future__ import annotations

import math
from math import hypot

import numpy as np
from numpy import absolute, dot, maximum, multiply

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.modal_damping import MIN_DAMPING_RATIO
from multipanda_py.robots import ArmDescription
from multipanda_py.state import MAX_TORQUE_FRACTION, ArmLimits, ArmState, Vector
from multipanda_py.targets import Report

MIN_HEADROOM_FRACTION = 0.1
"""Minimum torque headroom as a fraction of the limit, even if the weight on a joint needs more.
With zero headroom, a controllet could not brake."""


class TorqueHeadroom:
    """Torque headroom of an arm: the torque that gravity compensation leaves to a controllet.

    Equation::

        tau_room = max(min(tau_max, tau_whole - |g(q)|), 0.1 tau_max)

    - tau_max: Torque limits, (n,) [Nm].
    - tau_whole: Total torque available to a controllet and gravity compensation, (n,) [Nm].
    - g(q): Gravity torques with tool and payload, (n,) [Nm].

    tau_whole is tau_max for an arm whose gravity the loop compensates, and the maximum torque of
    the springs for series-elastic joints. For all other arms, tau_room equals tau_max.

    Args:
        arm: Description of the arm.

    Attributes:
        torque: Headroom tau_room of the last ``update``, (n,) [Nm].
        is_reduced: True if the headroom can be below the torque limits. Updates are then needed.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._limit = np.array(arm.limits.torque)
        self._min = MIN_HEADROOM_FRACTION * self._limit
        self.torque: Vector = self._limit.copy()
        self.is_reduced = not arm.compensates_gravity or arm.limits.bears_weight
        self._whole = arm.limits.whole_torque if arm.compensates_gravity else self._limit

    def update(self, state: ArmState) -> Vector:
        """Compute the headroom for the gravity torques of this cycle, and return it, (n,) [Nm]."""
        headroom = np.absolute(state.tau_weight, self.torque)
        np.minimum(np.subtract(self._whole, headroom, headroom), self._limit, out=headroom)
        return np.maximum(headroom, self._min, out=headroom)


NO_CHECK_BELOW = 5.0
"""Norm of a wrench up to which torque limits are not checked, because all joints can exert it in
any configuration [N, Nm]."""
WRENCH_SCALE = Report(
    "wrench scale", "-", "minimum fraction of the spring wrench left by the torque limits"
)
"""Report of controllets that scale their spring by ``TorqueSaturation``."""


class TorqueSaturation:
    """Scale of a tool wrench with which every joint stays within its torque headroom.

    Equation::

        s = min(1, min_i sigma tau_room,i / |(J^T F)_i|)

    - s: Scale of the wrench, 0 to 1.
    - sigma: ``MAX_TORQUE_FRACTION``, 0.9.
    - tau_room: Torque headroom of ``TorqueHeadroom``, (n,) [Nm].
    - J: Jacobian, (6, n); F: wrench on the tool, (6,) [N, Nm].

    Args:
        arm: Description of the arm.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._headroom = TorqueHeadroom(arm)
        self._per_torque = 1.0 / (MAX_TORQUE_FRACTION * self._headroom.torque)
        self._load = np.zeros(arm.n_joints)

    def scale(self, wrench: Vector, state: ArmState) -> float:
        """Return the scale, 0 to 1, that keeps the torques of a wrench within the headroom.

        Args:
            wrench: Wrench along the axes of the base, (6,) [N, Nm].
            state: State of the arm.
        """
        if hypot(*wrench.tolist()) <= NO_CHECK_BELOW:
            return 1.0
        if self._headroom.is_reduced:
            np.divide(1.0 / MAX_TORQUE_FRACTION, self._headroom.update(state), self._per_torque)
        load = wrench.dot(state.jacobian, self._load)
        absolute(multiply(load, self._per_torque, load), load)
        hardest: float = max(load.tolist())
        return 1.0 / max(hardest, 1.0)

    def spring_scale(self, spring: CartesianSpring, state: ArmState) -> float:
        """Return the scale, 0 to 1, that keeps the torques of a spring within the headroom.

        Args:
            spring: Spring after ``measure`` in this cycle.
            state: State of the arm.
        """
        if spring.wrench_bound <= NO_CHECK_BELOW:
            return 1.0
        return self.scale(spring.spring_wrench(), state)


DAMPING_START, DAMPING_FULL = 0.35, 0.65
"""Fractions of a joint's speed limit between which the damping rises to critical."""
SPRING_FADE_START = 0.72
"""Fraction of a speed limit above which a spring fades out. A governed reference uses up to
0.7."""


class VelocityLimitScaling:
    """Scaling of a spring and damper near joint speed limits.

    Equations::

        u = max_i |dq_i| / dq_max,i
        s = clip((1 - u) / (1 - 0.72), 0, 1)
        d = 1 + clip((u - 0.35) / (0.65 - 0.35), 0, 1) (max(1, sqrt(kappa) / zeta) - 1)

    - dq, dq_max: Joint speeds and their limits, (n,) [rad/s].
    - u: Speed of the fastest joint as a fraction of its limit.
    - s, d: Scales of the spring and of the damper.
    - zeta: Damping ratio.
    - kappa: Factor by which ``ModalDamping`` reduces the stiffness, 0 to 1.

    Args:
        limits: Joint limits of the arm.

    Attributes:
        slow: Norm of dq up to which no joint exceeds u = 0.35 [rad/s].

    Thread: control.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._per_speed = 1.0 / limits.velocity
        self.slow = DAMPING_START * float(limits.velocity.min())
        self._velocity_ratios = np.zeros_like(limits.velocity)

    def limit_fraction(self, state: ArmState) -> float:
        """Return the speed of the fastest joint as a fraction u of its limit; 0 up to ``slow``."""
        if not hypot(*state.dq.tolist()) > self.slow:
            return 0.0
        fractions = multiply(state.dq, self._per_speed, self._velocity_ratios)
        max_value: float = max(absolute(fractions, fractions).tolist())
        return max_value

    @staticmethod
    def spring(limit_fraction: float) -> float:
        """Return the spring scale: 1 up to a fraction 0.72 of a speed limit, 0 at the limit."""
        if limit_fraction <= SPRING_FADE_START:
            return 1.0
        return max(0.0, (1.0 - limit_fraction) / (1.0 - SPRING_FADE_START))

    @staticmethod
    def damper(limit_fraction: float, ratio: float, stiffness_scale: float) -> float:
        """Return the factor of the damping: 1 up to u = 0.35, max(1, sqrt(kappa) / zeta) at 0.65.

        Args:
            limit_fraction: Speed of the fastest joint as a fraction u of its limit.
            ratio: Maximum damping ratio zeta of all axes.
            stiffness_scale: Factor kappa by which ``ModalDamping`` reduces the stiffness, 0 to 1.
        """
        missing = max(0.0, math.sqrt(stiffness_scale) / max(ratio, MIN_DAMPING_RATIO) - 1.0)
        return 1.0 + missing * min(
            1.0, max(0.0, (limit_fraction - DAMPING_START) / (DAMPING_FULL - DAMPING_START))
        )

    def scales(
        self, limit_fraction: float, ratio: float, stiffness_scale: float
    ) -> tuple[float, float]:
        """Return the scales s of the spring and d of the damper.

        Args:
            limit_fraction: Speed of the fastest joint as a fraction u of its limit.
            ratio: Maximum damping ratio zeta of all axes.
            stiffness_scale: Factor kappa by which ``ModalDamping`` reduces the stiffness, 0 to 1.
        """
        if limit_fraction <= DAMPING_START:
            return 1.0, 1.0
        return self.spring(limit_fraction), self.damper(limit_fraction, ratio, stiffness_scale)


MAX_BRAKING_SPEED_FRACTION = 0.6
"""Fraction of a joint's speed limit that the spring may use. The rest is for nullspace motion."""
BRAKING_FRACTION = 0.6
"""Fraction of the limits of torque and torque rate available for braking."""
SLOW_TWIST = 0.03
"""Norm of a twist that keeps all joints within ``MAX_BRAKING_SPEED_FRACTION`` in any configuration
[m/s, rad/s]."""
GENTLE_ACCELERATION = 0.15
"""Norm of an acceleration that keeps all joints within ``BRAKING_FRACTION`` in any configuration
[m/s^2, rad/s^2]."""


class BrakingSpeedLimit:
    """Scale of a Cartesian spring that keeps the arm slow enough to brake before its target.

    Equations::

        v    = D^-1 K e
        nu_v = min_i sigma dq_max,i / |(M^-1 J^T Lambda_s v)_i|
        rho  = max_i |(J^T Lambda_d D^-1 K v)_i| / (sigma min(tau_room,i, dtau_max,i / max_j d_j))
        nu   = min(1, nu_v, sqrt(2 rho - 1) / rho if rho > 1)

    - nu: Scale of the spring; sigma = 0.6.
    - v: Twist at which the spring drives the tool, (6,) [m/s, rad/s].
    - nu_v: Scale with which the joint velocities M^-1 J^T Lambda_s v stay within their limits.
    - rho: Braking torques J^T Lambda_d D^-1 K v of an exponential approach, relative to the
      limits.
    - K, D: Task-space stiffness [1/s^2] and damping [1/s] per unit inertia; d_j: elements of D.
    - e: Pose error, (6,) [m, rad].
    - J: Jacobian, (6, n); M: inertia matrix, (n, n).
    - Lambda_d: Task-space inertia with the damping lambda^2, see ``TaskInertia``.
    - Lambda_s: Task-space inertia with the damping ``slower`` lambda^2.
    - dq_max: Speed limits [rad/s]; dtau_max: torque-rate limits [Nm/s], (n,).
    - tau_room: Torque headroom of ``TorqueHeadroom``, (n,) [Nm].

    If rho > 1, the speed is limited such that the arm first brakes with rho = 1 and then continues
    with the exponential approach.

    Near the speed limit of a joint, the spring also fades out as in ``VelocityLimitScaling``.

    Args:
        arm: Description of the arm.
        slower: Factor on lambda^2 in Lambda_s, see ``TaskInertia.damped_inertia_with``.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, slower: float) -> None:
        limits, self._headroom = arm.limits, TorqueHeadroom(arm)
        self._per_speed = 1.0 / (MAX_BRAKING_SPEED_FRACTION * limits.velocity)
        self._per_torque = 1.0 / (BRAKING_FRACTION * limits.torque)
        self._per_rate = 1.0 / (BRAKING_FRACTION * limits.torque_rate)
        self._per_brake, self._per_change = self._per_torque.copy(), self._per_rate
        self._slower, self._margin = slower, VelocityLimitScaling(limits)
        self._speed, self._torque = (np.zeros_like(limits.velocity) for _ in range(2))

    def set_damping(self, fastest: float) -> None:
        """Set the maximum damping max_j d_j, the rate at which braking torques change [1/s]."""
        self._per_change = self._per_rate * fastest
        maximum(self._per_torque, self._per_change, out=self._per_brake)

    @staticmethod
    def negligible(steepest: float) -> float:
        """Return the norm of a tool twist below which the scale is 1 in any configuration.

        Args:
            steepest: Maximum ratio of stiffness to damping of all axes [1/s].
        """
        return min(SLOW_TWIST, GENTLE_ACCELERATION / max(steepest, 1e-9))

    def scale(self, state: ArmState, twist: Vector, braking: Vector) -> float:
        """Return the scale nu of the spring, 0 to 1, with which the arm can brake in time.

        Args:
            state: State of the arm.
            twist: Twist v at which the spring moves the tool, in the base, (6,) [m/s, rad/s].
            braking: Deceleration D^-1 K v of the tool, in the base, (6,) [m/s^2, rad/s^2].
        """
        space, speed, torque = state.operational_space(), self._speed, self._torque
        if self._headroom.is_reduced:
            np.divide(1.0 / BRAKING_FRACTION, self._headroom.update(state), self._per_torque)
            maximum(self._per_torque, self._per_change, out=self._per_brake)
        dot(dot(space.inertia, braking), state.jacobian, torque)
        harder: float = max(absolute(multiply(torque, self._per_brake, torque), torque).tolist())
        dot(space.minv_jt, dot(space.damped_inertia_with(self._slower), twist), speed)
        faster: float = max(absolute(multiply(speed, self._per_speed, speed), speed).tolist())
        left = self._margin.spring(self._margin.limit_fraction(state))
        if faster > 1.0:
            left /= faster
        return min(left, math.sqrt(2.0 * harder - 1.0) / harder) if harder > 1.0 else left
