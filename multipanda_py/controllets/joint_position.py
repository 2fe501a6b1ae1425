# SPDX-License-Identifier: Apache-2.0
"""Move the joints of an arm that is commanded positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.reference.trajectory_monitor import (
    MOTION_REPORTS,
    MotionParams,
    MotionWatch,
)
from multipanda_py.controllet import Controllet
from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.state import ArmState
from multipanda_py.targets import TrajectoryTarget

MOST_BEHIND = 0.04
"""How far commands may be from their path, in time at full speed [s]; the loop takes a position
that is 0.05 s away for a jump."""


class JointPosition(Controllet[TrajectoryTarget, MotionParams]):
    r"""Command the reference of :class:`.JointMotion` to the robot's own joint controller.

    .. math:: q_c(t) = q_r(t)

    The reference is a trajectory, or the way to a posture; a stream of postures is followed at
    any rate, each new one from where the reference is, with its velocity and acceleration. Targets
    within the joint limits may be any distance away. How motions end is as with
    ``joint_trajectory`` (:class:`.MotionWatch`): tolerances, obstacles that features know of,
    contact, in which the reference comes to rest where the arm is. An arm under position control
    presses as hard as its servo does until then. A path may ask for more acceleration than the arm
    has; where its commands, which keep the limits, get too far away from it, the motion ends as
    beyond its path tolerance, and the reference comes to rest from what is commanded.
    """

    Params, Target = MotionParams, TrajectoryTarget
    command_interface = "position"
    plans_motion = True
    max_arms = 1
    default_features: ClassVar[tuple[str, ...]] = ("collision_avoidance",)
    report_names = MOTION_REPORTS
    params: MotionParams

    def __init__(self, context: Context, params: MotionParams) -> None:
        self._motion = JointMotion(context.arms[0].limits)
        self._watch = MotionWatch(self._motion, context, partial(self.in_the_way, 0))
        self._error, self._pace = np.zeros(context.n_joints), partial(self.pace, 0)
        self._farthest = MOST_BEHIND * context.arms[0].limits.velocity
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare the speed and the tolerances."""
        self._watch.set_params(self.params, self.context)

    def on_activate(self, states: Sequence[ArmState], target: TrajectoryTarget) -> None:
        """Go on from what was commanded, and come to rest; at rest that is where the arm is."""
        q, dq, _ = states[0].joint_command
        target.q[0][:], target.dq[0][:] = q, 0.0
        self._watch.start(q, dq)

    def on_target(self, channel: str, place: int, target: TrajectoryTarget) -> None:
        """Begin a motion, or a stop."""
        self._watch.begin(channel, target)

    def update(self, states: Sequence[ArmState], target: TrajectoryTarget, period: float) -> None:
        """Write the joint positions."""
        motion, state = self._motion, states[0]
        motion.advance(period, self._pace)
        q, dq, _ = state.joint_command
        if (np.abs(np.subtract(motion.q, q, self._error)) > self._farthest).any():
            self._watch.lose(q, dq)
        self.command[0][:] = motion.q
        np.subtract(motion.q, state.q, self._error)
        self._watch.judge(state, self._error, period, self.report)
