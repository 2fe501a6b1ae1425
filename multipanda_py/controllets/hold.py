# SPDX-License-Identifier: Apache-2.0
"""Hold still: the law of every arm that no other controllet owns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context, Handover
from multipanda_py.control.impedance.brakes import MomentumBrake
from multipanda_py.control.impedance.limit_scaling import TorqueRoom
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import number
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmLimits, ArmState, Vector
from multipanda_py.targets import HeldPosture

_dot, _add, _subtract, _multiply = np.dot, np.add, np.subtract, np.multiply
_absolute, _minimum, _maximum = np.absolute, np.minimum, np.maximum

MAX_FORCE = 50.0
"""Largest force that an arm goes on pressing with: a choice, enough to keep a held object. What a
person may be pressed with depends on the region of the body and on the tool's edges [N]."""


@dataclass(frozen=True, eq=False)
class HoldParams:
    """Bandwidths of :class:`Hold`."""

    brake_rate: float = number(
        75.0, unit="1/s", low=20, high=90,
        doc="bandwidth of the brake for small motions; more is unstable on a late arm",
    )  # fmt: skip
    return_rate: float = number(
        12.0, unit="1/s", low=1, high=15,
        doc="with which a deflected arm returns; stiffness is brake_rate return_rate inertia",
    )  # fmt: skip


class _Anchor:
    r"""Where each joint of one arm is to stay, once it is slow enough to stay anywhere.

    A joint gets its anchor when the momentum on it is below that at which the brake lets go of a
    share of the joint's torque limit: early for the joints that carry the arm, so that their
    springs take them back to where they began to be slow; later for a wrist, which a load that
    nobody told of would make swing in its spring. The anchor is dragged along beyond the
    deflection that the whole torque belongs to, while the joint's torque is at its limit or far
    behind what is asked for (or the joint would be thrown back by what was wound up), and it never
    lies at a stop: a stop may be touched, but is not pressed.
    """

    FULL_RATE = 1000.0
    """Torque rate that the gains are meant for [Nm/s]."""
    QUIET = 0.55
    """Factor on the velocities at rest, which would only be amplified noise; stiffness stays."""
    STILL, STIRRED = 0.1, 0.5
    """Shares of slow: below the first for ``QUIET_AFTER`` is rest, above the second is not."""
    QUIET_AFTER = 0.3
    """[s]"""
    FAST = 2.0
    """Times slow; a joint that is so fast loses its anchor again."""
    PATIENCE = 0.1
    """Time in which once more that momentum comes to count as slow: a load that nobody told of
    keeps a joint creeping that has no spring [s]."""
    RAMP = 0.3
    """Time in which the joints come to brake together: at first, with the torques of before still
    there, each on its own takes more energy and ends nearer [s]."""
    BEHIND = 0.04
    """Time that the rate limit needs for what is asked for, above which an anchor is dragged
    along: a spring whose torque comes so late swings [s]."""
    MARGIN = 0.02
    """Least distance of an anchor from a stop [rad]."""

    def __init__(self, arm: ArmDescription, params: HoldParams, period: float) -> None:
        limits = arm.limits
        self._room, self._period = TorqueRoom(arm), period
        self._limit, self._whole = self._room.torque, np.array(limits.torque)  # the first live
        self._low, self._high = limits.lower + self.MARGIN, limits.upper - self.MARGIN
        n = arm.n_joints
        # The first: which momentum is slow, by the torque that the brake lets go at it. The
        # second: on velocities of joints with anchors, until they rest.
        self._slow_share = np.array(arm.robot.figure("slow"))
        # Springs at early anchors come to pull with all their torque with time.
        self._growth = 1.0 / np.maximum(arm.robot.figure("growth"), 1e-9)
        self._settling = np.array(arm.robot.figure("settling"))
        self._q, self._e = np.zeros(n), np.zeros(n)
        self._v, self._damping = np.zeros(n), np.ones(n)
        self._set, self._full = np.zeros(n, bool), np.zeros(n, bool)
        self.tau_bias, self._late, self._time = np.zeros(n), np.zeros(n), 0.0
        self._take_rate(limits)
        self.brake, self._params = MomentumBrake(limits, params.brake_rate), params
        self.set_gains(params)

    def _take_rate(self, limits: ArmLimits) -> None:
        """Take the torque rates: the least of the joints that turn, and the own of others."""
        rate, slides = limits.torque_rate, limits.slides
        self._torque_rate = float(rate[~slides].min() if not slides.all() else rate.min())
        self._behind = self.BEHIND * np.where(slides, rate, self._torque_rate)

    def set_gains(self, params: HoldParams) -> None:
        """Take the gains over."""
        self._params = params
        # A loop stays one for amplitudes that grow with the torque rate: it is slower with less.
        share = min(1.0, math.sqrt(self._torque_rate / self.FULL_RATE))
        self.brake.set_rate(share * params.brake_rate)
        self._return = share * params.return_rate
        self._calm(False)
        self._slow = self.brake.stopping(self._slow_share * self._whole)
        self._most = self.brake.stopping(self._whole) / self._return

    def _calm(self, quiet: bool) -> None:
        """Choose the damping of rest or of motion; the stiffness stays, or a load would drop."""
        self._damping[:] = self.QUIET if quiet else self._settling
        self._quiet, self._still_for = quiet, 0.0

    def start(self, state: ArmState) -> None:
        """Begin to brake, with no anchor and nothing to press on."""
        self.brake.set_limits(state.limits)  # the arm's own torque rate may be lower
        self._take_rate(state.limits)
        self.set_gains(self._params)
        self._q[:], self._e[:], self.tau_bias[:] = state.q, 0.0, 0.0
        self._set[:] = self._full[:] = False
        self._time = 0.0

    def tau(self, state: ArmState, out: Vector) -> None:
        """Write the torques of this cycle, (n,) [Nm]."""
        brake, mass = self.brake, state.mass
        brake.weigh(mass)
        if self._room.shrinks:
            brake.set_torque(self._room.update(state))
        self._settle(state)
        rate = _multiply(self._deflection(state), self._return, out)
        _add(rate, self._damped(state.dq), rate)
        _add(rate, brake.ahead(_subtract(state.tau, self.tau_bias)), rate)
        together = min(1.0, self._time / self.RAMP)
        tau = _add(brake.torque(mass, rate, together), self.tau_bias, out)
        np.greater_equal(_absolute(tau), 0.95 * self._limit, out=self._full)
        if not self._quiet:
            _subtract(tau, state.tau, self._late)
            self._full |= _absolute(self._late, self._late) > self._behind

    def _settle(self, state: ArmState) -> None:
        """Give the joints that have become slow their anchors, and take those of fast ones."""
        if not self._quiet:
            self._time += self._period
        slow = self._slow * (1.0 + self._time / self.PATIENCE)
        momentum = _absolute(_dot(state.mass, state.dq))
        _maximum(momentum, _absolute(self.brake.light_inertia * state.dq), out=momentum)
        self._set |= momentum < slow
        self._set &= momentum < self.FAST * slow
        np.copyto(self._q, state.q, where=~self._set)
        self._listen(float((momentum / self._slow).max()))

    def _listen(self, share: float) -> None:
        """Become quiet after a while at rest, and wake up at once."""
        self._still_for = self._still_for + self._period if share < self.STILL else 0.0
        if self._quiet != (
            share < self.STIRRED if self._quiet else self._still_for > self.QUIET_AFTER
        ):
            self._calm(not self._quiet)
            self._time = self.RAMP  # whatever moves it next, it begins anew

    def _damped(self, dq: Vector) -> Vector:
        """Return the velocities (n,) as they are damped; without an anchor as they are."""
        damped = self._v
        damped[:] = dq  # a matrix M and unequal factors may drive: for slow joints only
        return _multiply(damped, self._damping, out=damped, where=self._set)

    def _deflection(self, state: ArmState) -> Vector:
        """Return how far each joint is from its anchor, (n,) [rad], and drag anchors along."""
        most = self._most / self.brake.light_inertia
        _multiply(most, _minimum(1.0, self._time * self._growth), most)
        anchor = _minimum(_maximum(self._q, self._low), self._high)
        e = _subtract(state.q, anchor)
        _maximum(_minimum(e, most, out=e), -most, out=e)
        wound = self._full & (_absolute(e) > _absolute(self._e)) & (e * self._e >= 0.0)
        np.copyto(e, self._e, where=wound)
        self._e[:] = e
        _subtract(state.q, e, self._q)
        return e


class Hold(Controllet[HeldPosture, HoldParams]):
    r"""Brake to a stop, and hold the posture in which the arm has come to rest.

    .. math::
        \tau = \mathrm{brake}(M, w) + \tau_0, \qquad
        w = \Gamma \dot q + \lambda\, (q - q_a)

    with :class:`.MomentumBrake`, which knows the limits of torque and
    torque rate, :math:`\lambda` the ``return_rate``, and the anchor :math:`q_a`, which a joint
    gets when it is slow, loses when it is thrown, and drags along when it is pushed with more than
    its torque can hold. :math:`\Gamma` is one, but at rest less, for quiet, and more for a wrist
    that has its anchor, as it may carry a load of several times its inertia. (w is looked ahead,
    and joints brake together only after a while: there.) For small motions this is a spring and
    damper of the arm's own inertia,
    :math:`\tau = -M (b \Gamma \dot q + b \lambda (q - q_a))`, well damped in every posture. The
    limits of torque and rate shape what is asked for; it does not run into them.

    It takes over an arm at start, when its controllet is deactivated, and after a fault, at any
    speed, and stops it also with some milliseconds of delay, inertia that is 20 % off and a
    payload that nobody told of. ``doc/faults.md`` has the figures.

    What the arm was pressing with (:math:`\tau_0`) goes on, up to ``MAX_FORCE``: to let go of a
    held object because a law has failed would drop it.

    Attributes:
        anchors: Brake and anchor of each arm.
    """

    Params, Target = HoldParams, HeldPosture

    def __init__(self, context: Context, params: HoldParams) -> None:
        self.anchors = [_Anchor(arm, params, context.period) for arm in context.arms]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand the gains over."""
        for anchor in self.anchors:
            anchor.set_gains(self.params)

    def on_activate(self, states: Sequence[ArmState], target: HeldPosture) -> None:
        """Begin to brake from the measured state."""
        for anchor, q, dq, state in zip(self.anchors, target.q, target.dq, states):
            q[:], dq[:] = state.q, 0.0
            anchor.start(state)

    def on_handover(
        self, states: Sequence[ArmState], target: HeldPosture, handovers: Sequence[Handover]
    ) -> str:
        """Press on, but never hard."""
        words = []
        for anchor, state, handover in zip(self.anchors, states, handovers):
            bounded = handover.within(MAX_FORCE)
            anchor.tau_bias[:] = bounded.tau
            share = bounded.force / max(handover.force, bounded.force, 1e-9)
            words.append(handover.words(state.name, share))
        return "; ".join(filter(None, words))

    def update(self, states: Sequence[ArmState], target: HeldPosture, period: float) -> None:
        """Write the joint torques of every arm."""
        for anchor, state, tau in zip(self.anchors, states, self.tau):
            anchor.tau(state, tau)
