# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy import add, multiply, subtract

from multipanda_py.context import Context, Handover, tool_wrench
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.gains import CartesianGains, RampedGains
from multipanda_py.control.impedance.limit_scaling import (
    DAMPING_FULL,
    DAMPING_START,
    NO_CHECK_BELOW,
    WRENCH_SCALE,
    TorqueSaturation,
    VelocityLimitScaling,
)
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.control.impedance.singularity import SingularityDamping, SingularityHold
from multipanda_py.parameters import flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import MovingCartesianTarget

_TargetT = TypeVar("_TargetT", bound=MovingCartesianTarget)


@dataclass(frozen=True, eq=False)
class CartesianImpedanceParams(CartesianGains):
    """Gains and feed-forward of ``CartesianImpedance``."""

    twist_timeout: float = number(
        0.1, unit="s", low=0.001, high=10,
        doc="time without a new target twist after which it counts as zero",
    )  # fmt: skip
    feedforward: bool = flag(
        True, doc="feed velocity and acceleration of a streamed target forward"
    )


class CartesianImpedance(RampedGains[MovingCartesianTarget, CartesianImpedanceParams]):
    """Cartesian spring and inertia-dependent damper between the tool and its target.

    Equation::

        tau = J^T (Lambda ddx_d + K e + D (dx_d - J dq))

    - tau: Joint torques, (n,) [Nm].
    - J: Jacobian of the end effector along the base axes, (6, n).
    - Lambda: Task-space inertia, (6, 6) [kg, kg m^2].
    - dx_d, ddx_d: Feed-forward velocity and acceleration of the reference, (6,).
    - e: Clipped pose error, (6,) [m, rad].
    - K: Stiffness, (6, 6) [N/m, Nm/rad].
    - D: Damping of ``ModalDamping``, (6, 6) [N s/m, Nm s/rad].
    - dq: Joint velocities, (n,) [rad/s].

    Error, clipping, damping and gain frames are those of ``CartesianSpring``. One instance owns
    all arms of its list, each with a separate target. A full 6 x 6 stiffness may be streamed
    (``target_stiffness``). A new parameter value replaces it.

    *Feed-forward.* While a target is streamed, the governed velocity and acceleration are fed
    forward (parameter ``feedforward``). After a jump of the target, there is no feed-forward, so
    that the tool meets an obstacle with no more than its spring. Set ``governor.response: direct``
    for feed-forward after jumps as well (``ReferenceFeedForward``). There is no feed-forward at
    rest. In motion, it fades out linearly (a) as the clipped error grows from 50 % to 100 % and
    (b) as any joint speed grows from 35 % to 65 % of its limit. The velocity term is scaled to a
    damping ratio of 1. At a ratio of 5, its fading would otherwise act as a velocity loop and
    oscillate at the torque-rate limit at high latency. Without a governor, only a streamed twist
    is fed forward.

    The feed-forward corresponds to multipanda_ros2, eq. 1, M_c ddx_d + C_c dx_d, with two
    differences. The feature ``coriolis`` computes the Coriolis torques from the measured velocity.
    The term Lambda dJ dq is omitted, which is a few per cent of the total at the governor's
    speeds.

    *Limits.* If a joint would exceed its torque limit, the spring wrench is scaled down and keeps
    its direction (``TorqueSaturation``). At high joint speeds, the damping becomes critical if it
    is lower, and above 0.72 of a speed limit the spring fades out (``VelocityLimitScaling``).

    *Singularities.* A target out of reach would let the arm oscillate for seconds near a singular
    configuration. ``SingularityDamping`` damps this motion. ``SingularityHold`` holds the arm
    there against unmodelled torques.

    *Hard contacts.* A tool of mass m on a surface of stiffness k oscillates at sqrt(k / m). A
    damper with a delay T drives this oscillation if T sqrt(k / m) > pi / 2. On 1e5 N/m, this is
    the case above about 7 ms, and increasingly with the stiffness of the spring. An arm with up to
    3 ms of delay and 2 ms of lag presses there with 4000 N/m at rest. With 5 and 2 ms, half of the
    configurations oscillate, the majority by 130 N or more. With 1000 N/m, some oscillate by 30 N.
    On 3e4 N/m, none do. ``ForceImpedance`` with a soft spring presses on such surfaces without
    oscillation.

    Sources: Hogan 1985; CRISP section III-A; Khatib 1987 for the inertia.

    Attributes:
        springs: Spring and damper of each arm.
    """

    Params, Target = CartesianImpedanceParams, MovingCartesianTarget
    default_features = ("nullspace", "coriolis", "wrench", "joint_limits", "collision_avoidance")
    for_features = ("joint",)
    touches = ("things",)
    report_names = (STIFFNESS_SCALE, WRENCH_SCALE)

    def __init__(self, context: Context, params: CartesianImpedanceParams) -> None:
        self.springs = [CartesianSpring() for _ in context.arms]
        self._saturation = [TorqueSaturation(arm) for arm in context.arms]
        self._margins = [VelocityLimitScaling(arm.limits) for arm in context.arms]
        self._guards = [SingularityHold(arm, context.period) for arm in context.arms]
        self._damper = np.zeros(6)
        self._twist_left = [0] * context.n_arms
        self._forward, self._lost = np.zeros(6), SingularityDamping()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the gains of the springs, with a ramp of ``gain_time`` while active."""
        p = self.params
        cycles = self.gain_cycles()
        self._min = 1.0 / max(1.0, float(p.damping_ratio.max()))
        for spring in self.springs:
            spring.set_shape(p.damping_ratio, p.error_clip, p.gain_frame == "tool")
            spring.set_stiffness(p.stiffness, cycles)

    def on_activate(self, states: Sequence[ArmState], target: MovingCartesianTarget) -> None:
        """Hold the measured pose, with the measured configuration as the nullspace target."""
        target.seed(states)
        self.start_gains()  # A stiffness streamed to an earlier activation is discarded here.
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
        """Set the targets at which the springs exert the same wrenches as before."""
        words = []
        for arm, (state, handover) in enumerate(zip(states, handovers)):
            rest = handover.wrench_in_base - self.hold(arm, state, handover.tau)
            error, fraction = self.springs[arm].error_for(state, rest)
            target.displace(arm, error)
            words.append(handover.words(state.name, fraction))
        return "; ".join(filter(None, words))

    def hold(self, arm: int, state: ArmState, tau: Vector) -> Vector:
        """Keep the previous torques in singular directions, and return their wrench, (6,) [N, Nm].

        ``SingularityHold`` exerts them from now on.

        Args:
            arm: Index of the arm.
            state: State of the arm.
            tau: Torques before the switch, (n,) [Nm].
        """
        guard, stiffness = self._guards[arm], self.springs[arm].stiffness_along
        return tool_wrench(state, guard.resume(state, stiffness, tau))

    def compliance(self, arm: int, state: ArmState) -> Matrix:
        """Return the inverse stiffness of an arm in its configuration, (6, 6) [m/N, rad/Nm].

        Args:
            arm: Index of the arm.
            state: State of the arm.
        """
        return self.springs[arm].compliance(state)

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the motion that the spring leaves free, (n,) [rad/s]."""
        return self.springs[arm].free_velocity(state)

    def on_target(self, channel: str, place: int, target: MovingCartesianTarget) -> None:
        """Apply a streamed stiffness, or restart the timeout of a twist."""
        if channel == "stiffness":
            self.springs[place].set_stiffness(target.stiffness[place], self.gain_cycles())
        elif channel == "twist":
            self._twist_left[place] = round(self.params.twist_timeout / self.context.period)

    def update(
        self, states: Sequence[ArmState], target: MovingCartesianTarget, period: float
    ) -> None:
        """Write the joint torques of all arms."""
        stiffness_scale = pulled = 1.0
        for arm, state in enumerate(states):
            spring, twist = self.springs[arm], None
            if self._twist_left[arm] > 0:
                self._twist_left[arm] -= 1
                twist = target.twist_ee_in_base[arm]
            motion, used = target.motion[arm], self._margins[arm].used(state)
            scale = 0.0
            if motion.moving and self.params.feedforward:
                scale = self._followed(arm, used)
                twist = multiply(motion.twist, scale * self._min, self._forward)
            wrench = spring.wrench(
                state, target.position_ee_in_base[arm], target.rotation_ee_in_base[arm], twist
            )
            self.is_free[arm] = spring.is_free
            # ``damping`` is above 0 near a singularity. ``_bound`` damps singular directions.
            is_lost = state.operational_space().damping > 0.0
            if is_lost or used > DAMPING_START or spring.wrench_bound > NO_CHECK_BELOW:
                pulled = min(pulled, self._bound(arm, state, used, is_lost, wrench))
            if scale > 0.0:
                forward = state.operational_space().apply_inertia(
                    motion.acceleration, self._forward
                )
                add(wrench, multiply(forward, scale, forward), wrench)
            wrench.dot(state.jacobian, self.tau[arm])
            if is_lost or self._guards[arm].is_near:
                self._guards[arm].add(state, spring.stiffness_along, self.tau[arm])
            if spring.stiffness_scale < stiffness_scale:
                stiffness_scale, self.softest = spring.stiffness_scale, arm
        self.report[0], self.report[1] = stiffness_scale, pulled

    def _bound(
        self, arm: int, state: ArmState, used: float, is_lost: bool, wrench: Vector
    ) -> float:
        """Limit a wrench in place by torque, speed and singularity; return the torque scale.

        Args:
            arm: Index of the arm.
            state: State of the arm.
            used: Joint speed of the fastest joint, as a fraction of its limit.
            is_lost: True near a singularity.
            wrench: Wrench of spring and damper, (6,) [N, Nm].
        """
        spring = self.springs[arm]
        spring_wrench = spring.spring_in_base()
        limit = self._saturation[arm].scale(spring_wrench, state)
        if limit < 1.0:
            left = multiply(spring_wrench, limit)
            add(wrench, left - spring_wrench, wrench)
            spring_wrench = left
        if used > DAMPING_START:
            self._slow_down(arm, used, spring_wrench, wrench)
        if is_lost:
            brake = self._lost.damp(state, spring_wrench, spring.damping_along)
            if brake is not None:
                add(wrench, brake, wrench)
        return limit

    def _slow_down(self, arm: int, used: float, spring_wrench: Vector, wrench: Vector) -> None:
        """Scale spring and damper in a wrench for fast joints, in place.

        Args:
            arm: Index of the arm.
            used: Joint speed of the fastest joint, as a fraction of its limit.
            spring_wrench: Wrench of the spring, (6,) [N, Nm].
            wrench: Wrench of spring and damper, (6,) [N, Nm].
        """
        margin, spring = self._margins[arm], self.springs[arm]
        damper = subtract(wrench, spring_wrench, self._damper)
        multiply(damper, margin.damper(used, spring.ratio, spring.stiffness_scale), damper)
        add(multiply(spring_wrench, margin.spring(used), wrench), damper, wrench)

    def _followed(self, arm: int, used: float) -> float:
        """Return the scale of the feed-forward, which is 1 if the arm follows well."""
        behind: float = max(np.abs(self.springs[arm].error / self.params.error_clip).tolist())
        scale = min(2.0 - 2.0 * behind, (DAMPING_FULL - used) / (DAMPING_FULL - DAMPING_START))
        return min(1.0, max(0.0, scale))

    @property
    def stiffness_scale(self) -> float:
        """Minimum stiffness scale of all arms in their configuration, 0 to 1."""
        return min([spring.stiffness_scale for spring in self.springs])
