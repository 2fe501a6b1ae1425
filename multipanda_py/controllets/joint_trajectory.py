# SPDX-License-Identifier: Apache-2.0
"""Follow joint trajectories, and go to postures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context, Handover
from multipanda_py.control.impedance.modal_damping import KEPT
from multipanda_py.control.reference.trajectory_monitor import (
    MOTION_REPORTS,
    MOTIONS,
    STATE,
    MotionParams,
    MotionState,
    MotionWatch,
)
from multipanda_py.controllets.joint_impedance import JointImpedanceLaw, JointImpedanceParams
from multipanda_py.parameters import flag
from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.state import ArmState
from multipanda_py.targets import Report, TrajectoryTarget

_dot, _add = np.dot, np.add
_STATE, _MOTIONS = MOTION_REPORTS.index(STATE), MOTION_REPORTS.index(MOTIONS)


@dataclass(frozen=True, eq=False)
class JointTrajectoryParams(MotionParams, JointImpedanceParams):
    """Gains, speed and tolerances of :class:`JointTrajectory`."""

    feedforward: bool = flag(
        True, doc="add the torque M ddq_d that the reference's acceleration takes"
    )


class JointTrajectory(JointImpedanceLaw[TrajectoryTarget]):
    r"""Follow a reference of :class:`.JointMotion`, compliantly.

    .. math::
        \tau = K (q_d - q) + D (\dot q_d - \dot q) + M \ddot q_d

    with the damping of :class:`.JointImpedanceLaw`.
    With the Coriolis torques, which are a default feature, the error then obeys the impedance
    alone, so an undisturbed arm has none. The reference is a trajectory (quintic between its
    points), or the way to a posture (jerk-limited); a new one may come at any time.

    A motion ends *done* when the arm is within the goal tolerance. If an error on the way is
    beyond the path tolerance, or the arm is not within the goal tolerance in time, the arm
    comes to rest from where it is and holds there, so that it does not go on pressing against
    what stopped it. Where the way leads into an obstacle that a feature knows of, the motion
    slows down and waits in front of it, and ends *blocked* after ``goal_time``. A trajectory may
    bring tolerances of its own.

    A motion that meets something ends in *contact*: an external joint torque, or the force at
    the tool, is beyond its threshold, and takes power from the motion,

    .. math:: |\tau_{ext,i}| > \tau_{c,i} \;\text{or}\; |f_{ext}| > f_c, \qquad
        \tau_{ext}^T \dot q_d < 0

    The arm gives way as above. A motion away from what presses goes on, as it gains power. The
    torques are four fifths of the collision thresholds that robots are told by default, so that
    in a slow contact the arm gives way before the robot stops it with a reflex. The force is off
    by default: its estimate is worth little near singular postures. A load that the robot was
    not told of counts as external; tell it, or tare.

    Several arms move on one clock: where one has to slow down for something in its way, all do,
    and a motion that ends before its goal brings the others to rest on their ways, within their
    limits of acceleration and jerk. Trajectories that are given together begin in one cycle.

    Reported are the present motion's time, duration, errors and
    :class:`MotionState`, how many motions there were since the activation, and for a contact
    the joint (0 for the force) with its torque: of several arms the largest, the state that is
    not as asked for, all motions, and joints numbered through.

    Attributes:
        motions: Reference of each arm.
    """

    Params, Target = JointTrajectoryParams, TrajectoryTarget
    plans_motion = True
    default_features: ClassVar[tuple[str, ...]] = ("coriolis", "collision_avoidance")
    report_names: ClassVar[tuple[Report, ...]] = (*MOTION_REPORTS, KEPT)
    params: JointTrajectoryParams

    def __init__(self, context: Context, params: JointTrajectoryParams) -> None:
        self.motions = [JointMotion(arm.limits) for arm in context.arms]
        self._reference = TrajectoryTarget(context.n_arms, n_joints=context.joints)
        self._reference.q = [motion.q for motion in self.motions]
        self._reference.dq = [motion.dq for motion in self.motions]
        self._planned = context.joint_zeros()
        joints = context.joints
        self._watches = [
            MotionWatch(motion, context, partial(self.in_the_way, place), place)
            for place, motion in enumerate(self.motions)
        ]
        self._first_joint = np.cumsum([0, *joints]).tolist()
        self._reports = np.zeros((context.n_arms, len(MOTION_REPORTS)))
        self._is_placed = False
        self._paces = [partial(self.pace, arm) for arm in range(context.n_arms)]
        super().__init__(context, params)
        self.followed = {"joint": [motion.reference for motion in self.motions]}

    def on_parameters(self) -> None:
        """Prepare the damping, the speed and the tolerances."""
        super().on_parameters()
        for watch in self._watches:
            watch.set_params(self.params, self.context)

    def on_activate(self, states: Sequence[ArmState], target: TrajectoryTarget) -> None:
        """Come to rest from the measured state, and hold there."""
        super().on_activate(states, target)
        for motion, watch, state in zip(self.motions, self._watches, states):
            motion.place(state.q, state.dq)
            watch.reset()
        self._is_placed = True  # and is braked once it is known whether it is moved by a handover

    def on_handover(
        self, states: Sequence[ArmState], target: TrajectoryTarget, handovers: Sequence[Handover]
    ) -> str:
        """Begin where the joint springs press as before; what comes next starts from there."""
        words = super().on_handover(states, self._reference, handovers)
        self._come_to_rest()
        return words

    def _come_to_rest(self) -> None:
        self._is_placed = False
        for motion in self.motions:
            motion.stop()

    def on_target(self, channel: str, place: int, target: TrajectoryTarget) -> None:
        """Begin a motion, or a stop."""
        if self._is_placed:
            self._come_to_rest()
        for watch in self._watches:
            watch.forget()
        self._watches[place].begin(channel, target)

    def update(self, states: Sequence[ArmState], target: TrajectoryTarget, period: float) -> None:
        """Write the joint torques."""
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
                _add(tau, _dot(states[arm].mass, motion.ddq, self._planned[arm]), tau)
        if len(motions) == 1:
            self._watches[0].judge(states[0], self._springs[0].error, period, self.report)
        else:
            self._judge_together(states, period)

    def _advance_together(self, period: float) -> None:
        """Move every reference on at the rate that the slowest may have."""
        rate = min(map(JointMotion.allowed, self.motions, self._paces))
        for motion in self.motions:
            motion.advance(period, lambda _: rate)

    def _judge_together(self, states: Sequence[ArmState], period: float) -> None:
        """Judge every arm, stop all with one that has ended before its goal, and report."""
        reports, watches = self._reports, self._watches
        for watch, state, spring, report in zip(watches, states, self._springs, reports):
            watch.judge(state, spring.error, period, report)
        found = [watch.state for watch in watches]
        worst = max(found)
        if worst > MotionState.DONE:
            for watch in watches:
                if watch.state is MotionState.RUNNING and not watch.stops:
                    watch.stop()
        elif MotionState.RUNNING in found:
            worst = MotionState.RUNNING
        width, touched = len(MOTION_REPORTS), found.index(worst)
        joint, size = reports[touched, -2:]
        np.max(reports, axis=0, out=self.report[:width])
        self.report[_STATE], self.report[_MOTIONS] = worst, reports[:, _MOTIONS].sum()
        self.report[width - 2 : width] = joint and joint + self._first_joint[touched], size
