# SPDX-License-Identifier: Apache-2.0
"""What an arm elsewhere touches, felt by the hand that leads this one, however late it comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.force.virtual_mass import length, limit, remaining
from multipanda_py.control.teleoperation import ReflectionAccount
from multipanda_py.feature import Feature
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract

TOUCH = (1.0, 0.1)
"""About so much has the tool braked: it is in contact [N, Nm]."""
FELT = 0.5
"""A stream is missed in words if so much was felt when it stopped [N]."""


@dataclass(frozen=True, eq=False)
class FeltWrenchParams:
    """Bounds of :class:`FeltWrench`."""

    patience: float = number(
        0.25, unit="s", low=0.02, high=2, doc="after so long without a wrench it begins to fade"
    )
    fade_time: float = number(
        0.3, unit="s", low=0.02, high=2, doc="over which it fades out, and in again"
    )
    max_force: float = number(15.0, unit="N", low=0, high=50, doc="that may be felt")
    max_torque: float = number(2.0, unit="Nm", low=0, high=10, doc="that may be felt")
    time_constant: float = number(
        0.03, unit="s", low=0, high=1, doc="low pass that rounds the steps of a slow stream"
    )
    stiffness: float = number(
        300.0, unit="N/m", low=50, high=5000,
        doc="of what may be felt; what nobody pressed up moves the tool about force / stiffness",
    )  # fmt: skip
    turn_stiffness: float = number(20.0, unit="Nm/rad", low=2, high=300, doc="likewise of torques")
    damping: float = number(
        15.0, unit="N s/m", low=0, high=40, doc="by which the tool is braked while it feels"
    )
    turn_damping: float = number(
        0.4, unit="Nm s/rad", low=0, high=1, doc="likewise about its axes"
    )


class FeltWrench(Feature[FeltWrenchParams]):
    r"""Have the tool exert a wrench that comes from far away, and stay passive whatever it does.

    .. math::
        \tau = J^T \left( s\, w - t\, B\, \dot x \right), \qquad w = \varphi\, y, \qquad
        T_f\, \dot y = \mathrm{bound}(w_d) - y, \qquad
        \dot \varphi = \pm \tfrac{1}{t_\varphi}

    The target wrench :math:`w_d` is what a follower feels, from another cell over a network, so
    it is late, comes in steps, or not at all. A position that goes one way and a force that
    comes back late are a source of energy: against a spring k the delay T is a damper of
    :math:`-k T`. No model of delay or loss is made. What counts is the work of the wrench here,
    where it meets the hand, in every cycle of the loop: the passivity observer and controller of
    one port, in the time domain. The share s is that of
    :class:`.ReflectionAccount`, which lends
    :math:`|w|^2 / 2 \kappa` and takes back what is beyond. So with E what the port has given

    .. math:: E(t) \le \tfrac{1 + c}{2 \kappa}\, w_{max}^2
        + \beta \int \dot x^T t B \dot x \, dt

    whatever the stream holds: a hand and an arm that are passive stay so with it, and a follower
    is moved by a leader whose energy is bounded. The dampers B, with t from 0 to 1 as something
    is felt, take what swings meanwhile. What passivity costs: a contact that comes late is a push
    that fades, and lasts as far as the hand has pressed against it.

    A stream that stops does not stay: after ``patience`` :math:`\varphi` goes to 0 over
    ``fade_time``, which is said once. Nothing is felt at activation, and :math:`\varphi` rises
    with the first wrench. It is for laws that a hand leads, ``gravity_compensation`` above all;
    one with springs would hold against it.

    Sources: Hannaford and Ryu, IEEE Trans. Robotics and Automation 2002; Ryu, Artigas and
    Preusche, Mechatronics 2010 (time-varying delay: what is observed at each port alone).

    Attributes:
        arms: Wrench, damping and passivity observer of each arm.
    """

    Params = FeltWrenchParams
    channels = ("felt_wrench",)

    def __init__(self, context: Context, params: FeltWrenchParams) -> None:
        self.arms = [_Felt(context, arm) for arm in range(context.n_arms)]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand them to every arm."""
        for arm in self.arms:
            arm.set(self.params, self.context.period)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Feel nothing."""
        for arm in self.arms:
            arm.reset()

    def on_target(self, channel: str, place: int, target: Target) -> None:
        """Note that an arm's stream is alive."""
        if channel == "felt_wrench":
            self.arms[place].silence = 0.0

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add what every arm is to feel."""
        for arm, state, wrench, torque in zip(self.arms, states, target.data["felt_wrench"], tau):
            arm.add(state, wrench, torque, period)


class _Felt:
    """What one arm feels.

    Attributes:
        account: Passivity observer and controller of the port.
        damping: Damping of the tool while a wrench is displayed, (6,) [N s/m, Nm s/rad].
        wrench: Wrench on the tool in the last cycle, (6,) [N, Nm].
        fresh: Scale of the wrench by the age of its stream, 0 to 1.
        silence: Age of the last received wrench [s].
    """

    def __init__(self, context: Context, arm: int) -> None:
        self._name, self._notify = context.arms[arm].name, context.notify
        self.account = ReflectionAccount()
        self._filtered, self.wrench, self._braked = (np.zeros(6) for _ in range(3))
        self.damping = np.zeros(6)
        self._torque = np.zeros(context.joints[arm])
        self.reset()

    def set(self, params: FeltWrenchParams, period: float) -> None:
        """Take new parameters."""
        p = self._params = params
        self._share = -math.expm1(-period / p.time_constant) if p.time_constant > 0.0 else 1.0
        self.damping[:3], self.damping[3:] = p.damping, p.turn_damping
        self.account.set_stiffness(p.stiffness, p.turn_stiffness)

    def reset(self) -> None:
        """Forget everything."""
        self._filtered[:] = 0.0
        self.account.reset()
        self.silence, self.fresh = math.inf, 0.0

    def add(self, state: ArmState, asked: Vector, tau: Vector, period: float) -> None:
        """Add one cycle's torques."""
        wrench = self._filter(asked, period)
        if wrench is None:
            return
        twist = state.twist_ee_in_base
        force, torque = length(wrench[:3]), length(wrench[3:])
        touch = max(remaining(wrench[:3], TOUCH[0]), remaining(wrench[3:], TOUCH[1]))
        braked = _multiply(self.damping, twist, self._braked)
        _multiply(braked, touch, braked)
        taken = float(_dot(braked, twist))
        share = self.account.pass_on(force, torque, wrench, twist, taken, period)
        _multiply(wrench, share, wrench)
        _subtract(wrench, braked, wrench)
        _add(tau, _dot(wrench, state.jacobian, self._torque), tau)

    def _filter(self, asked: Vector, period: float) -> Vector | None:
        """Return the wrench to be felt, (6,), in an array of its own; None for none at all."""
        p, filtered, wrench = self._params, self._filtered, self.wrench
        was_fresh = self.silence <= p.patience
        self.silence += period
        is_fresh = self.silence <= p.patience
        if was_fresh and not is_fresh and length(filtered[:3]) + length(filtered[3:]) > FELT:
            self._notify(
                f"{self._name}: no wrench to be felt for {p.patience:g} s; what is felt fades out"
            )
        step = period / p.fade_time
        self.fresh = min(1.0, self.fresh + step) if is_fresh else max(0.0, self.fresh - step)
        if self.fresh == 0.0:
            filtered[:] = 0.0
            return None
        wrench[:] = asked
        limit(wrench[:3], p.max_force)
        limit(wrench[3:], p.max_torque)
        _subtract(wrench, filtered, wrench)
        _add(filtered, _multiply(wrench, self._share, wrench), filtered)
        return _multiply(filtered, self.fresh, wrench)
