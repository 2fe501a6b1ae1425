# SPDX-License-Identifier: Apache-2.0
"""Parameters and joint-space terms of the controllet ``optimization_augmented``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy import add, dot, multiply

from multipanda_py.control.force.force_control import TANK_LOW, ForceGains
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.limit_scaling import TorqueSaturation, VelocityLimitScaling
from multipanda_py.control.impedance.pose_error import sum_of
from multipanda_py.control.impedance.singularity import SingularityDamping
from multipanda_py.parameters import choice, number, vector
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmLimits, ArmState, Vector

MODES = ("optimization", "force", "hybrid")
"""Control modes: joint plan, pose and forces, or joint plan and forces."""

MAX_STIFFNESS = (3000.0,) * 3 + (200.0,) * 3
"""Maximum stiffness of the pose in mode force. Higher values cause oscillation on stiff contacts
at high latency [N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class AugmentedParams:
    """Parameters of ``OptimizationAugmented``: mode, integral torque, forces and impedance."""

    mode: str = choice(
        "optimization", options=MODES,
        doc="optimization: plan; hybrid: plan and forces; force: pose and forces",
    )  # fmt: skip
    blend_time: float = number(
        0.3, unit="s", low=0.05, high=5,
        doc="blend time between modes, and for the plan to release or regain the direction of a "
        "controlled force",
    )  # fmt: skip
    integral_rate: float = number(
        1.0, unit="1/s", low=0, high=3,
        doc="integral gain of the plan divided by its stiffness; 0 freezes the integral",
    )  # fmt: skip
    integral_torque_scale: float = number(
        0.1, low=0, high=0.3,
        doc="maximum torque of the integral as a fraction of the torque limits",
    )  # fmt: skip
    # The bounds of these gains keep force control stable on contacts of 1e3 to 1e5 N/m at high
    # latency.
    force_kp: float = number(0.2, low=0, high=0.5, doc="proportional gain on the force error")
    force_ki: float = number(10.0, unit="1/s", low=0, high=15, doc="integral gain of the force")
    force_filter_time: float = number(
        0.02, unit="s", low=0.02, high=0.03, doc="time constant of the force measurement"
    )
    force_integral_limit: float = number(
        20.0, unit="N", low=0, high=100, doc="maximum force of the integral part"
    )
    contact_threshold: float = number(
        1.5, unit="N", low=0.05, high=50,
        doc="measured force that indicates contact; all arms must exceed it before they press",
    )  # fmt: skip
    approach_speed: float = number(
        0.01, unit="m/s", low=1e-4, high=0.03, doc="speed of the search for contact"
    )
    loss_distance: float = number(
        0.05, unit="m", low=0.001, high=0.5,
        doc="half the search distance along the direction of the force",
    )  # fmt: skip
    release_time: float = number(
        0.01, unit="s", low=0.001, high=0.05,
        doc="time constant with which forces fade after a loss of contact",
    )  # fmt: skip
    tank_gain: float = number(
        200.0, low=0, high=1e4, doc="K_p of the initial energy K_p F_d^2 / 2 of a force"
    )
    tank_max: float = number(
        100.0, unit="J", low=0, high=1000, doc="maximum initial energy of a force"
    )
    tank_power: float = number(
        2.0, unit="W", low=0, high=100,
        doc="recharging power of the energy tank, for work against friction",
    )  # fmt: skip
    position_stiffness: Vector = vector(
        600, 600, 600, 30, 30, 30, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="stiffness of the pose in mode force, along the axes of the base",
    )  # fmt: skip
    position_damping_ratio: Vector = vector(
        1, 1, 1, 1, 1, 1, low=0.5, high=5,
        doc="damping ratio of the pose in mode force; 1 is critical",
    )  # fmt: skip
    position_clip: Vector = vector(
        0.1, 0.1, 0.1, 0.4, 0.4, 0.4, unit="m, rad", low=1e-4, high=10,
        doc="maximum pose error per axis that the spring acts on",
    )  # fmt: skip
    position_speed: float = number(
        0.1, unit="m/s", low=0.001, high=1,
        doc="maximum speed of the reference towards a target pose",
    )  # fmt: skip
    angular_speed: float = number(
        0.5, unit="rad/s", low=0.005, high=3,
        doc="maximum angular speed of the reference towards a target pose",
    )  # fmt: skip

    def gains(self) -> ForceGains:
        """Return the gains of a force controller that does not search after a loss of contact."""
        return ForceGains(
            self.force_kp, self.force_ki, 0.0, self.force_filter_time,
            self.force_integral_limit, self.contact_threshold, self.approach_speed,
            self.loss_distance, self.release_time, 0.0, self.tank_gain, self.tank_max,
            self.tank_power, tank_low=TANK_LOW,
        )  # fmt: skip


class BoundedSpring:
    """Cartesian spring within torque and speed limits, damped along singular directions.

    Equation::

        F = s_v s_tau K e + d D (dx_d - dx) + F_s

    - K, D: Stiffness and damping, (6, 6).
    - e: Clipped pose error, (6,) [m, rad].
    - dx, dx_d: Measured and reference twist, (6,) [m/s, rad/s].
    - s_tau: Torque-limit scale of ``TorqueSaturation``.
    - s_v, d: Spring and damper scale of ``VelocityLimitScaling``.
    - F_s: Damping of singular directions by ``SingularityDamping``, (6,) [N, Nm].

    Args:
        arm: Description of the arm.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._torque_saturation = TorqueSaturation(arm)
        self._velocity_scaling = VelocityLimitScaling(arm.limits)
        self._singularity_damping = SingularityDamping()

    def limit(self, spring: CartesianSpring, state: ArmState) -> Vector:
        """Return the wrench F of a spring, (6,) [N, Nm]. The next call overwrites it.

        Args:
            spring: Spring with gains along the axes of the base, measured in this cycle.
            state: State of the arm.
        """
        s_tau = self._torque_saturation.spring_scale(spring, state)
        used = self._velocity_scaling.limit_fraction(state)
        s_v, d = self._velocity_scaling.scales(used, spring.ratio, spring.stiffness_scale)
        impedance = spring.wrench(s_v * s_tau, d)
        return sum_of(impedance, self._singularity_damping.damp_spring(state, spring, s_tau))


SATURATION_FRACTION = 0.95
"""Fraction of a torque limit above which a joint counts as saturated."""


class IntegralAction:
    """Integral torque that moves an arm to its planned joint positions.

    It does not grow along a controlled force, where contact keeps the tool from the plan.

    Equations::

        dI/dt  = k_i beta K (e - s M^-1 J_u^T Lambda_u J_u e),   |I_j| <= I_max,j
        beta_j = min(1, zeta_j) min(1, sqrt(K_j / K_0,j))

    - I: Integral torque, (n,) [Nm].
    - k_i: Integral rate [1/s].
    - K, zeta: Joint stiffness [Nm/rad] and damping ratios of the spring to the plan, (n,).
    - K_0: Default stiffness, (n,) [Nm/rad].
    - beta: Reduction for soft springs and low damping ratios, which avoids oscillation, (n,).
    - e: Joint error from the measured positions to the plan, (n,) [rad].
    - u: Unit direction of the controlled force, (6,).
    - s: Fraction of the motion along u that force control has taken over, 0 to 1.
    - I_max: Bounds of the integral torque, (n,) [Nm].
    - M: Inertia matrix, (n, n).
    - J_u: Jacobian along u, u^T J, (n,).
    - Lambda_u: Effective mass along u, 1 / (J_u M^-1 J_u^T).

    A saturated joint integrates only towards lower torque.

    Args:
        limits: Joint limits of the arm.
        period: Cycle time [s].
        usual: Default stiffness K_0, (n,) [Nm/rad].

    Attributes:
        torque: Integral torque I, (n,) [Nm].

    Thread: control.
    """

    def __init__(self, limits: ArmLimits, period: float, usual: Vector) -> None:
        n = limits.n_joints
        self._period, self._full = period, SATURATION_FRACTION * limits.torque
        self._torque_limit, self._usual = limits.torque, usual
        self.torque, self._step = np.zeros(n), np.zeros(n)
        self._gain, self._max = np.zeros(n), np.zeros(n)

    def set_gains(
        self, rate: float, stiffness: Vector, ratio: Vector, bound_fraction: float
    ) -> None:
        """Set the gains and the bound of the integral.

        Args:
            rate: Integral rate k_i [1/s].
            stiffness: Joint stiffness K, (n,) [Nm/rad].
            ratio: Damping ratios zeta, (n,).
            bound_fraction: Bound of I as a fraction of the torque limits.
        """
        slow = np.minimum(ratio, 1.0) * np.minimum(np.sqrt(stiffness / self._usual), 1.0)
        multiply(stiffness, rate * self._period * slow, self._gain)
        multiply(self._torque_limit, bound_fraction, self._max)

    def reset(self) -> None:
        self.torque[:] = 0.0

    def start(self, torque: Vector) -> None:
        """Set the integral to an initial torque, (n,) [Nm], clipped to the bounds of I."""
        np.minimum(np.maximum(torque, -self._max), self._max, out=self.torque)

    def step(
        self, state: ArmState, error: Vector, direction: Vector, force_fraction: float
    ) -> Vector:
        """Integrate the error of one cycle, and return the integral torque I, (n,) [Nm].

        Args:
            state: State of the arm.
            error: Joint error from the measured positions to the plan, (n,) [rad].
            direction: Unit direction u of the controlled force along the base axes, (6,).
            force_fraction: Fraction s of the motion along u that force control has taken over.
        """
        step = self._step
        if force_fraction > 0.0:
            paths = state.operational_space().minv_jt.dot(direction)
            along = dot(direction, state.jacobian)
            mobility = float(dot(along, paths))
            if mobility > 0.0:
                part = force_fraction * float(dot(along, error)) / mobility
                error = error - part * paths
        multiply(self._gain, error, step)
        pushes = (np.abs(state.tau) > self._full) & (state.tau * step > 0.0)
        if pushes.any():
            step[pushes] = 0.0
        torque = add(self.torque, step, self.torque)
        np.maximum(torque, -self._max, out=torque)
        return np.minimum(torque, self._max, out=torque)
