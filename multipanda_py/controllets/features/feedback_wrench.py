# SPDX-License-Identifier: Apache-2.0
"""Feature for remote teleoperation: a hand-guided arm exerts the wrench of a remote follower."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add, dot, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.control.force.virtual_mass import length, limit, remaining
from multipanda_py.control.teleoperation import PassivityObserver
from multipanda_py.feature import Feature
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

CONTACT_DEADBAND = (1.0, 0.1)
"""Deadband of the displayed wrench, above which the contact damping fades in [N, Nm]."""
MIN_REPORTED_WRENCH = 0.5
"""Minimum displayed wrench for a notice about a stopped stream [N]."""


@dataclass(frozen=True, eq=False)
class FeedbackWrenchParams:
    """Parameters of ``FeedbackWrench``: bounds, filter, and passivity of the displayed wrench."""

    timeout: float = number(
        0.25,
        unit="s",
        low=0.02,
        high=2,
        doc="time without a new wrench after which the displayed one fades out",
    )
    fade_time: float = number(0.3, unit="s", low=0.02, high=2, doc="duration of fading out and in")
    max_force: float = number(15.0, unit="N", low=0, high=50, doc="maximum displayed force")
    max_torque: float = number(2.0, unit="Nm", low=0, high=10, doc="maximum displayed torque")
    time_constant: float = number(
        0.03, unit="s", low=0, high=1,
        doc="time constant of the low-pass filter that smooths a slow stream",
    )  # fmt: skip
    translational_stiffness: float = number(
        300.0, unit="N/m", low=50, high=5000,
        doc="maximum displayed stiffness; a wrong force moves the tool by about force / stiffness",
    )  # fmt: skip
    rotational_stiffness: float = number(
        20.0, unit="Nm/rad", low=2, high=300, doc="maximum displayed rotational stiffness"
    )
    translational_damping: float = number(
        15.0, unit="N s/m", low=0, high=40, doc="damping of the tool while a wrench is displayed"
    )
    rotational_damping: float = number(
        0.4, unit="Nm s/rad", low=0, high=1,
        doc="rotational damping of the tool while a wrench is displayed",
    )  # fmt: skip


class FeedbackWrench(Feature[FeedbackWrenchParams]):
    """Wrench of a remote follower on a hand-guided arm, passive for any delay and loss.

    Equations::

        tau      = J^T (s w - t B dx)
        w        = phi y
        T_f dy   = bound(w_d) - y
        dphi     = +1 / t_phi or -1 / t_phi, with 0 <= phi <= 1

    - tau: Joint torques, (n,) [Nm]; J: Jacobian, (6, n).
    - w_d: Received wrench of a follower, (6,) [N, Nm].
    - y: Bounded and filtered wrench; T_f: ``time_constant`` [s].
    - w: Displayed wrench, (6,) [N, Nm].
    - phi: Fade factor: rises while w_d is streamed, falls without; t_phi: ``fade_time`` [s].
    - s: Scale by ``PassivityObserver``, 0 to 1.
    - t: Contact strength: 0 for w within a deadband of 1 N and 0.1 Nm, close to 1 far above it.
    - B: Diagonal damping, (6, 6); dx: twist of the tool, (6,).

    For any delay and loss, the energy E that the wrench releases is bounded::

        E(t) <= (1 + c) / (2 kappa) w_max^2 + beta integral(dx^T t B dx)

    - kappa: Parameter ``translational_stiffness`` or ``rotational_stiffness``.
    - c, beta: Constants of ``PassivityObserver``.
    - w_max: Maximum displayed wrench.

    A delayed contact therefore appears as a push that fades. If the stream stops, phi decreases to
    0 over ``fade_time`` after ``timeout``, and a message is sent.

    The feature is intended for hand-guided controllets, in particular ``gravity_compensation``. A
    controllet with springs would oppose the wrench.

    Sources: Hannaford and Ryu, IEEE Trans. Robotics and Automation 2002; Ryu, Artigas and
    Preusche, Mechatronics 2010 (time-varying delay with separate observation of each port).

    Attributes:
        arms: Wrench, damping and passivity observer of each arm.
    """

    Params = FeedbackWrenchParams
    channels = ("feedback_wrench",)

    def __init__(self, context: Context, params: FeedbackWrenchParams) -> None:
        self.arms = [_DisplayedWrench(context, arm) for arm in range(context.n_arms)]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        for arm in self.arms:
            arm.set(self.params, self.context.period)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Set the displayed wrench of all arms to zero."""
        for arm in self.arms:
            arm.reset()

    def on_target(self, channel: str, arm_index: int, target: Target) -> None:
        """Restart the timeout of the wrench stream of an arm."""
        if channel == "feedback_wrench":
            self.arms[arm_index].age = 0.0

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the joint torques of the displayed wrenches of all arms."""
        for arm, state, wrench, torque in zip(
            self.arms, states, target.data["feedback_wrench"], tau
        ):
            arm.add(state, wrench, torque, period)


class _DisplayedWrench:
    """Displayed wrench of one arm."""

    def __init__(self, context: Context, arm: int) -> None:
        self._name, self._notify = context.arms[arm].name, context.notify
        self.observer = PassivityObserver()
        self._filtered, self.wrench, self._braked = (np.zeros(6) for _ in range(3))
        self.damping = np.zeros(6)
        self._torque = np.zeros(context.joints[arm])
        self.reset()

    def set(self, params: FeedbackWrenchParams, period: float) -> None:
        p = self._params = params
        self._filter_gain = (
            -math.expm1(-period / p.time_constant) if p.time_constant > 0.0 else 1.0
        )
        self.damping[:3], self.damping[3:] = p.translational_damping, p.rotational_damping
        self.observer.set_stiffness(p.translational_stiffness, p.rotational_stiffness)

    def reset(self) -> None:
        self._filtered[:] = 0.0
        self.observer.reset()
        # Age of the last received wrench [s], and fade factor: 1 during a stream, 0 without.
        self.age, self.fresh = math.inf, 0.0

    def add(self, state: ArmState, received: Vector, tau: Vector, period: float) -> None:
        wrench = self._filtered_wrench(received, period)
        if wrench is None:
            return
        twist = state.twist_ee_in_base
        force, torque = length(wrench[:3]), length(wrench[3:])
        touch = max(
            remaining(wrench[:3], CONTACT_DEADBAND[0]), remaining(wrench[3:], CONTACT_DEADBAND[1])
        )
        braked = multiply(self.damping, twist, self._braked)
        multiply(braked, touch, braked)
        taken = float(dot(braked, twist))
        scale = self.observer.update(force, torque, wrench, twist, taken, period)
        multiply(wrench, scale, wrench)
        subtract(wrench, braked, wrench)
        add(tau, dot(wrench, state.jacobian, self._torque), tau)

    def _filtered_wrench(self, desired: Vector, period: float) -> Vector | None:
        """Return the displayed wrench w, (6,) [N, Nm]; None if it has faded out."""
        p, filtered, wrench = self._params, self._filtered, self.wrench
        was_fresh = self.age <= p.timeout
        self.age += period
        is_fresh = self.age <= p.timeout
        if (
            was_fresh
            and not is_fresh
            and length(filtered[:3]) + length(filtered[3:]) > MIN_REPORTED_WRENCH
        ):
            self._notify(
                f"{self._name}: no feedback wrench for {p.timeout:g} s, so the displayed one "
                "fades out"
            )
        step = period / p.fade_time
        self.fresh = min(1.0, self.fresh + step) if is_fresh else max(0.0, self.fresh - step)
        if self.fresh == 0.0:
            filtered[:] = 0.0
            return None
        wrench[:] = desired
        limit(wrench[:3], p.max_force)
        limit(wrench[3:], p.max_torque)
        subtract(wrench, filtered, wrench)
        add(filtered, multiply(wrench, self._filter_gain, wrench), filtered)
        return multiply(filtered, self.fresh, wrench)
