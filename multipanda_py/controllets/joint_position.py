# SPDX-License-Identifier: Apache-2.0
"""Joint motion of a position-controlled arm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.reference.trajectory_monitor import (
    MOTION_REPORTS,
    TrajectoryMonitor,
    TrajectoryParams,
)
from multipanda_py.controllet import Controllet
from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.state import ArmState
from multipanda_py.targets import TrajectoryTarget

MAX_LAG = 0.04
"""Maximum delay of the commands behind their path at full speed [s]. The loop rejects a jump of
more than 0.05 s at full speed."""


class JointPosition(Controllet[TrajectoryTarget, TrajectoryParams]):
    """Joint position commands that follow a trajectory or move to a configuration.

    Equation::

        q_c(t) = q_r(t)

    - q_c: Commanded joint positions, (n,) [rad].
    - q_r: Reference positions of ``JointMotion``, (n,) [rad].

    A new motion may start at any time, from the current position, velocity and acceleration of the
    reference. A stream of configurations is followed at any rate. Targets within the joint limits
    may be at any distance.

    ``TrajectoryMonitor`` ends a motion at an obstacle or contact, or if a tolerance is exceeded.
    Until a contact is detected, a position-controlled arm presses with the force of its servos. If
    the commands to the robot fall too far behind the path, the motion is aborted with a path
    tolerance violation, and the arm brakes.
    """

    Params, Target = TrajectoryParams, TrajectoryTarget
    command_interface = "position"
    plans_motion = True
    max_arms = 1
    default_features: ClassVar[tuple[str, ...]] = ("collision_avoidance",)
    report_names = MOTION_REPORTS
    params: TrajectoryParams

    def __init__(self, context: Context, params: TrajectoryParams) -> None:
        self._motion = JointMotion(context.arms[0].limits)
        self._watch = TrajectoryMonitor(self._motion, context, partial(self.blocked_by, 0))
        self._error, self._pace = np.zeros(context.n_joints), partial(self.velocity_scale, 0)
        self._farthest = MAX_LAG * context.arms[0].limits.velocity
        super().__init__(context, params)

    def on_parameters(self) -> None:
        self._watch.set_params(self.params, self.context)

    def on_activate(self, states: Sequence[ArmState], target: TrajectoryTarget) -> None:
        """Brake to a stop from the last commanded positions and velocities."""
        q, dq, _ = states[0].joint_command
        target.q[0][:], target.dq[0][:] = q, 0.0
        self._watch.start(q, dq)

    def on_target(self, channel: str, arm_index: int, target: TrajectoryTarget) -> None:
        """Start a motion to the target, or stop if its trajectory has no points."""
        self._watch.start_motion(channel, target)

    def update(self, states: Sequence[ArmState], target: TrajectoryTarget, period: float) -> None:
        """Write the joint position commands of all arms."""
        motion, state = self._motion, states[0]
        motion.advance(period, self._pace)
        q, dq, _ = state.joint_command
        if (np.abs(np.subtract(motion.q, q, self._error)) > self._farthest).any():
            self._watch.abort_behind_commands(q, dq)
        self.command[0][:] = motion.q
        np.subtract(motion.q, state.q, self._error)
        self._watch.check(state, self._error, period, self.report)
