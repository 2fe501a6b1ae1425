# SPDX-License-Identifier: Apache-2.0
"""Passive display of a received wrench on a hand-guided arm, for remote teleoperation."""

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
    """Display of a remote wrench at the tool, passive for any stream.

    Equations::

        tau      = J^T (s w - t B dx)
        w        = phi y
        T_f dy   = bound(w_d) - y
        dphi     = +1 / t_phi or -1 / t_phi, with 0 <= phi <= 1

    - tau: Joint torques, (n,) [Nm]; J: Jacobian, (6, n).
    - w_d: Received wrench of a follower, (6,) [N, Nm].
    - y: Bounded and filtered wrench; T_f: ``time_constant`` [s].
    - phi: Fade factor by the age of the stream; t_phi: ``fade_time`` [s].
    - s: Scale by ``PassivityObserver``, 0 to 1.
    - t: Contact strength, 0 to 1.
    - B: Diagonal damping, (6, 6); dx: twist of the tool, (6,).

    The wrench comes from a follower of another cell over a network. It is delayed, sampled, and
    may be lost. A delayed force generates energy: with a spring k, a delay T acts like a damper of
    -k T. The feature uses no model of delay or loss. It observes the work of the wrench at the
    tool in every cycle, as the passivity observer and controller of one port in the time domain.
    ``PassivityObserver`` grants the energy of a spring kappa, and removes any energy above that by
    s. The energy E released by the port is therefore bounded for any stream::

        E(t) <= (1 + c) / (2 kappa) w_max^2 + beta integral(dx^T t B dx)

    - kappa: ``stiffness``; c, beta: constants of ``PassivityObserver``.
    - w_max: Maximum displayed wrench.

    A passive operator and arm therefore remain passive, and the follower is moved by a leader with
    bounded energy. The damping B, scaled by the contact strength, damps oscillations. The price of
    passivity is that a delayed contact appears as a fading push, which lasts as long as the
    operator has pressed against it.

    If the stream stops, phi decreases to 0 over ``fade_time`` after ``timeout``, with one notice.
    At the activation, the wrench is zero, and phi rises with the first received wrench. The
    feature is intended for hand-guided controllets, in particular ``gravity_compensation``. A
    controllet with springs would oppose it.

    Sources: Hannaford and Ryu, IEEE Trans. Robotics and Automation 2002; Ryu, Artigas and
    Preusche, Mechatronics 2010 (time-varying delay with separate observation of each port).

    Attributes:
        arms: Wrench, damping and passivity observer of each arm.
    """

    Params = FeedbackWrenchParams
    channels = ("feedback_wrench",)

    def __init__(self, context: Context, params: FeedbackWrenchParams) -> None:
        self.arms = [_ArmEstimate(context, arm) for arm in range(context.n_arms)]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        for arm in self.arms:
            arm.set(self.params, self.context.period)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Set the displayed wrench of all arms to zero."""
        for arm in self.arms:
            arm.reset()

    def on_target(self, channel: str, arm_index: int, target: Target) -> None:
        """Restart the watchdog of an arm's stream."""
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


class _ArmEstimate:
    """Displayed wrench of one arm.

    Args:
        context: Context of the controllet.
        arm: Index of the arm in the controllet.

    Attributes:
        account: Passivity observer and controller of the port.
        damping: Damping of the tool while a wrench is displayed, (6,) [N s/m, Nm s/rad].
        wrench: Wrench on the tool in the last cycle, (6,) [N, Nm].
        fresh: Scale of the wrench by the age of its stream, 0 to 1.
        age: Age of the last received wrench [s].
    """

    def __init__(self, context: Context, arm: int) -> None:
        self._name, self._notify = context.arms[arm].name, context.notify
        self.account = PassivityObserver()
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
        self.account.set_stiffness(p.translational_stiffness, p.rotational_stiffness)

    def reset(self) -> None:
        self._filtered[:] = 0.0
        self.account.reset()
        self.age, self.fresh = math.inf, 0.0

    def add(self, state: ArmState, desired: Vector, tau: Vector, period: float) -> None:
        """Add the torques of one cycle.

        Args:
            state: State of the arm.
            desired: Target wrench on the tool, (6,) [N, Nm].
            tau: Torques, modified in place, (n,) [Nm].
            period: Cycle time [s].
        """
        wrench = self._filter(desired, period)
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
        scale = self.account.update(force, torque, wrench, twist, taken, period)
        multiply(wrench, scale, wrench)
        subtract(wrench, braked, wrench)
        add(tau, dot(wrench, state.jacobian, self._torque), tau)

    def _filter(self, desired: Vector, period: float) -> Vector | None:
        """Return the wrench to be displayed, (6,) [N, Nm]; None without a stream."""
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
