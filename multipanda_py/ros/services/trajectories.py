# SPDX-License-Identifier: Apache-2.0
"""Action ``follow_joint_trajectory``, with which planners execute trajectories."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from rclpy.action import CancelResponse, GoalResponse
from rclpy.time import Time
from trajectory_msgs.msg import JointTrajectoryPoint

from multipanda_py.cell import Cell
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.control.reference.trajectory_monitor import (
    CONTACT,
    CONTACT_JOINT,
    GOAL_ERROR,
    MAX_ERROR,
    MOTIONS,
    STATE,
    TIME,
    MotionState,
)
from multipanda_py.controllets.targets.joint import JOINT, MAX_REST_SPEED, TRAJECTORY, Trajectory
from multipanda_py.exceptions import MultipandaError, ReportMissing, TargetRejected
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.ros.node import bounded_messages
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.guard import GuardedNode, PlainActionServer
from multipanda_py.ros.node.running import every
from multipanda_py.ros.services.trajectory_goals import (
    GoalRefused,
    TrajectoryGoal,
    named_arms,
    read_goal,
    with_resting,
)
from multipanda_py.ros.topics.targets import Targets
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import TRAJECTORY_CONTROLLETS, Reports

Result = FollowJointTrajectory.Result
PERIOD = 0.05
"""Period of feedback and of the check for the end of a goal [s]."""
TIMEOUT = 1.0
"""Timeout of the loop for the start of a motion [s]."""
_MAX_STAMPS = 64  # Maximum number of stored stamps of goals.


class Trajectories:
    """Actions ``<controllet>/follow_joint_trajectory`` of controllets that accept trajectories.

    Arms without joints in the goal rest. The trajectory starts at the stamp of the header; goals
    with the same future stamp start in the same cycle. A newer goal ends an older one. While a
    trajectory is followed, its arms reject other joint targets.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, clock: NodeClock, targets: Targets) -> None:
        starts = _Starts()
        self._servers = [
            _Follower(node, cell, spec, clock, targets, starts)
            for spec in cell.specs
            if spec.config.type in TRAJECTORY_CONTROLLETS
        ]
        if self._servers:
            every(node, PERIOD, self._tick)

    def _tick(self) -> None:
        for server in self._servers:
            server.poll()


class _FollowedGoal:
    """Goal of ``FollowJointTrajectory`` that the controllet executes."""

    def __init__(self, handle: Any, points: Matrix, before: int, ahead: float) -> None:
        self.handle, self.points, self.before = handle, points, before
        # Numbers of motions, as counted by the controllet: ``before`` is that of the last motion
        # at the acceptance, ``number`` that of this goal (0 until it starts). ``canceled_at`` is
        # that of the last motion at the cancellation (-1 without one).
        self.number = 0
        self.canceled_at = -1
        self.accepted_at = time.monotonic()
        self.deadline = self.accepted_at + ahead + TIMEOUT


class _Starts:
    """Start times of goals with a stamp, by the time of the cell."""

    def __init__(self) -> None:
        self._start_times: dict[int, float] = {}

    def common_start(self, stamp_ns: int, start_if_new: float) -> float:
        # A second conversion of a stamp could differ by microseconds, and two arms would start in
        # different cycles.
        if stamp_ns not in self._start_times and len(self._start_times) >= _MAX_STAMPS:
            self._start_times.pop(next(iter(self._start_times)))
        return self._start_times.setdefault(stamp_ns, start_if_new)


class _Follower:
    """Action server ``<controllet>/follow_joint_trajectory`` of one controllet."""

    def __init__(
        self,
        node: GuardedNode,
        cell: Cell,
        spec: InstanceSpec,
        clock: NodeClock,
        targets: Targets,
        starts: _Starts,
    ) -> None:
        self._cell, self._name, self._arms = cell, spec.name, spec.config.arms
        self._clock, self._logger, self._targets = clock, node.get_logger(), targets
        self._starts = starts
        joints = [cell.descriptions[arm].joint_names for arm in self._arms]
        self._joints, self._names = joints, [name for names in joints for name in names]
        limits = [cell.descriptions[arm].limits for arm in self._arms]
        self._units = [one.unit(joint) for one in limits for joint in range(one.n_joints)]
        self._unit = " or ".join(sorted(set(self._units), reverse=True))
        self._ends = np.cumsum([len(names) for names in joints])[:-1]
        self._goal: _FollowedGoal | None = None
        self._server = PlainActionServer(
            node,
            FollowJointTrajectory,
            f"{spec.name}/follow_joint_trajectory",
            limit=bounded_messages.MAX_TRAJECTORY_SIZE,
            execute_callback=self._start_or_abort,
            # Only the result of an accepted goal can have a reason of its rejection.
            goal_callback=lambda _: GoalResponse.ACCEPT,
            cancel_callback=self._cancel,
        )

    def _start_or_abort(self, handle: Any) -> None:
        try:
            self._clock.check()
            if self._name not in self._cell.active:
                raise TargetRejected(
                    f"{self._name} is not active; switch to it first ({self._owners()})"
                )
            if reason := self._targets.held_off.reason(self._arms[0], TRAJECTORY.name):
                raise TargetRejected(reason)
            goal = self._read_goal(handle.request)
        except TargetRejected as error:
            for arm in self._arms:
                self._cell.rejected[f"{arm} target"] += 1
            code = error.code if isinstance(error, GoalRefused) else Result.INVALID_GOAL
            self._abort_unstarted(handle, code, str(error))
            return
        q = self._measured()[0]
        try:
            before = self._motions()
            self._send_to_all_arms(goal)
        except (TargetRejected, ReportMissing) as error:
            self._abort_unstarted(handle, Result.INVALID_GOAL, str(error))
            return
        self._end_current("abort", Result.INVALID_GOAL, "replaced by a newer goal")
        self._goal = _FollowedGoal(handle, _path_from_time_zero(goal, q), before, goal.ahead)
        reason = f"joint: {self._name} follows a trajectory; wait for its end or cancel it"
        for arm in self._arms:
            self._targets.held_off.inhibit(arm, JOINT.name, reason)

    def _read_goal(self, request: Any) -> TrajectoryGoal:
        named = named_arms(request.trajectory.joint_names, self._joints)
        names = [name for index in named for name in self._joints[index]]
        indices = [self._names.index(name) for name in names]
        units = [self._units[index] for index in indices]
        goal = read_goal(request, names, self._clock.nanoseconds, units)
        if len(named) == len(self._arms):
            return goal
        for index, arm in enumerate(self._arms):
            fastest = float(np.abs(self._cell.state(arm).dq).max())
            if index not in named and fastest > MAX_REST_SPEED:
                raise GoalRefused(
                    Result.INVALID_GOAL,
                    f"joint_names: {arm} has no joints in the goal but moves at {fastest:.3f} "
                    f"rad/s, allowed below {MAX_REST_SPEED:g} rad/s. Stop it first",
                )
        return with_resting(goal, indices, self._measured()[0])

    def _send_to_all_arms(self, goal: TrajectoryGoal) -> None:
        start = None
        if goal.ahead > 0.0:
            now = self._cell.state(self._arms[0]).time
            start = self._starts.common_start(goal.stamp_ns, now + goal.ahead)
        times, joints = goal.points[:, :1], goal.points[:, 1:].reshape(len(goal.points), 3, -1)
        parts = [
            Trajectory(
                np.hstack([times, part.reshape(len(part), -1)]),
                path,
                at_goal,
                goal.goal_time,
                start,
            )
            for part, path, at_goal in zip(
                np.split(joints, self._ends, axis=2),
                np.split(goal.path_tolerance, self._ends),
                np.split(goal.goal_tolerance, self._ends),
            )
        ]
        self._send_trajectories(parts)

    def _send_trajectories(self, parts: list[Trajectory]) -> None:
        if len(parts) == 1:
            self._cell.set_channel(self._arms[0], TRAJECTORY.name, parts[0])
        else:
            self._cell.follow_trajectories(self._name, dict(zip(self._arms, parts)))

    def _owners(self) -> str:
        return ", ".join(
            f"{self._cell.state(arm).owner} has {'the arm' if len(self._arms) == 1 else arm}"
            for arm in self._arms
        )

    def _measured(self) -> tuple[Vector, Vector]:
        states = [self._cell.state(arm) for arm in self._arms]
        return np.concatenate([s.q for s in states]), np.concatenate([s.dq for s in states])

    def _cancel(self, handle: Any) -> CancelResponse:
        goal = self._goal
        if goal is None or goal.handle.goal_id != handle.goal_id:
            return CancelResponse.REJECT
        try:
            if self._name in self._cell.active:
                before = self._motions()
                self._send_trajectories([Trajectory([])] * len(self._arms))
                goal.canceled_at = before
        except MultipandaError as error:
            self._logger.warning(f"{self._name}: {error}")
        return CancelResponse.ACCEPT

    def _motions(self) -> int:
        return int(self._cell.report(self._name).value(MOTIONS))

    def poll(self) -> None:
        """Publish the feedback or the result of the present goal."""
        goal = self._goal
        if goal is None:
            return
        try:
            self._update_goal(goal, self._cell.report(self._name))
        except ReportMissing as error:
            self._end_current("abort", Result.INVALID_GOAL, f"the progress is unknown: {error}")

    def _update_goal(self, goal: _FollowedGoal, report: Reports) -> None:
        motions, state = int(report.value(MOTIONS)), MotionState(int(report.value(STATE)))
        canceling = goal.handle.is_cancel_requested
        if not goal.number and motions > goal.before and goal.canceled_at < 0:
            goal.number = motions
        if self._name not in self._cell.active or motions < goal.before:
            fault = next(filter(None, (self._cell.state(arm).fault for arm in self._arms)), "")
            reason = self._cell.abort_reason(self._name, goal.accepted_at)
            by = f"by {reason or 'the loop; the log of the node has the reason'}"
            how = f"after a fault: {fault}" if fault else by
            self._end_current("abort", Result.INVALID_GOAL, f"{self._name} was deactivated {how}")
        elif canceling and goal.canceled_at >= 0:
            if motions > goal.canceled_at and state is not MotionState.RUNNING:
                self._end_current("canceled", Result.SUCCESSFUL, "stopped on request")
        elif not goal.number:
            if time.monotonic() > goal.deadline:
                self._end_current(
                    "abort", Result.INVALID_GOAL, "the loop did not start the motion"
                )
        elif motions != goal.number:
            self._end_current(
                "abort", Result.INVALID_GOAL, "replaced by another target for the arm"
            )
        elif state is MotionState.RUNNING:
            if not self._cell.stall_reason():  # A stalled loop has no new feedback.
                self._feed_back(goal, report.value(TIME))
        else:
            self._end_finished_motion(state, report)

    def _end_finished_motion(self, state: MotionState, report: Reports) -> None:
        largest, at_goal = report.value(MAX_ERROR), report.value(GOAL_ERROR)
        unit = self._unit
        if state is MotionState.DONE:
            text = f"done, within {at_goal:.4f} {unit} of the goal"
            text += f"; largest error {largest:.4f} {unit}"
            self._end_current("succeed", Result.SUCCESSFUL, text)
        elif state is MotionState.PATH_TOLERANCE_VIOLATED:
            text = f"largest error {largest:.4f} {unit} is beyond the path tolerance"
            self._end_current("abort", Result.PATH_TOLERANCE_VIOLATED, text)
        elif state is MotionState.CONTACT:
            joint, size = int(report.value(CONTACT_JOINT)), report.value(CONTACT)
            reason = (
                f"external torque of joint {joint} reached {size:.1f} Nm (contact_torque)"
                if joint
                else f"force at the tool reached {size:.1f} N (contact_force)"
            )
            text = f"contact: {reason}; the arm yields"
            self._end_current("abort", Result.PATH_TOLERANCE_VIOLATED, text)
        elif state is MotionState.BLOCKED:
            text = "stopped in front of an obstacle"
            self._end_current("abort", Result.PATH_TOLERANCE_VIOLATED, text)
        elif state in (MotionState.CONTACT_LOST, MotionState.MODE_CHANGED):
            words = state.name.lower().replace("_", " ")
            self._end_current("abort", Result.PATH_TOLERANCE_VIOLATED, f"{words}; the arms hold")
        else:
            text = f"largest error {largest:.4f} {unit}; not within the goal tolerance in time"
            self._end_current("abort", Result.GOAL_TOLERANCE_VIOLATED, text)

    def _end_current(self, method: str, code: int, text: str) -> None:
        goal, self._goal = self._goal, None
        if goal is not None:
            for arm in self._arms:
                self._targets.held_off.release(arm, JOINT.name)
            if method == "abort" and goal.handle.is_cancel_requested:
                method = "canceled"
            self._end_goal(goal.handle, method, code, text)

    def _abort_unstarted(self, handle: Any, code: int, text: str) -> None:
        for arm in self._arms:
            self._targets.remember(arm, text)
        self._end_goal(handle, "abort", code, text)

    def _end_goal(self, handle: Any, method: str, code: int, text: str) -> None:
        if method == "abort":
            self._logger.warning(f"{self._name}: goal aborted: {text}")
        result = Result(error_code=code, error_string=text)
        self._server.finish(handle, method, result)

    def _feed_back(self, goal: _FollowedGoal, elapsed: float) -> None:
        q, dq = self._measured()
        points = goal.points
        now = min(elapsed, float(points[-1, 0]))
        desired = evaluate(points, np.array([now]))[0]
        feedback = FollowJointTrajectory.Feedback()
        feedback.header.stamp = Time(nanoseconds=self._clock.nanoseconds).to_msg()
        feedback.joint_names = list(self._names)
        since = _duration(elapsed)
        feedback.desired = JointTrajectoryPoint(
            positions=desired[0].tolist(),
            velocities=desired[1].tolist(),
            accelerations=desired[2].tolist(),
            time_from_start=since,
        )
        feedback.actual = JointTrajectoryPoint(
            positions=q.tolist(), velocities=dq.tolist(), time_from_start=since
        )
        feedback.error = JointTrajectoryPoint(
            positions=(desired[0] - q).tolist(),
            velocities=(desired[1] - dq).tolist(),
            time_from_start=since,
        )
        if hasattr(feedback, "index"):  # Not every ROS distribution has this field.
            feedback.index = int(np.searchsorted(points[1:-1, 0], now, "right"))
        goal.handle.publish_feedback(feedback)


def _path_from_time_zero(goal: TrajectoryGoal, q: Vector) -> Matrix:
    """Return the points of a path that starts at time 0, for feedback, (p, 1 + 3 n)."""
    points = goal.points
    # Insert the measured positions before a later first point; repeat a single point 1 s later.
    if points[0, 0] > 0.0:
        return np.vstack([np.concatenate([[0.0], q, np.zeros(2 * len(q))]), points])
    one_later = np.eye(1, points.shape[1])
    return points if len(points) > 1 else np.vstack([points, points + one_later])


def _duration(seconds: float) -> Any:
    whole = int(seconds)
    return Duration(sec=whole, nanosec=int((seconds - whole) * 1e9))
