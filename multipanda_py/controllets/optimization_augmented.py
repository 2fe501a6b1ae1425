# SPDX-License-Identifier: Apache-2.0
"""Optimization-augmented control: joint plans, contact forces, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import add, multiply, subtract

from multipanda_py.context import MAX_JOINT_ERROR, BumplessTransfer, Context, tool_wrench
from multipanda_py.control.force.multi_contact_force import MultiContactForceController
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.limit_scaling import VelocityLimitScaling
from multipanda_py.control.impedance.pose_error import scale_by
from multipanda_py.control.impedance.singularity import SingularityHold
from multipanda_py.control.optimization_augmented import (
    AugmentedParams,
    BoundedSpring,
    IntegralAction,
)
from multipanda_py.control.reference.bounded_pose import BoundedPose
from multipanda_py.control.reference.trajectory_monitor import MotionState
from multipanda_py.controllets.joint_trajectory import JointTrajectory, JointTrajectoryParams
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Channel, Report, TrajectoryTarget

NULLSPACE_TORQUE_FRACTION = 0.1
"""Fraction of the torque limits available to the plan in mode ``force``."""
MAX_REFERENCE_DISTANCE, MAX_REFERENCE_ANGLE = 0.15, 0.6
"""Maximum distance and angle of the reference pose from the tool [m], [rad]."""


@dataclass(frozen=True, eq=False)
class OptimizationAugmentedParams(AugmentedParams, JointTrajectoryParams):
    """Mode and gains of ``OptimizationAugmented``."""


class AugmentedTarget(TrajectoryTarget):
    """Targets of ``OptimizationAugmented``: joint plan, tool pose, and wrench of the tool."""

    channels: ClassVar[tuple[str | Channel, ...]] = (
        *TrajectoryTarget.channels,
        "pose",
        "wrench",
    )


class OptimizationAugmented(JointTrajectory):
    """Tracking of planned joint motions, force control of the tools, or both.

    Equations::

        tau_opt = M ddq_d + K e + D de + K k_i integral(e),   e = q_d - q
        F_opt   = Lambda J M^-1 tau_opt
        N tau_opt = tau_opt - J^T F_opt
        f       = w F_opt + (1 - w) F_x
        tau     = N tau_opt + J^T (f - u P u^T f + u F_c) + tau_h

    - tau: Joint torques, (n,) [Nm]; tau_opt: torques that follow the plan.
    - M: Inertia matrix, (n, n); J: Jacobian, (6, n); Lambda: task-space inertia, (6, 6).
    - q: Measured positions, (n,); q_d, ddq_d: planned positions and accelerations, (n,).
    - e, de: Error to the plan [rad] and its derivative [rad/s], (n,).
    - K, D: Joint stiffness [Nm/rad] and damping [Nm s/rad], (n, n).
    - k_i: ``integral_rate`` [1/s], see ``IntegralAction``.
    - F_opt: Wrench of tau_opt at the tool, (6,) [N, Nm]; N: nullspace projector.
    - F_x: Wrench of the pose spring (``CartesianSpring`` within the limits of ``BoundedSpring``),
      (6,).
    - w: Weight of the plan, 0 to 1.
    - f: Wrench of plan and pose, (6,) per arm [N, Nm]. In the last equation, f, u, P and F_c
      combine all m arms.
    - u: Unit directions of the controlled forces, one column per arm, (6 m, m).
    - P: Projector on the controlled forces (``controlled_modes``), (m, m).
    - F_c: Controlled forces of ``MultiContactForceController``, (m,) [N].
    - tau_h: Torques of ``SingularityHold`` at w = 0, (n,) [Nm].

    The parameter ``mode`` selects the terms:

    - ``optimization``: plan (w = 1, P = 0). Target wrenches are stored, but not applied.
    - ``hybrid``: plan, and forces along the target wrenches (w = 1).
    - ``force``: pose, and forces along the target wrenches (w = 0). The plan only maintains the
      configuration, with up to a tenth of the torque limits.

    A plan is a trajectory or a configuration per arm. Tolerances and reports are those of
    ``JointTrajectory``. While a force is controlled, contact does not end a motion.

    The mode may change at any time, also in contact, without a step of the wrench. w changes
    within ``blend_time``. Send targets of the new mode after the change.

    Forces rise when all arms with a target wrench are in contact. If one of them loses its
    contact, the forces of all arms end. All arms then stop and hold, and plans end as *contact
    lost*.

    Source: Özcan and Oguz, "An Optimization-Augmented Control Framework for Single and Coordinated
    Multi-Arm Robotic Manipulation", Algorithm 1. The term C dq is the default feature
    ``coriolis``.

    Attributes:
        force_control: Force control of the arms that press together.
    """

    Params, Target = OptimizationAugmentedParams, AugmentedTarget
    default_features: ClassVar[tuple[str, ...]] = (
        "coriolis",
        "joint_limits",
        "collision_avoidance",
    )
    contact_classes = ("objects", "grippers")
    report_names = (
        *JointTrajectory.report_names,
        Report("force", "N", "mean measured force of the arms with a target wrench"),
        Report("force error", "N", "maximum force error"),
        Report(
            "pressing",
            "",
            "1 if all arms press, 0 if none is in contact, between 0 and 1 if some are",
        ),
    )
    params: OptimizationAugmentedParams

    def __init__(self, context: Context, params: OptimizationAugmentedParams) -> None:
        n = context.n_arms
        self.force_control = MultiContactForceController(context, params.gains())
        self.force_control.on_release = self._release_ended_forces
        self._integrals = [
            IntegralAction(arm.limits, context.period, np.array(arm.robot.value("stiffness")))
            for arm in context.arms
        ]
        self._pose_springs = [CartesianSpring() for _ in range(n)]
        self._bounded_springs = [BoundedSpring(arm) for arm in context.arms]
        self._velocity_scaling = [VelocityLimitScaling(arm.limits) for arm in context.arms]
        self._holds = [
            SingularityHold(arm, context.period, spring.stiffness_along)
            for arm, spring in zip(context.arms, self._pose_springs)
        ]
        self._poses = [BoundedPose() for _ in range(n)]
        self._goals = [(np.zeros(3), np.eye(3)) for _ in range(n)]
        self._wrenches = np.zeros((n, 6))
        self._at_tool = context.joint_zeros()
        self._states: Sequence[ArmState] = ()
        self._mode, self._weight = params.mode, 1.0
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the gains, and change the control mode to the parameter ``mode``."""
        super().on_parameters()
        p, period = self.params, self.context.period
        self.force_control.set_gains(p.gains(), p.blend_time)
        ratios = self.context.per_arm(p.damping_ratio)
        for integral, stiffness, ratio in zip(self._integrals, self._stiffness, ratios):
            integral.set_gains(p.integral_rate, stiffness, ratio, p.integral_torque_scale)
        cycles = round(p.blend_time / period) if self._states else 0
        for spring, pose in zip(self._pose_springs, self._poses):
            spring.set_shape(p.position_damping_ratio, p.position_clip, False)
            spring.set_stiffness(p.position_stiffness, cycles)
            pose.set_bounds(
                p.position_speed, p.angular_speed, MAX_REFERENCE_DISTANCE, MAX_REFERENCE_ANGLE
            )
        if p.mode != self._mode:
            was, self._mode = self._mode, p.mode
            if self._states and p.mode == "force":
                self._hand_over_to_pose_springs()
            elif self._states and was == "force":
                self._hand_over_to_plans()

    def on_activate(self, states: Sequence[ArmState], target: TrajectoryTarget) -> None:
        """Hold the measured configurations and poses without force."""
        super().on_activate(states, target)
        self._states, self._mode = states, self.params.mode
        self._weight = 0.0 if self._mode == "force" else 1.0
        self.force_control.reset()
        for arm, state in enumerate(states):
            self._integrals[arm].reset()
            self._holds[arm].reset()
            self._poses[arm].start(state)
            self._keep_pose(arm)

    def on_deactivate(self) -> None:
        self._states = ()

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: TrajectoryTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Displace the references so that the springs exert the same torques as before the switch.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        words = super().on_transfer(states, target, transfers)
        for arm, (state, handover) in enumerate(zip(states, transfers)):
            held = np.zeros(state.n_joints)
            if self._weight == 0.0:
                held = self._holds[arm].resume(state, handover.tau)
            wrench = handover.wrench_in_base - tool_wrench(state, held)
            self._displace_pose_to_exert(arm, state, wrench)
        return words

    def requested_force(
        self, arm: int, states: Sequence[ArmState], target: TrajectoryTarget
    ) -> Vector | None:
        """Return the target wrench of an arm, (6,) [N, Nm]; None without force control."""
        force_control = self.force_control
        is_requested = force_control.arm_controllers[arm].size and not (
            force_control.is_lost or self._mode == "optimization"
        )
        return force_control.arm_controllers[arm].desired_wrench if is_requested else None

    def on_target(self, channel: str, arm_index: int, target: TrajectoryTarget) -> None:
        """Start or stop the plan of an arm, or set the target pose or wrench of its tool."""
        if channel == "pose":
            position, rotation = self._goals[arm_index]
            pose = target.data["pose"][arm_index]
            position[:], rotation[:] = pose[:3], pose[3:].reshape(3, 3)
        elif channel == "wrench":
            self.force_control.set_desired_wrench(arm_index, target.data["wrench"][arm_index])
        else:
            self._start_motion_at_measured_pose(arm_index)
            super().on_target(channel, arm_index, target)

    def update(self, states: Sequence[ArmState], target: TrajectoryTarget, period: float) -> None:
        """Write the joint torques of all arms."""
        force_control, goal = self.force_control, 0.0 if self._mode == "force" else 1.0
        force_control.step(states, self._mode != "optimization")
        for watch, hand in zip(self._watches, force_control.arm_controllers):
            watch.presses = bool(hand.size) and not force_control.is_idle
        super().update(states, target, period)
        max_step = period / self.params.blend_time
        self._weight += max(-max_step, min(max_step, goal - self._weight))
        for arm, state in enumerate(states):
            add(self.tau[arm], self._integral_torque(arm, state), self.tau[arm])
        if self._weight < 1.0 or not force_control.is_idle:
            self._combine_tool_wrenches(states, period)
        self._report()

    def _integral_torque(self, arm: int, state: ArmState) -> Vector:
        """Return the integral torques, (n,) [Nm]; updated only at plan weight 1."""
        integral = self._integrals[arm]
        if self._weight == 1.0 and self.params.integral_rate > 0.0:
            fraction = float(self.force_control.projector[arm, arm])
            direction = self.force_control.arm_controllers[arm].direction
            integral.step(state, self._springs[arm].error, direction, fraction)
        return integral.torque

    def _combine_tool_wrenches(self, states: Sequence[ArmState], period: float) -> None:
        w, wrenches = self._weight, self._wrenches
        for arm, state in enumerate(states):
            tau = self._limited_plan_torque(arm, state)
            plan_wrench = at_tool(state, tau)
            subtract(tau, plan_wrench.dot(state.jacobian, self._at_tool[arm]), tau)
            wrench = multiply(plan_wrench, w, wrenches[arm])
            if w < 1.0:
                add(wrench, (1.0 - w) * self._advance_pose_spring(arm, state, period), wrench)
        self.force_control.across(wrenches)
        self.force_control.add(wrenches)
        for arm, state in enumerate(states):
            tau = self.tau[arm]
            add(tau, wrenches[arm].dot(state.jacobian, self._at_tool[arm]), tau)
            if w == 0.0:
                self._holds[arm].add(state, tau)
            else:
                self._holds[arm].reset()

    def _limited_plan_torque(self, arm: int, state: ArmState) -> Vector:
        tau, w, velocity_scaling = self.tau[arm], self._weight, self._velocity_scaling[arm]
        if w == 1.0:
            return tau
        self._bound_configuration_torque(state, tau, w)
        s_v = velocity_scaling.spring(velocity_scaling.limit_fraction(state))
        return scale_by(tau, 1.0 - (1.0 - w) * (1.0 - s_v))

    def _advance_pose_spring(self, arm: int, state: ArmState, period: float) -> Vector:
        """Return the wrench F_x of the pose spring, (6,) [N, Nm]."""
        pose, spring = self._poses[arm], self._pose_springs[arm]
        pose.advance(*self._goals[arm], period)
        pose.tie(state)
        spring.measure(state, pose.position, pose.rotation)
        return self._bounded_springs[arm].limit(spring, state)

    def _static_torque(self, arm: int, state: ArmState) -> Vector:
        """Return the sum of spring torque and integral torque, (n,) [Nm]."""
        spring = self._springs[arm]
        spring_torque: Vector = spring.stiffness_at(state).dot(self.motions[arm].q - state.q)
        return spring_torque + self._integrals[arm].torque

    @staticmethod
    def _bound_configuration_torque(state: ArmState, tau: Vector, weight: float) -> None:
        # At weight 0, the plan only maintains the configuration and gets a fraction of the torque
        # limits. At weight 1, it gets all.
        max_value = state.limits.torque * (
            NULLSPACE_TORQUE_FRACTION + (1.0 - NULLSPACE_TORQUE_FRACTION) * weight
        )
        np.minimum(np.maximum(tau, -max_value, out=tau), max_value, out=tau)

    def _hand_over_to_pose_springs(self) -> None:
        for arm, state in enumerate(self._states):
            if self._weight == 1.0:
                self._poses[arm].start(state)
                self._keep_pose(arm)
                self._displace_pose_to_exert(
                    arm, state, at_tool(state, self._static_torque(arm, state))
                )
            self.motions[arm].stop()
            self._watches[arm].end(MotionState.MODE_CHANGED)

    def _hand_over_to_plans(self) -> None:
        # A plan whose weight is still above 0 keeps its reference.
        if self._weight > 0.0:
            return
        for arm, state in enumerate(self._states):
            static = self._static_torque(arm, state)
            self._bound_configuration_torque(state, static, 0.0)
            spring_wrench = self._pose_spring_wrench(arm, state) - at_tool(state, static)
            self._displace_plan_to_exert(arm, state, static + spring_wrench.dot(state.jacobian))
            self._watches[arm].end(MotionState.MODE_CHANGED)

    def _release_ended_forces(self, indices: Sequence[int]) -> None:
        # After a loss of contact, all arms stop and hold. If a client has ended the force, planned
        # motions and pose targets continue.
        control, states, is_lost = self.force_control, self._states, self.force_control.is_lost
        statics = [self._static_torque(arm, state) for arm, state in enumerate(states)]
        if self._weight > 0.0 or self._mode != "force":
            of_plan = np.array([at_tool(state, tau) for state, tau in zip(states, statics)])
            parts = control.controlled(of_plan)
            for arm in indices:
                if is_lost or not self.motions[arm].moving:
                    part = parts[arm] * control.arm_controllers[arm].direction
                    desired = statics[arm] - part.dot(states[arm].jacobian)
                    self._displace_plan_to_exert(arm, states[arm], desired)
        if self._weight < 1.0 or self._mode == "force":
            spring_wrenches = np.array(
                [self._pose_spring_wrench(arm, state) for arm, state in enumerate(states)]
            )
            parts = control.controlled(spring_wrenches)
            for arm in indices:
                goal = [part.copy() for part in self._goals[arm]]
                self._poses[arm].start(states[arm])
                direction = control.arm_controllers[arm].direction
                rest = spring_wrenches[arm] - parts[arm] * direction
                self._displace_pose_to_exert(arm, states[arm], rest)
                if not is_lost:
                    self._goals[arm][0][:], self._goals[arm][1][:] = goal
        if is_lost:
            for watch in self._watches:
                watch.end(MotionState.CONTACT_LOST)

    def _start_motion_at_measured_pose(self, arm: int) -> None:
        # An earlier force may have displaced the reference. A motion from there would first move
        # the tool backwards. Therefore move the spring torque to the integral.
        is_still = self._weight == 1.0 and not self.motions[arm].moving
        if not self._states or not is_still or self.force_control.arm_controllers[arm].size:
            return
        if self.params.integral_rate > 0.0:
            state = self._states[arm]
            static = self._static_torque(arm, state)
            self._integrals[arm].start(static)
            self._displace_plan_to_exert(arm, state, static)

    def _displace_plan_to_exert(self, arm: int, state: ArmState, static: Vector) -> None:
        motion, limits, spring = self.motions[arm], state.limits, self._springs[arm]
        desired = static - self._integrals[arm].torque
        step = spring.deflection(spring.stiffness_at(state), desired)
        step /= max(1.0, float(np.abs(step).max()) / MAX_JOINT_ERROR)
        configuration = np.minimum(np.maximum(state.q + step, limits.lower), limits.upper)
        motion.rest(configuration, motion.dq.copy())

    def _pose_spring_wrench(self, arm: int, state: ArmState) -> Vector:
        """Return the wrench of the pose spring of an arm, without limits, (6,) [N, Nm]."""
        pose, spring = self._poses[arm], self._pose_springs[arm]
        spring.measure(state, pose.position, pose.rotation)
        return spring.spring_wrench().copy()

    def _keep_pose(self, arm: int) -> None:
        position, rotation = self._goals[arm]
        position[:], rotation[:] = self._poses[arm].position, self._poses[arm].rotation

    def _displace_pose_to_exert(self, arm: int, state: ArmState, wrench: Vector) -> None:
        error, _ = self._pose_springs[arm].error_for(state, wrench)
        pose = self._poses[arm]
        pose.displace(error)
        self._keep_pose(arm)

    def _report(self) -> None:
        hands = [hand for hand in self.force_control.arm_controllers if hand.size]
        report, first = self.report, self._stiffness_scale_at + 1
        report[first : first + 3] = 0.0
        if hands and not self.force_control.is_idle:
            report[first] = sum([hand.measured_force for hand in hands]) / len(hands)
            report[first + 1] = max([abs(hand.size - hand.measured_force) for hand in hands])
            touching = sum([hand.touches for hand in hands]) / (1.0 + len(hands))
            report[first + 2] = 1.0 if self.force_control.presses else touching


def at_tool(state: ArmState, tau: Vector) -> Vector:
    """Return the wrench that accelerates the tool like given joint torques, (6,) [N, Nm].

    The task-space inertia is not damped near singularities, unlike in ``tool_wrench``.

    Args:
        state: State of the arm.
        tau: Joint torques, (n,) [Nm].
    """
    space = state.operational_space()
    inertia = space.inertia if space.damping == 0.0 else space.projection_inertia()
    wrench: Vector = inertia.dot(space.minv_jt.T.dot(tau))
    return wrench
