# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories and motions to configurations with joint impedance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy import add, dot

from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.control.reference.trajectory_monitor import (
    MOTION_REPORTS,
    MOTIONS,
    STATE,
    MotionState,
    TrajectoryMonitor,
    TrajectoryParams,
)
from multipanda_py.controllets.joint_impedance import JointImpedanceLaw, JointImpedanceParams
from multipanda_py.parameters import flag
from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.state import ArmState
from multipanda_py.targets import Report, TrajectoryTarget

_STATE, _MOTIONS = MOTION_REPORTS.index(STATE), MOTION_REPORTS.index(MOTIONS)


@dataclass(frozen=True, eq=False)
class JointTrajectoryParams(TrajectoryParams, JointImpedanceParams):
    """Gains, speed and tolerances of ``JointTrajectory``."""

    feedforward: bool = flag(True, doc="add the torque M ddq_d of the reference acceleration")


class JointTrajectory(JointImpedanceLaw[TrajectoryTarget]):
    """Compliant tracking of joint trajectories and of motions to configurations.

    Equation::

        tau = K (q_d - q) + D (dq_d - dq) + M ddq_d

    - tau: Joint torques, (n,) [Nm].
    - K, D: Joint stiffness [Nm/rad] and damping [Nm s/rad] of ``JointImpedanceLaw``, (n, n).
    - M: Inertia matrix, (n, n) [kg m^2].
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_d, dq_d, ddq_d: Reference and its derivatives, (n,).

    The reference of ``JointMotion`` is a trajectory with quintic segments, or a jerk-limited
    motion to a configuration. A new motion may start at any time.

    *End of a motion.* A motion is *done* when the arm is within the goal tolerance. If an error
    exceeds the path tolerance, or the goal tolerance is not reached in time, the arm stops at its
    measured position and holds. Before an obstacle known to a feature, the motion slows down and
    waits, and ends *blocked* after ``goal_time``. A trajectory may contain its own tolerances.

    A motion ends in *contact* if an external joint torque or the force at the tool exceeds its
    threshold and opposes the motion. The arm then stops at its measured position and holds::

        (|tau_ext,i| > tau_c,i or |f_ext| > f_c) and tau_ext^T dq_d < 0

    - tau_ext: External joint torques, (n,) [Nm]; tau_c: ``contact_torque``.
    - f_ext: External force at the tool, (3,) [N]; f_c: ``contact_force``.

    The force threshold is disabled by default. An unmodelled payload counts as an external force,
    so set the payload in the robot, or tare.

    *Several arms.* All arms slow down for an obstacle of one arm, and an aborted motion stops all
    arms. The reports contain the maximum values of all arms, and number their joints
    consecutively.

    Attributes:
        motions: Reference motion of each arm.
    """

    Params, Target = JointTrajectoryParams, TrajectoryTarget
    plans_motion = True
    default_features: ClassVar[tuple[str, ...]] = ("coriolis", "collision_avoidance")
    report_names: ClassVar[tuple[Report, ...]] = (*MOTION_REPORTS, STIFFNESS_SCALE)
    params: JointTrajectoryParams

    def __init__(self, context: Context, params: JointTrajectoryParams) -> None:
        self.motions = [JointMotion(arm.limits) for arm in context.arms]
        self._reference = TrajectoryTarget(context.n_arms, n_joints=context.joints)
        self._reference.q = [motion.q for motion in self.motions]
        self._reference.dq = [motion.dq for motion in self.motions]
        self._planned = context.joint_zeros()
        joints = context.joints
        self._watches = [
            TrajectoryMonitor(motion, context, partial(self.blocked_by, index), index)
            for index, motion in enumerate(self.motions)
        ]
        self._first_joint = np.cumsum([0, *joints]).tolist()
        self._reports = np.zeros((context.n_arms, len(MOTION_REPORTS)))
        self._is_placed = False
        self._paces = [partial(self.velocity_scale, arm) for arm in range(context.n_arms)]
        super().__init__(context, params)
        self.followed = {"joint": [motion.reference for motion in self.motions]}

    def on_parameters(self) -> None:
        super().on_parameters()
        for watch in self._watches:
            watch.set_params(self.params, self.context)

    def on_activate(self, states: Sequence[ArmState], target: TrajectoryTarget) -> None:
        """Brake from the measured state, and hold."""
        super().on_activate(states, target)
        for motion, watch, state in zip(self.motions, self._watches, states):
            motion.reset_to(state.q, state.dq)
            watch.reset()
        # The flag delays the stop of the reference, because ``on_transfer`` may displace it
        # first. Without a transfer, the next ``on_target`` or ``update`` stops it.
        self._is_placed = True

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
        words = super().on_transfer(states, self._reference, transfers)
        self._come_to_rest()
        return words

    def _come_to_rest(self) -> None:
        self._is_placed = False
        for motion in self.motions:
            motion.stop()

    def on_target(self, channel: str, arm_index: int, target: TrajectoryTarget) -> None:
        """Start a motion to the target, or stop if its trajectory has no points."""
        if self._is_placed:
            self._come_to_rest()
        for watch in self._watches:
            watch.forget()
        self._watches[arm_index].start_motion(channel, target)

    def update(self, states: Sequence[ArmState], target: TrajectoryTarget, period: float) -> None:
        """Write the joint torques of all arms."""
        motions, feedforward = self.motions, self.params.feedforward
        if self._is_placed:
            self._come_to_rest()
        if len(motions) == 1:
            motions[0].advance(period, self._paces[0])
        else:
            self._advance_together(period)
        super().update(states, self._reference, period)
        for arm, motion in enumerate(motions):
            if feedforward and motion.moving:
                tau = self.tau[arm]
                add(tau, dot(states[arm].mass_matrix, motion.ddq, self._planned[arm]), tau)
        if len(motions) == 1:
            self._watches[0].check(states[0], self._springs[0].error, period, self.report)
        else:
            self._check_tolerances_together(states, period)

    def _advance_together(self, period: float) -> None:
        rate = min(map(JointMotion.allowed, self.motions, self._paces))
        for motion in self.motions:
            motion.advance(period, lambda _: rate)

    def _check_tolerances_together(self, states: Sequence[ArmState], period: float) -> None:
        reports, watches = self._reports, self._watches
        for watch, state, spring, report in zip(watches, states, self._springs, reports):
            watch.check(state, spring.error, period, report)
        matches = [watch.state for watch in watches]
        worst = max(matches)
        if worst > MotionState.DONE:
            for watch in watches:
                if watch.state is MotionState.RUNNING and not watch.stops:
                    watch.stop()
        elif MotionState.RUNNING in matches:
            worst = MotionState.RUNNING
        width, touched = len(MOTION_REPORTS), matches.index(worst)
        joint, size = reports[touched, -2:]
        np.max(reports, axis=0, out=self.report[:width])
        self.report[_STATE], self.report[_MOTIONS] = worst, reports[:, _MOTIONS].sum()
        self.report[width - 2 : width] = joint and joint + self._first_joint[touched], size
