# SPDX-License-Identifier: Apache-2.0
"""Follow a plan, control contact forces, or both: optimization-augmented control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multipanda_py.context import MAX_STEP, Context, Handover, tool_wrench
from multipanda_py.control.force.multi_contact_force import PressingTeam
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.limit_scaling import FADING, SpeedMargin
from multipanda_py.control.impedance.singularity import SingularityGuard
from multipanda_py.control.optimization_augmented import AugmentedParams, BoundedPull, PlanIntegral
from multipanda_py.control.reference.reference_limits import BoundedPose
from multipanda_py.control.reference.trajectory_monitor import MotionState
from multipanda_py.controllets.joint_trajectory import JointTrajectory, JointTrajectoryParams
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Channel, Report, TrajectoryTarget

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
POSTURE_SHARE = 0.1
"""Of the torque limits, with which the plan keeps the posture where it is not followed."""
TETHER, TURN_TETHER = 0.15, 0.6
"""Farthest that the reference pose may be ahead of the tool [m], [rad]."""


@dataclass(frozen=True, eq=False)
class OptimizationAugmentedParams(AugmentedParams, JointTrajectoryParams):
    """Mode and gains of :class:`OptimizationAugmented`."""


class AugmentedTarget(TrajectoryTarget):
    """A plan for the joints, a pose for the tool, and the wrench that it exerts."""

    channels: ClassVar[tuple[str | Channel, ...]] = (
        *TrajectoryTarget.channels,
        "pose",
        "wrench",
    )


class OptimizationAugmented(JointTrajectory):
    r"""Follow a plan of one to N arms, control the forces of their tools, or do both.

    .. math::
        \tau_{opt} = M \ddot q_d + K e + K k_i \int e\,dt + D \dot e, \qquad e = q_d - q

    .. math::
        \tau = N \tau_{opt} + J^T \left( w F_{opt} + (1 - w) F_x - u (P f) + u F_c \right)

    with :math:`F_{opt} = \Lambda J M^{-1} \tau_{opt}`, what the plan's torques do at the tool,
    and :math:`N \tau_{opt} = \tau_{opt} - J^T F_{opt}`, what they do besides; the spring and
    damper :math:`F_x` of :class:`.CartesianSpring` to the target pose, as :class:`.BoundedPull`
    has them; and the forces
    :math:`F_c` along *u* of :class:`.PressingTeam`, along which neither plan nor spring have a
    say (*f* is what they ask for there). The parameter ``mode`` says what counts:

    ============  =========================================================================
    optimization  the plan alone (w = 1, P = 0); wrenches that are asked for wait
    hybrid        the plan, and forces along the wrenches that are asked for (w = 1)
    force         the pose, and the same forces (w = 0); the plan keeps the posture only,
                  with a tenth of the torque limits at most
    ============  =========================================================================

    A plan is a trajectory or a posture per arm, as for :class:`.JointTrajectory`, which has the
    references, tolerances and reports; where a force is controlled, touching ends no motion.
    Change the mode at any time, in contact, too: the plan, or the pose, begins where it exerts
    what the other did, and *w* goes over within ``blend_time``. What was asked of the other is
    forgotten, so ask after the change. Forces begin when all hands that are asked for one touch,
    and end for all when one of them loses its contact: then all arms stop and hold where they
    are, and plans end as *contact lost*. The integral neither runs along a controlled force, nor
    into limits of torque.

    In mode ``force`` :class:`.SingularityGuard` holds the arm near singular configurations
    against torques that the model lacks, and the posture fades out above 0.72 of a speed limit.

    Source: Özcan and Oguz, "An Optimization-Augmented Control Framework for Single and
    Coordinated Multi-Arm Robotic Manipulation", Algorithm 1. Where it adds the torques of plan,
    force and pose and assumes that motion is orthogonal to force, here that is seen to;
    :math:`C \dot q` is the default feature ``coriolis``.

    Attributes:
        team: Hands that press together.
    """

    Params, Target = OptimizationAugmentedParams, AugmentedTarget
    default_features: ClassVar[tuple[str, ...]] = (
        "coriolis",
        "joint_limits",
        "collision_avoidance",
    )
    touches = ("things", "hands")
    report_names = (
        *JointTrajectory.report_names,
        Report("force", "N", "with which hands press, mean of those that are asked to"),
        Report("force error", "N", "largest, of what is asked for"),
        Report("pressing", "", "1 while all hands press, 0 while none, between them while some"),
    )
    params: OptimizationAugmentedParams

    def __init__(self, context: Context, params: OptimizationAugmentedParams) -> None:
        n = context.n_arms
        self.team = PressingTeam(context, params.gains())
        self.team.on_release = self._release
        self._integrals = [
            PlanIntegral(arm.limits, context.period, np.array(arm.robot.figure("stiffness")))
            for arm in context.arms
        ]
        self._pose_springs = [CartesianSpring() for _ in range(n)]
        self._pulls = [BoundedPull(arm) for arm in context.arms]
        self._margins = [SpeedMargin(arm.limits) for arm in context.arms]
        self._guards = [SingularityGuard(arm, context.period) for arm in context.arms]
        self._poses = [BoundedPose() for _ in range(n)]
        self._goals = [(np.zeros(3), np.eye(3)) for _ in range(n)]
        self._wrenches = np.zeros((n, 6))
        self._at_tool = context.joint_zeros()
        self._states: Sequence[ArmState] = ()
        self._mode, self._weight = params.mode, 1.0
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand gains over, and go to another mode."""
        super().on_parameters()
        p, period = self.params, self.context.period
        self.team.set_gains(p.gains(), p.blend_time)
        ratios = self.context.per_arm(p.damping_ratio)
        for integral, stiffness, ratio in zip(self._integrals, self._stiffness, ratios):
            integral.set_gains(p.integral_rate, stiffness, ratio, p.integral_share)
        cycles = round(p.blend_time / period) if self._states else 0
        for spring, pose in zip(self._pose_springs, self._poses):
            spring.set_shape(p.position_damping_ratio, p.position_clip, False)
            spring.set_stiffness(p.position_stiffness, cycles)
            pose.set_bounds(p.position_speed, p.turn_speed, TETHER, TURN_TETHER)
        if p.mode != self._mode:
            was, self._mode = self._mode, p.mode
            if self._states and p.mode == "force":
                self._take_pose()
            elif self._states and was == "force":
                self._take_plan()

    def on_activate(self, states: Sequence[ArmState], target: TrajectoryTarget) -> None:
        """Hold the measured postures and poses, and press nothing."""
        super().on_activate(states, target)
        self._states, self._mode = states, self.params.mode
        self._weight = 0.0 if self._mode == "force" else 1.0
        self.team.reset()
        for arm, state in enumerate(states):
            self._integrals[arm].reset()
            self._guards[arm].reset()
            self._poses[arm].start(state)
            self._keep_pose(arm)

    def on_deactivate(self) -> None:
        """Have no states any more."""
        self._states = ()

    def on_handover(
        self,
        states: Sequence[ArmState],
        target: TrajectoryTarget,
        handovers: Sequence[Handover],
    ) -> str:
        """Begin where joint springs, or those of the pose, press as before."""
        words = super().on_handover(states, target, handovers)
        for arm, (state, handover) in enumerate(zip(states, handovers)):
            held = np.zeros(state.n_joints)
            if self._weight == 0.0:
                stiffness = self._pose_springs[arm].stiffness_along
                held = self._guards[arm].resume(state, stiffness, handover.tau)
            wrench = handover.wrench_in_base - tool_wrench(state, held)
            self._displace_pose(arm, state, wrench)
        return words

    def requested_force(
        self, arm: int, states: Sequence[ArmState], target: TrajectoryTarget
    ) -> Vector | None:
        """Return the requested contact wrench of an arm, (6,); None without a force task."""
        team = self.team
        is_asked = team.hands[arm].size and not (team.is_lost or self._mode == "optimization")
        return team.hands[arm].asked if is_asked else None

    def on_target(self, channel: str, place: int, target: TrajectoryTarget) -> None:
        """Begin a motion or a stop, go to a pose, or control a force."""
        if channel == "pose":
            position, rotation = self._goals[place]
            pose = target.data["pose"][place]
            position[:], rotation[:] = pose[:3], pose[3:].reshape(3, 3)
        elif channel == "wrench":
            self.team.aim(place, target.data["wrench"][place])
        else:
            self._begin_at_measured(place)
            super().on_target(channel, place, target)

    def update(self, states: Sequence[ArmState], target: TrajectoryTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        team, goal = self.team, 0.0 if self._mode == "force" else 1.0
        team.step(states, self._mode != "optimization")
        for watch, hand in zip(self._watches, team.hands):
            watch.presses = bool(hand.size) and not team.is_idle
        super().update(states, target, period)
        most = period / self.params.blend_time
        self._weight += max(-most, min(most, goal - self._weight))
        for arm, state in enumerate(states):
            self._integrate(arm, state)
        if self._weight < 1.0 or not team.is_idle:
            self._mix(states, period)
        self._report()

    def _integrate(self, arm: int, state: ArmState) -> None:
        """Add the integral part of the plan's torque."""
        integral, tau = self._integrals[arm], self.tau[arm]
        if self._weight == 1.0 and self.params.integral_rate > 0.0:
            share = float(self.team.share[arm, arm])
            direction = self.team.hands[arm].direction
            integral.step(state, self._springs[arm].error, direction, share)
        _add(tau, integral.torque, tau)

    def _mix(self, states: Sequence[ArmState], period: float) -> None:
        """Replace what the plan does at the tools by what the mode has there."""
        weight, wrenches, freed = self._weight, self._wrenches, 1.0 - self._weight
        for arm, state in enumerate(states):
            tau, wrench = self.tau[arm], wrenches[arm]
            if freed > 0.0:
                self._keep_posture(state, tau, weight)
                if (used := self._margins[arm].used(state)) > FADING:
                    _multiply(tau, weight + freed * self._margins[arm].spring(used), tau)
            of_plan = at_tool(state, tau)
            _subtract(tau, of_plan.dot(state.jacobian, self._at_tool[arm]), tau)
            _multiply(of_plan, weight, wrench)
            if freed > 0.0:
                pose = self._poses[arm]
                pose.advance(*self._goals[arm], period)
                pose.tie(state)
                spring = self._pose_springs[arm]
                spring.measure(state, pose.position, pose.rotation)
                wrench += freed * self._pulls[arm].of(spring, state)
        self.team.across(wrenches)
        self.team.add(wrenches)
        for state, wrench, tau, part in zip(states, wrenches, self.tau, self._at_tool):
            _add(tau, wrench.dot(state.jacobian, part), tau)
        for guard, spring, state, tau in zip(self._guards, self._pose_springs, states, self.tau):
            if freed == 1.0:
                guard.add(state, spring.stiffness_along, tau)
            else:
                guard.reset()

    def _static(self, arm: int, state: ArmState) -> Vector:
        """Return what spring and integral of the plan exert, (n,) [Nm]."""
        spring = self._springs[arm]
        pull: Vector = spring.stiffness_at(state).dot(self.motions[arm].q - state.q)
        return pull + self._integrals[arm].torque

    @staticmethod
    def _keep_posture(state: ArmState, tau: Vector, weight: float) -> None:
        """Bound what the plan exerts (n,) by the share *w* that it is followed with.

        The posture goes with the tool, as far as that takes it. Where a direction of the tool is
        lost, all that it has gone would pull at once.
        """
        most = state.limits.torque * (POSTURE_SHARE + (1.0 - POSTURE_SHARE) * weight)
        np.minimum(np.maximum(tau, -most, out=tau), most, out=tau)

    def _take_pose(self) -> None:
        """Let springs of the poses begin where they exert what the plan does at the tools."""
        for arm, state in enumerate(self._states):
            if self._weight == 1.0:
                self._poses[arm].start(state)
                self._keep_pose(arm)
                self._displace_pose(arm, state, at_tool(state, self._static(arm, state)))
            self.motions[arm].stop()
            self._watches[arm].end(MotionState.MODE_CHANGED)

    def _take_plan(self) -> None:
        """Let the plan begin where it exerts what the springs of the poses do.

        Where it still has a share, it has the same reference as a moment ago.
        """
        if self._weight > 0.0:
            return
        for arm, state in enumerate(self._states):
            static = self._static(arm, state)
            self._keep_posture(state, static, 0.0)
            pull = self._pull(arm, state) - at_tool(state, static)
            self._displace_plan(arm, state, static + pull.dot(state.jacobian))
            self._watches[arm].end(MotionState.MODE_CHANGED)

    def _release(self, places: Sequence[int]) -> None:
        """Let plans and poses exert nothing along the forces of released hands.

        After a lost contact all stop there. Else a motion under way goes on, as does a goal.
        """
        team, states, is_lost = self.team, self._states, self.team.is_lost
        statics = [self._static(arm, state) for arm, state in enumerate(states)]
        if self._weight > 0.0 or self._mode != "force":
            of_plan = np.array([at_tool(state, tau) for state, tau in zip(states, statics)])
            parts = team.controlled(of_plan)
            for arm in places:
                if is_lost or not self.motions[arm].moving:
                    part = parts[arm] * team.hands[arm].direction
                    wanted = statics[arm] - part.dot(states[arm].jacobian)
                    self._displace_plan(arm, states[arm], wanted)
        if self._weight < 1.0 or self._mode == "force":
            pulls = np.array([self._pull(arm, state) for arm, state in enumerate(states)])
            parts = team.controlled(pulls)
            for arm in places:
                goal = [part.copy() for part in self._goals[arm]]
                self._poses[arm].start(states[arm])
                rest = pulls[arm] - parts[arm] * team.hands[arm].direction
                self._displace_pose(arm, states[arm], rest)
                if not is_lost:
                    self._goals[arm][0][:], self._goals[arm][1][:] = goal
        if is_lost:
            for watch in self._watches:
                watch.end(MotionState.CONTACT_LOST)

    def _begin_at_measured(self, arm: int) -> None:
        """Move the torque of the spring to the integral, so that a motion starts at the arm.

        A motion starts at the reference. If an earlier force has displaced the reference, the
        motion reverses in its first slice and accelerates the tool backwards.
        """
        is_still = self._weight == 1.0 and not self.motions[arm].moving
        if not self._states or not is_still or self.team.hands[arm].size:
            return
        if self.params.integral_rate > 0.0:
            state = self._states[arm]
            static = self._static(arm, state)
            self._integrals[arm].begin(static)
            self._displace_plan(arm, state, static)

    def _displace_plan(self, arm: int, state: ArmState, static: Vector) -> None:
        """Move a plan's reference to where its spring and integral exert torques (n,)."""
        motion, limits, spring = self.motions[arm], state.limits, self._springs[arm]
        wanted = static - self._integrals[arm].torque
        step = spring.deflection(spring.stiffness_at(state), wanted)
        step /= max(1.0, float(np.abs(step).max()) / MAX_STEP)
        posture = np.minimum(np.maximum(state.q + step, limits.lower), limits.upper)
        motion.rest(posture, motion.dq.copy())

    def _pull(self, arm: int, state: ArmState) -> Vector:
        """Return the wrench of the spring of a pose on the tool, (6,) [N, Nm]."""
        pose, spring = self._poses[arm], self._pose_springs[arm]
        spring.measure(state, pose.position, pose.rotation)
        return spring.spring_in_base().copy()

    def _keep_pose(self, arm: int) -> None:
        """Stay at the reference pose."""
        position, rotation = self._goals[arm]
        position[:], rotation[:] = self._poses[arm].position, self._poses[arm].rotation

    def _displace_pose(self, arm: int, state: ArmState, wrench: Vector) -> None:
        """Move a reference pose to where its spring exerts a wrench (6,), and stay there."""
        error, _ = self._pose_springs[arm].error_for(state, wrench)
        pose = self._poses[arm]
        pose.displace(error)
        self._keep_pose(arm)

    def _report(self) -> None:
        """Report how hands press."""
        hands = [hand for hand in self.team.hands if hand.size]
        report, first = self.report, self._kept_at + 1
        report[first : first + 3] = 0.0
        if hands and not self.team.is_idle:
            report[first] = sum([hand.felt for hand in hands]) / len(hands)
            report[first + 1] = max([abs(hand.size - hand.felt) for hand in hands])
            touching = sum([hand.touches for hand in hands]) / (1.0 + len(hands))
            report[first + 2] = 1.0 if self.team.presses else touching


def at_tool(state: ArmState, tau: Vector) -> Vector:
    r"""Return the wrench :math:`\Lambda J M^{-1} \tau` at the tool, (6,) [N, Nm].

    Unlike that of :func:`.tool_wrench` it takes all of the torques' motion of the tool away
    near singular postures, too.
    """
    space = state.operational_space()
    inertia = space.inertia if space.damping == 0.0 else space.projection_inertia()
    wrench: Vector = inertia.dot(space.minv_jt.T.dot(tau))
    return wrench
