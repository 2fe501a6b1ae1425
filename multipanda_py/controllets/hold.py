# SPDX-License-Identifier: Apache-2.0
"""Controllet that stops and holds every arm that has no other controllet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import absolute, add, dot, maximum, minimum, multiply, subtract

from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.control.impedance.brakes import MomentumBrake
from multipanda_py.control.impedance.limit_scaling import TorqueHeadroom
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import number
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmLimits, ArmState, Vector
from multipanda_py.targets import HeldConfiguration

MAX_FORCE = 50.0
"""Maximum contact force that hold maintains, sufficient for a grasped object [N]. The permissible
force on a person depends on the body region and on the edges of the tool."""


@dataclass(frozen=True, eq=False)
class HoldParams:
    """Bandwidths of ``Hold``."""

    brake_rate: float = number(
        75.0, unit="1/s", low=20, high=90,
        doc="bandwidth of the brake for small motions; higher values are unstable at high latency",
    )  # fmt: skip
    return_rate: float = number(
        12.0, unit="1/s", low=1, high=15,
        doc="rate at which a deflected arm returns; stiffness = brake_rate return_rate inertia",
    )  # fmt: skip


class _JointAnchors:
    """Brake of one arm, with springs that hold slow joints at their anchor positions."""

    DESIGN_TORQUE_RATE = 1000.0
    """Torque-rate limit for which the gains are designed [Nm/s]."""
    REST_DAMPING_FACTOR = 0.55
    """Factor on the damping at rest, where velocities are mainly noise. The stiffness is
    unchanged."""
    REST_START_FRACTION, REST_END_FRACTION = 0.1, 0.5
    """Fractions of the slow momentum. Rest starts after ``REST_DELAY`` below the first, and ends
    above the second."""
    REST_DELAY = 0.3
    """Time below ``REST_START_FRACTION`` after which an arm is at rest [s]."""
    ANCHOR_LOSS_RATIO = 2.0
    """Multiple of the slow momentum above which a joint loses its anchor."""
    MOMENTUM_DOUBLING_TIME = 0.1
    """Time in which the slow momentum doubles [s]. If it were constant, a joint that creeps under
    an unmodelled payload would never get an anchor."""
    FADE_IN_TIME = 0.3
    """Time in which proportional braking, the term -b p of ``MomentumBrake``, fades in [s]. While
    the earlier torques decay, braking each joint separately dissipates more energy and stops
    nearer."""
    MAX_TORQUE_LAG = 0.04
    """Time to reach the desired torque at the rate limit, above which an anchor moves with its
    joint [s]. A spring whose torque has such a delay would oscillate."""
    LIMIT_MARGIN = 0.02
    """Minimum distance of an anchor from a joint limit [rad]."""

    def __init__(self, arm: ArmDescription, params: HoldParams, period: float) -> None:
        limits = arm.limits
        self._headroom, self._period = TorqueHeadroom(arm), period
        # ``TorqueHeadroom`` updates the array ``_limit``. ``_whole`` are the constant torque
        # limits.
        self._limit, self._whole = self._headroom.torque, np.array(limits.torque)
        self._low, self._high = limits.lower + self.LIMIT_MARGIN, limits.upper - self.LIMIT_MARGIN
        n = arm.n_joints
        # Fractions of the torque limits with which the brake can stop a joint of the slow
        # momentum. A joint gets an anchor below this momentum. It is low for wrist joints, because
        # they would oscillate with an unmodelled payload.
        self._slow_fraction = np.array(arm.robot.value("slow"))
        # Some joints get their anchor (held position) before the arm is at rest. For these: rates
        # at which the maximum deflection from the anchor grows [1/s], and damping factors.
        self._growth = 1.0 / np.maximum(arm.robot.value("growth"), 1e-9)
        self._settling = np.array(arm.robot.value("settling"))
        self._q, self._last_deflection = np.zeros(n), np.zeros(n)
        self._v, self._damping = np.zeros(n), np.ones(n)
        self._is_anchored, self._is_saturated = np.zeros(n, bool), np.zeros(n, bool)
        self.tau_bias, self._torque_lag, self._time = np.zeros(n), np.zeros(n), 0.0
        self._set_torque_rates(limits)
        self.brake, self._params = MomentumBrake(limits, params.brake_rate), params
        self.set_gains(params)

    def _set_torque_rates(self, limits: ArmLimits) -> None:
        # One limit for all revolute joints, and one for each prismatic joint.
        rate, slides = limits.torque_rate, limits.slides
        self._torque_rate = float(rate[~slides].min() if not slides.all() else rate.min())
        self._max_torque_lag = self.MAX_TORQUE_LAG * np.where(slides, rate, self._torque_rate)

    def set_gains(self, params: HoldParams) -> None:
        self._params = params
        # The brake keeps its bandwidth B up to a momentum proportional to r / B^2, with the
        # torque-rate limit r. With B scaled by sqrt(r), this momentum is equal for all arms.
        scale = min(1.0, math.sqrt(self._torque_rate / self.DESIGN_TORQUE_RATE))
        self.brake.set_rate(scale * params.brake_rate)
        self._return = scale * params.return_rate
        self._set_rest_damping(False)
        self._slow = self.brake.stopping(self._slow_fraction * self._whole)
        self._max = self.brake.stopping(self._whole) / self._return

    def _set_rest_damping(self, at_rest: bool) -> None:
        self._damping[:] = self.REST_DAMPING_FACTOR if at_rest else self._settling
        self._is_at_rest, self._rest_time = at_rest, 0.0

    def start(self, state: ArmState) -> None:
        # The torque-rate limit in the state may be lower than that of the robot model, so compute
        # the gains again.
        self.brake.set_limits(state.limits)
        self._set_torque_rates(state.limits)
        self.set_gains(self._params)
        self._q[:], self._last_deflection[:], self.tau_bias[:] = state.q, 0.0, 0.0
        self._is_anchored[:] = self._is_saturated[:] = False
        self._time = 0.0

    def tau(self, state: ArmState, out: Vector) -> None:
        """Write joint torques to ``out``, (n,) [Nm]."""
        brake, mass = self.brake, state.mass_matrix
        brake.weigh(mass)
        if self._headroom.is_reduced:
            brake.set_torque(self._headroom.update(state))
        self._update_anchors(state)
        rate = multiply(self._deflections_from_anchors(state), self._return, out)
        add(rate, self._damped_velocities(state.dq), rate)
        add(rate, brake.ahead(subtract(state.tau, self.tau_bias)), rate)
        proportional_scale = min(1.0, self._time / self.FADE_IN_TIME)
        tau = add(brake.torque(mass, rate, proportional_scale), self.tau_bias, out)
        np.greater_equal(absolute(tau), 0.95 * self._limit, out=self._is_saturated)
        if not self._is_at_rest:
            lag = subtract(tau, state.tau, self._torque_lag)
            self._is_saturated |= absolute(lag, lag) > self._max_torque_lag

    def _update_anchors(self, state: ArmState) -> None:
        if not self._is_at_rest:
            self._time += self._period
        slow = self._slow * (1.0 + self._time / self.MOMENTUM_DOUBLING_TIME)
        momentum = absolute(dot(state.mass_matrix, state.dq))
        maximum(momentum, absolute(self.brake.light_inertia * state.dq), out=momentum)
        self._is_anchored |= momentum < slow
        self._is_anchored &= momentum < self.ANCHOR_LOSS_RATIO * slow
        np.copyto(self._q, state.q, where=~self._is_anchored)
        self._update_rest(float((momentum / self._slow).max()))

    def _update_rest(self, momentum_ratio: float) -> None:
        self._rest_time = (
            self._rest_time + self._period if momentum_ratio < self.REST_START_FRACTION else 0.0
        )
        at_rest = self._rest_time > self.REST_DELAY
        if self._is_at_rest:
            at_rest = momentum_ratio < self.REST_END_FRACTION
        if at_rest != self._is_at_rest:
            self._set_rest_damping(at_rest)
            # ``_time`` determines the slow momentum and the fade-in of braking. With this value,
            # the slow momentum is small again, and the fade-in stays complete.
            self._time = self.FADE_IN_TIME

    def _damped_velocities(self, dq: Vector) -> Vector:
        damped = self._v
        # The brake torque is proportional to M F dq with the damping factors F. Unequal factors
        # may add energy, because M couples the joints. Apply them only to slow joints.
        damped[:] = dq
        return multiply(damped, self._damping, out=damped, where=self._is_anchored)

    def _deflections_from_anchors(self, state: ArmState) -> Vector:
        """Return the deflections from the anchors, (n,) [rad], and move far anchors."""
        max_value = self._max / self.brake.light_inertia
        multiply(max_value, minimum(1.0, self._time * self._growth), max_value)
        anchor = minimum(maximum(self._q, self._low), self._high)
        e = subtract(state.q, anchor)
        maximum(minimum(e, max_value, out=e), -max_value, out=e)
        last = self._last_deflection
        # Energy of a spring beyond the joint torque would accelerate the joint backwards.
        is_wound_up = self._is_saturated & (absolute(e) > absolute(last)) & (e * last >= 0.0)
        np.copyto(e, last, where=is_wound_up)
        last[:] = e
        subtract(state.q, e, self._q)
        return e


class Hold(Controllet[HeldConfiguration, HoldParams]):
    """Braking to a stop, and holding of the configuration at rest.

    Equations::

        tau = brake(M, w) + tau_0
        w   = Gamma dq + lambda (q - q_a)

    - tau: Joint torques, (n,) [Nm].
    - brake: ``MomentumBrake``, which keeps the limits of torque and torque rate.
    - w: Velocities to be braked, which include a return to the anchors, (n,) [rad/s].
    - M: Inertia matrix, (n, n) [kg m^2].
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_a: Anchor positions, at which springs hold the joints, (n,) [rad].
    - lambda: ``return_rate`` [1/s].
    - Gamma: Damping factors, 1 in motion.
    - tau_0: Torques of a maintained contact force, (n,) [Nm].

    A slow joint gets an anchor at its position, and loses it when it becomes fast. Without an
    anchor, q_a is q. The anchor moves with a joint whose torque limit is exceeded. Gamma is lower
    at rest.

    For small motions, hold is a spring and damper proportional to the inertia of the arm::

        tau = -M (b Gamma dq + b lambda (q - q_a))

    - b: Bandwidth ``brake_rate`` [1/s].

    Hold takes over an arm at the start, after a deactivation of its controllet and after a fault,
    at any speed.

    A contact force at the switch (tau_0) is maintained up to ``MAX_FORCE``, so that a grasped
    object is not dropped.

    Attributes:
        anchors: Brake and anchors of each arm.
    """

    Params, Target = HoldParams, HeldConfiguration

    def __init__(self, context: Context, params: HoldParams) -> None:
        self.anchors = [_JointAnchors(arm, params, context.period) for arm in context.arms]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        for anchor in self.anchors:
            anchor.set_gains(self.params)

    def on_activate(self, states: Sequence[ArmState], target: HeldConfiguration) -> None:
        """Start to brake from the measured state."""
        for anchor, q, dq, state in zip(self.anchors, target.q, target.dq, states):
            q[:], dq[:] = state.q, 0.0
            anchor.start(state)

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: HeldConfiguration,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Maintain contact forces up to ``MAX_FORCE``.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        words = []
        for anchor, state, handover in zip(self.anchors, states, transfers):
            bounded = handover.within(MAX_FORCE)
            anchor.tau_bias[:] = bounded.tau
            fraction = bounded.force / max(handover.force, bounded.force, 1e-9)
            words.append(handover.describe(state.name, fraction))
        return "; ".join(filter(None, words))

    def update(self, states: Sequence[ArmState], target: HeldConfiguration, period: float) -> None:
        """Write the joint torques of all arms."""
        for anchor, state, tau in zip(self.anchors, states, self.tau):
            anchor.tau(state, tau)
