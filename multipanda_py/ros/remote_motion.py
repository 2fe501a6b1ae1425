# SPDX-License-Identifier: Apache-2.0
"""Motions of arms of a running node, by its trajectory actions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from builtin_interfaces.msg import Duration, Time
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from multipanda_py.exceptions import MotionFailed, TopicLost
from multipanda_py.ros.life_signs import LEASE, TOPIC
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.state import Matrix

AHEAD = 0.5
"""How long after it is sent a motion begins, so that all arms begin in one cycle [s]."""
LATE = 10.0
"""How long after its end a node may be silent about it [s]."""


class RemoteMotion:
    """Send arms' trajectories, which begin together, and wait for their ends.

    An action goes on without its client. So it is said all the while that this program moves arms:
    when it is killed, or stopped, they hold. One that is interrupted takes its goals back.

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
        self._signs = link.node.create_publisher(String, f"{root}/{TOPIC}", QoSProfile(depth=1))
        self._sign_at = 0.0

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
        moved, handles = [*points], dict[str, Any]()
        self._say_moved(moved)
        try:
            asked = {
                arm: self._clients[arm].send_goal_async(_goal(rows, joints[arm], begin))
                for arm, rows in points.items()
            }
            for arm, future in asked.items():
                handles[arm] = self._wait(future, patience, arm, moved)
            results = {arm: handle.get_result_async() for arm, handle in handles.items()}
            ends = AHEAD + max(float(rows[-1, 0]) for rows in points.values()) + LATE
            for arm, future in results.items():
                result = self._wait(future, ends, arm, moved).result
                if result.error_code != FollowJointTrajectory.Result.SUCCESSFUL:
                    raise MotionFailed(f"{arm}: {result.error_string}")
        except BaseException:  # of an interrupted program, too; what is not taken back here ends
            for handle in handles.values():  # as nothing is said of it any more
                handle.cancel_goal_async()
            raise
        self._say_moved([])

    def _wait(self, future: Any, timeout: float, arm: str, moved: list[str]) -> Any:
        def is_done() -> bool:
            if time.monotonic() > self._sign_at:
                self._say_moved(moved)
            return bool(future.done())

        if not self._link.until(is_done, timeout):
            raise TopicLost(
                f"{arm}: no answer of its action follow_joint_trajectory within {timeout:.1f} s"
            )
        return future.result()

    def _say_moved(self, arms: list[str]) -> None:
        """Say that this program moves arms now, or none any more."""
        self._sign_at = time.monotonic() + LEASE / 5.0
        self._signs.publish(String(data=" ".join((self._link.node.get_name(), *arms))))


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
