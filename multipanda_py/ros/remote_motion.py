# SPDX-License-Identifier: Apache-2.0
"""Motions of arms of a running node, by its trajectory actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builtin_interfaces.msg import Duration, Time
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from multipanda_py.exceptions import MotionFailed, TopicLost
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.state import Matrix

AHEAD = 0.5
"""How long after it is sent a motion begins, so that all arms begin in one cycle [s]."""
LATE = 10.0
"""How long after its end a node may be silent about it [s]."""


class RemoteMotion:
    """Send arms' trajectories, which begin together, and wait for their ends.

    Args:
        link: Sends.
        root: Namespace of the cell.
        laws: Name of the law that follows trajectories, by arm.
    """

    def __init__(self, link: NodeLink, root: str, laws: Mapping[str, str]) -> None:
        self._link = link
        self._clients = {
            arm: ActionClient(
                link.node, FollowJointTrajectory, f"{root}/{law}/follow_joint_trajectory"
            )
            for arm, law in laws.items()
        }

    def follow(
        self,
        points: Mapping[str, Matrix],
        joints: Mapping[str, tuple[str, ...]],
        now: float,
        patience: float,
    ) -> None:
        """Have arms follow trajectories to their ends.

        Args:
            points: By arm, (p, 1 + 3 n): times, positions, velocities, accelerations.
            joints: Names of the joints, by arm.
            now: The node's time [s].
            patience: For the node to take a goal [s].

        Raises:
            MotionFailed: If one is refused or ends before its goal, with why.
            TopicLost: If the node does not answer.
        """
        for arm in points:
            if not self._link.until(self._clients[arm].server_is_ready, patience):
                raise TopicLost(f"{arm}: its action follow_joint_trajectory is not there")
        begin = now + AHEAD
        asked = {
            arm: self._clients[arm].send_goal_async(_goal(rows, joints[arm], begin))
            for arm, rows in points.items()
        }
        handles = {arm: self._wait(future, patience, arm) for arm, future in asked.items()}
        results = {arm: handle.get_result_async() for arm, handle in handles.items()}
        ends = AHEAD + max(float(rows[-1, 0]) for rows in points.values()) + LATE
        for arm, future in results.items():
            result = self._wait(future, ends, arm).result
            if result.error_code != FollowJointTrajectory.Result.SUCCESSFUL:
                raise MotionFailed(f"{arm}: {result.error_string}")

    def _wait(self, future: Any, timeout: float, arm: str) -> Any:
        if not self._link.until(future.done, timeout):
            raise TopicLost(
                f"{arm}: no answer of its action follow_joint_trajectory within {timeout:.1f} s"
            )
        return future.result()


def _goal(rows: Matrix, joints: tuple[str, ...], begin: float) -> Any:
    n = len(joints)
    points = [
        JointTrajectoryPoint(
            time_from_start=Duration(sec=int(row[0]), nanosec=int(row[0] % 1.0 * 1e9)),
            positions=row[1 : 1 + n].tolist(),
            velocities=row[1 + n : 1 + 2 * n].tolist(),
            accelerations=row[1 + 2 * n :].tolist(),
        )
        for row in rows
    ]
    trajectory = JointTrajectory(joint_names=list(joints), points=points)
    trajectory.header.stamp = Time(sec=int(begin), nanosec=int(begin % 1.0 * 1e9))
    return FollowJointTrajectory.Goal(trajectory=trajectory)
