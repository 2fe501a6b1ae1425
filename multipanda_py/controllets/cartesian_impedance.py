# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from multipanda_py.context import Context, Handover, tool_wrench
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.gains import CartesianGains, RampedGains
from multipanda_py.control.impedance.limit_scaling import (
    BORNE,
    FAST,
    FASTEST,
    SURE,
    BearableShare,
    SpeedMargin,
)
from multipanda_py.control.impedance.modal_damping import KEPT
from multipanda_py.control.impedance.singularity import LostModes, SingularityGuard
from multipanda_py.parameters import flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import MovingCartesianTarget

_add, _multiply, _subtract = np.add, np.multiply, np.subtract
_TargetT = TypeVar("_TargetT", bound=MovingCartesianTarget)


@dataclass(frozen=True, eq=False)
class CartesianImpedanceParams(CartesianGains):
    """Gains of :class:`CartesianImpedance`."""

    twist_timeout: float = number(
        0.1, unit="s", low=0.001, high=10, doc="after which a target twist not renewed is zero"
    )
    feedforward: bool = flag(
        True, doc="whether velocity and acceleration of a streamed target are fed forward"
    )


class CartesianImpedance(RampedGains[MovingCartesianTarget, CartesianImpedanceParams]):
    r"""Render a spring and an inertia-aware damper between the tool and its target.

    .. math::
        \tau = J^T \left( \Lambda \ddot x_d + K e + D (\dot x_d - J \dot q) \right)

    with error, clipping, damping and frames as in
    :class:`.CartesianSpring`. One instance owns as many arms as
    its list names, each with its own target. A full 6 x 6 stiffness may be streamed
    (``target_stiffness``); the parameter takes over again when it is set.

    While a stream moves the target, the governed velocity and acceleration are fed forward
    (parameter ``feedforward``); on the way to a target that has jumped nothing is, so that a
    tool meets what is in the way no faster than its spring draws it, unless
    ``governor.response`` is ``direct``
    (:class:`.ToldMotion`). Nor is it at rest, so that the arm
    is as compliant as ever, nor where the tool does not follow or joints get fast, as on the way
    to a singular posture: it fades out between a half and the whole of the clipped error, and
    from 0.35 to 0.65 of a joint's speed limit. Of the velocity goes in what a damping ratio of 1
    would make of it: with 5, the fading would be a velocity loop of its own, up to the torque
    rate limit on a late arm. This is multipanda_ros2, eq. 1,
    :math:`M_c \ddot x_d + C_c \dot x_d`, with the Coriolis torques of the measured velocity, by
    the feature of that name, in place of those of the target's, and without
    :math:`\Lambda \dot J \dot q`, which at the governor's speeds is a few per cent of the rest.
    Without a governor a streamed twist is fed forward alone.

    Where the spring asks more of a joint than its torque limit, all of its wrench is scaled down
    (:class:`.BearableShare`), which keeps its direction.
    Where joints get fast its damper becomes critical, if it is less, and above 0.72 of a speed
    limit the spring fades out (:class:`.SpeedMargin`).

    An arm that is drawn beyond its reach would swing for seconds about a nearly singular posture;
    :class:`.LostModes` brakes that, and nothing else.
    :class:`.SingularityGuard` holds the arm there against
    torques that the model lacks.

    On hard contacts, a tool of mass m on a surface of stiffness k swings at :math:`\sqrt{k / m}`,
    and a damper that is late by T drives it where :math:`T \sqrt{k / m} > \pi / 2`: on 1e5 N/m
    with more than some 7 ms, and the more the stiffer the spring. An arm with up to 3 ms of delay
    and 2 ms of lag presses there with 4000 N/m at rest; with 5 and 2 ms half of the postures
    swing, most by 130 N and more, and with 1000 N/m some by 30 N. On 3e4 N/m none do. A wrench
    of :class:`.ForceImpedance`, beside soft springs,
    presses on such things without.

    Sources: Hogan 1985;
    CRISP section III-A; Khatib 1987 for the inertia.

    Attributes:
        springs: Spring and damper of each arm.
    """

    Params, Target = CartesianImpedanceParams, MovingCartesianTarget
    default_features = ("nullspace", "coriolis", "wrench", "joint_limits", "collision_avoidance")
    for_features = ("joint",)
    touches = ("things",)
    report_names = (KEPT, BORNE)

    def __init__(self, context: Context, params: CartesianImpedanceParams) -> None:
        self.springs = [CartesianSpring() for _ in context.arms]
        self._bearable = [BearableShare(arm) for arm in context.arms]
        self._margins = [SpeedMargin(arm.limits) for arm in context.arms]
        self._guards = [SingularityGuard(arm, context.period) for arm in context.arms]
        self._damper = np.zeros(6)
        self._twist_left = [0] * context.n_arms
        self._forward, self._lost = np.zeros(6), LostModes()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand the gains to the springs: at once at rest, else within ``gain_time``."""
        p = self.params
        cycles = self.gain_cycles()
        self._least = 1.0 / max(1.0, float(p.damping_ratio.max()))
        for spring in self.springs:
            spring.set_shape(p.damping_ratio, p.error_clip, p.gain_frame == "tool")
            spring.set_stiffness(p.stiffness, cycles)

    def on_activate(self, states: Sequence[ArmState], target: MovingCartesianTarget) -> None:
        """Hold the measured pose, and prefer the measured posture."""
        target.seed(states)
        self.start_gains()  # not those that were streamed
        self.is_free[:] = [spring.is_free for spring in self.springs]
        self._twist_left = [0] * len(states)
        for guard in self._guards:
            guard.reset()

    def on_handover(
        self,
        states: Sequence[ArmState],
        target: MovingCartesianTarget,
        handovers: Sequence[Handover],
    ) -> str:
        """Put the targets where the springs press as before."""
        words = []
        for arm, (state, handover) in enumerate(zip(states, handovers)):
            rest = handover.wrench_in_base - self.hold(arm, state, handover.tau)
            error, share = self.springs[arm].error_for(state, rest)
            target.displace(arm, error)
            words.append(handover.words(state.name, share))
        return "; ".join(filter(None, words))

    def hold(self, arm: int, state: ArmState, tau: Vector) -> Vector:
        """Keep earlier torques (n,) along singular motions; return their wrench (6,)."""
        guard, stiffness = self._guards[arm], self.springs[arm].stiffness_along
        return tool_wrench(state, guard.resume(state, stiffness, tau))

    def compliance(self, arm: int, state: ArmState) -> Matrix:
        """Return the inverse of an arm's stiffness at a posture, (6, 6)."""
        return self.springs[arm].compliance(state)

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the motion that the spring leaves free, (n,) [rad/s]."""
        return self.springs[arm].free_velocity(state)

    def on_target(self, channel: str, place: int, target: MovingCartesianTarget) -> None:
        """Take a streamed stiffness over, and count from when a twist came."""
        if channel == "stiffness":
            self.springs[place].set_stiffness(target.stiffness[place], self.gain_cycles())
        elif channel == "twist":
            self._twist_left[place] = round(self.params.twist_timeout / self.context.period)

    def update(
        self, states: Sequence[ArmState], target: MovingCartesianTarget, period: float
    ) -> None:
        """Write the joint torques of every arm."""
        kept = pulled = 1.0
        for arm, state in enumerate(states):
            spring, twist = self.springs[arm], None
            if self._twist_left[arm] > 0:
                self._twist_left[arm] -= 1
                twist = target.twist_ee_in_base[arm]
            motion, used = target.motion[arm], self._margins[arm].used(state)
            share = 0.0
            if motion.moving and self.params.feedforward:
                share = self._followed(arm, used)
                twist = _multiply(motion.twist, share * self._least, self._forward)
            wrench = spring.wrench(
                state, target.position_ee_in_base[arm], target.rotation_ee_in_base[arm], twist
            )
            self.is_free[arm] = spring.is_free
            is_lost = state.operational_space().damping > 0.0  # a direction
            if is_lost or used > FAST or spring.most_pull > SURE:
                pulled = min(pulled, self._bound(arm, state, used, is_lost, wrench))
            if share > 0.0:
                forward = state.operational_space().apply_inertia(
                    motion.acceleration, self._forward
                )
                _add(wrench, _multiply(forward, share, forward), wrench)
            wrench.dot(state.jacobian, self.tau[arm])
            if is_lost or self._guards[arm].is_near:
                self._guards[arm].add(state, spring.stiffness_along, self.tau[arm])
            if spring.kept < kept:
                kept, self.softest = spring.kept, arm
        self.report[0], self.report[1] = kept, pulled

    def _bound(
        self, arm: int, state: ArmState, used: float, is_lost: bool, wrench: Vector
    ) -> float:
        """Leave of a wrench what the arm stands; return the share of the pull that it bears."""
        spring = self.springs[arm]
        pull = spring.spring_in_base()
        bearable = self._bearable[arm].of(pull, state)
        if bearable < 1.0:
            left = _multiply(pull, bearable)
            _add(wrench, left - pull, wrench)
            pull = left
        if used > FAST:
            self._slow_down(arm, used, pull, wrench)
        if is_lost:
            brake = self._lost.damp(state, pull, spring.damping_along)
            if brake is not None:
                _add(wrench, brake, wrench)
        return bearable

    def _slow_down(self, arm: int, used: float, pull: Vector, wrench: Vector) -> None:
        """Leave in a wrench what fast joints stand of its pull, and damp it as they need."""
        margin, spring = self._margins[arm], self.springs[arm]
        damper = _subtract(wrench, pull, self._damper)
        _multiply(damper, margin.damper(used, spring.ratio, spring.kept), damper)
        _add(_multiply(pull, margin.spring(used), wrench), damper, wrench)

    def _followed(self, arm: int, used: float) -> float:
        """Return the share to feed forward: all of it where an arm follows with ease."""
        behind: float = max(np.abs(self.springs[arm].error / self.params.error_clip).tolist())
        share = min(2.0 - 2.0 * behind, (FASTEST - used) / (FASTEST - FAST))
        return min(1.0, max(0.0, share))

    @property
    def kept(self) -> float:
        """Smallest share of the stiffness that any arm has kept at its posture."""
        return min([spring.kept for spring in self.springs])
