# SPDX-License-Identifier: Apache-2.0
"""Follow joint trajectories, and go to postures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.modal_damping import KEPT
from multipanda_py.control.motion_watch import MOTION_REPORTS, MotionParams, MotionWatch
from multipanda_py.controllets.joint_impedance import JointImpedanceLaw, JointImpedanceParams
from multipanda_py.handover import Handover
from multipanda_py.parameters import flag
from multipanda_py.planning.joint_motion import JointMotion
from multipanda_py.state import ArmState
from multipanda_py.targets import TrajectoryTarget

_dot, _add = np.dot, np.add


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

    with the damping of :class:`~multipanda_py.controllets.joint_impedance.JointImpedanceLaw`.
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

    Reported are the present motion's time, duration, errors and
    :class:`MotionState`, how many motions there were since the activation, and for a contact
    the joint (0 for the force) with its torque.
    """

    Params, Target = JointTrajectoryParams, TrajectoryTarget
    plans_motion = True
    default_features: ClassVar[tuple[str, ...]] = ("coriolis", "collision_avoidance")
    max_arms = 1
    report_names = (*MOTION_REPORTS, KEPT)
    params: JointTrajectoryParams

    def __init__(self, context: Context, params: JointTrajectoryParams) -> None:
        self._motion = JointMotion(context.arms[0].limits)
        self._reference = TrajectoryTarget(1, n_joints=context.n_joints)
        self._reference.q, self._reference.dq = [self._motion.q], [self._motion.dq]
        self._planned = np.zeros(context.n_joints)
        self._watch = MotionWatch(self._motion, context.n_joints)
        self._pace = partial(self.pace, 0)
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare the damping, the speed and the tolerances."""
        super().on_parameters()
        self._watch.set_params(self.params)

    def on_activate(self, states: Sequence[ArmState], target: TrajectoryTarget) -> None:
        """Come to rest from the measured state, and hold there."""
        super().on_activate(states, target)
        self._watch.start(states[0].q, states[0].dq)

    def on_handover(
        self, states: Sequence[ArmState], target: TrajectoryTarget, handovers: Sequence[Handover]
    ) -> str:
        """Begin where the joint springs press as before; what comes next starts from there."""
        words = super().on_handover(states, self._reference, handovers)
        self._motion.rest(self._motion.q.copy(), states[0].dq)
        return words

    def on_target(self, channel: str, place: int, target: TrajectoryTarget) -> None:
        """Begin a motion, or a stop."""
        self._watch.begin(channel, target)

    def update(self, states: Sequence[ArmState], target: TrajectoryTarget, period: float) -> None:
        """Write the joint torques."""
        motion, state, tau = self._motion, states[0], self.tau[0]
        motion.advance(period, self._pace)
        super().update(states, self._reference, period)
        if self.params.feedforward and motion.moving:
            _add(tau, _dot(state.mass, motion.ddq, self._planned), tau)
        self._watch.judge(state, self._springs[0].error, period, self.report)
