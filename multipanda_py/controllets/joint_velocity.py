# SPDX-License-Identifier: Apache-2.0
"""Joint velocity control of a torque-controlled arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy import add, maximum, minimum, multiply, sqrt, subtract

from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.controllets.joint_impedance import JointImpedanceLaw, JointImpedanceParams
from multipanda_py.parameters import number
from multipanda_py.state import ArmLimits, ArmState, Vector
from multipanda_py.targets import JointVelocityTarget, Report


@dataclass(frozen=True, eq=False)
class JointVelocityParams(JointImpedanceParams):
    """Gains and bounds of ``JointVelocity``."""

    timeout: float = number(
        0.1, unit="s", low=0.002, high=10,
        doc="time without a new target after which the velocity is zero",
    )  # fmt: skip
    velocity_scaling: float = number(
        0.8, low=0.01, high=1, doc="maximum joint speed as a fraction of the limits"
    )
    acceleration_scaling: float = number(
        0.3, low=0.01, high=1, doc="acceleration and deceleration as a fraction of the limits"
    )
    margin: float = number(
        0.05, unit="rad", low=0, high=1,
        doc="distance from a position limit at which a joint stops",
    )  # fmt: skip
    max_reference_lead: float = number(
        0.05, unit="rad", low=1e-3, high=0.5,
        doc="maximum distance of the reference from the measured position; bounds the torque",
    )  # fmt: skip


class _VelocityReference:
    """Reference of one arm that follows desired joint velocities within the joint limits.

    Equations per joint and cycle::

        dq_r <- dq_r + clip(clip(dq_d, -dq_max, dq_max) - dq_r, -a T, a T)
        dq_r <= v(d) = a (sqrt(T^2 + 2 d / a) - T)
        q_r  <- q_r + dq_r T

    - q_r, dq_r: Reference position [rad] and velocity [rad/s].
    - dq_d, dq_max: Desired velocity and speed bound [rad/s].
    - a: Acceleration bound [rad/s^2].
    - d: Distance to the joint limit [rad], within which the joint can stop from v(d).
    - T: Cycle time [s].

    q_r is then limited to the distance ``max_reference_lead`` from the measured position.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._limits = limits
        n = limits.n_joints
        self.q, self.dq, self._still = (np.zeros(n) for _ in range(3))
        self._step, self._low, self._high = (np.zeros(n) for _ in range(3))
        self._distance_to_limits = np.zeros((2, n))
        self._up, self._down = self._distance_to_limits
        self.age = np.inf

    def set_bounds(self, params: JointVelocityParams) -> None:
        limits, self._timeout, self._leash = (
            self._limits,
            params.timeout,
            params.max_reference_lead,
        )
        self._fastest = params.velocity_scaling * limits.velocity
        self._slowest = -self._fastest
        self._braking = params.acceleration_scaling * limits.acceleration
        self._per_braking = 2.0 / self._braking
        self._lower, self._upper = limits.lower + params.margin, limits.upper - params.margin

    def start(self, state: ArmState) -> None:
        self.q[:], self.dq[:] = state.q, state.dq
        self.age = np.inf

    def advance(
        self,
        desired_dq: Vector,
        measured_q: Vector,
        period: float,
        allowed_fraction: Callable[[Vector], float],
    ) -> None:
        self.age += period
        goal = desired_dq if self.age <= self._timeout else self._still
        q, dq, low, high = self.q, self.dq, self._low, self._high
        step = multiply(self._braking, period, self._step)
        subtract(dq, step, low)
        add(dq, step, high)
        minimum(goal, self._fastest, out=dq)
        maximum(dq, self._slowest, out=dq)
        maximum(dq, low, out=dq)
        minimum(dq, high, out=dq)
        self._find_stoppable_velocities(period)
        minimum(dq, self._up, out=dq)
        maximum(dq, np.negative(self._down, self._down), out=dq)
        if (scale := allowed_fraction(dq)) < 1.0:
            multiply(dq, scale, dq)
        add(q, multiply(dq, period, step), q)
        minimum(q, add(measured_q, self._leash, high), out=q)
        maximum(q, subtract(measured_q, self._leash, low), out=q)

    def _find_stoppable_velocities(self, period: float) -> None:
        distance = self._distance_to_limits
        subtract(self._upper, self.q, self._up)
        subtract(self.q, self._lower, self._down)
        multiply(maximum(distance, 0.0, out=distance), self._per_braking, distance)
        sqrt(add(distance, period * period, distance), distance)
        multiply(subtract(distance, period, distance), self._braking, distance)


class JointVelocity(JointImpedanceLaw[JointVelocityTarget]):
    """Joint velocity tracking by a spring and damper around an integrated reference.

    Equation::

        tau = K (q_r - q) + D (dq_r - dq)

    - tau: Joint torques, (n,) [Nm].
    - K, D: Joint stiffness [Nm/rad] and damping [Nm s/rad] of ``JointImpedanceLaw``, (n, n).
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_r, dq_r: Integrated reference, (n,).

    The reference is limited in velocity and acceleration. It slows down before joint limits and
    obstacles. ``max_reference_lead`` bounds its distance from an arm that is held back. If a
    client does not renew the velocities within ``timeout``, the arm brakes and holds.

    Attributes:
        references: Integrated reference of each arm.
    """

    Params, Target = JointVelocityParams, JointVelocityTarget
    plans_motion = True
    default_features: ClassVar[tuple[str, ...]] = ("coriolis", "collision_avoidance")
    report_names = (
        Report("max lag", "rad", "maximum error of a joint to its reference"),
        Report("target age", "s", "time since the last target"),
        STIFFNESS_SCALE,
    )
    params: JointVelocityParams

    def __init__(self, context: Context, params: JointVelocityParams) -> None:
        self.references = [_VelocityReference(arm.limits) for arm in context.arms]
        self._followed = JointVelocityTarget(context.n_arms, n_joints=context.joints)
        self._followed.q = [reference.q for reference in self.references]
        self._followed.dq = [reference.dq for reference in self.references]
        self._lags = context.joint_zeros()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        super().on_parameters()
        # Bound the distance of the reference from the arm after a switch. A larger distance would
        # be clipped in the next cycle.
        self.max_lead = self.params.max_reference_lead
        for reference in self.references:
            reference.set_bounds(self.params)

    def on_activate(self, states: Sequence[ArmState], target: JointVelocityTarget) -> None:
        """Brake from the measured velocity, and hold."""
        super().on_activate(states, target)
        for reference, state in zip(self.references, states):
            reference.start(state)

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: JointVelocityTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Displace the references so that the springs exert the same torques as before the switch.

        The displacement is at most ``max_reference_lead``.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        return super().on_transfer(states, self._followed, transfers)

    def on_target(self, channel: str, arm_index: int, target: JointVelocityTarget) -> None:
        """Restart the timeout of the desired velocities of an arm."""
        self.references[arm_index].age = 0.0

    def update(
        self, states: Sequence[ArmState], target: JointVelocityTarget, period: float
    ) -> None:
        """Write the joint torques of all arms."""
        largest = age = 0.0
        for arm, (reference, state, desired) in enumerate(zip(self.references, states, target.dq)):
            reference.advance(desired, state.q, period, partial(self.velocity_scale, arm))
            lag = subtract(reference.q, state.q, self._lags[arm]).tolist()
            largest = max(largest, max(lag), -min(lag))
            age = max(age, min(reference.age, 999.0))
        self.report[0], self.report[1] = largest, age
        super().update(states, self._followed, period)
