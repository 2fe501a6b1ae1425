# SPDX-License-Identifier: Apache-2.0
"""Whom MoveIt sends its trajectories to: the controllets and hands of a cell."""

from __future__ import annotations

from typing import Any

from multipanda_py.moveit.groups import GRIPPER, Groups

EXECUTION = {
    "execution_duration_monitoring": True,
    "allowed_execution_duration_scaling": 1.5,
    "allowed_goal_duration_margin": 2.0,
    "allowed_start_tolerance": 0.05,
}
"""Compliant arms lag: an obstacle or a hand that is in the way slows them down, and at the start
they are a bit off where they were sent [1, s, rad]."""


def simple_controllers(groups: Groups) -> dict[str, Any]:
    """Return ``moveit_controllers.yaml``, for ``moveit_simple_controller_manager``.

    MoveIt then switches nothing: the controllet has to be active. Names are relative: MoveIt runs
    in the cell's namespace.
    """
    entries: dict[str, Any] = {
        follower.name: {
            "type": "FollowJointTrajectory",
            "action_ns": "follow_joint_trajectory",
            "default": True,
            "joints": list(follower.joints),
        }
        for follower in groups.followers
    }
    for arm in groups.arms.values():
        if arm.hand:
            entries[f"{arm.name}/{GRIPPER}"] = {
                "type": "GripperCommand",
                "action_ns": "gripper_cmd",
                "default": True,
                "joints": [arm.finger_joint_names[0]],
            }
    manager = "moveit_simple_controller_manager"
    return {
        "trajectory_execution": dict(EXECUTION),
        "moveit_controller_manager": f"{manager}/MoveItSimpleControllerManager",
        manager: {"controller_names": list(entries), **entries},
    }


def switching_controllers(namespace: str = "/") -> dict[str, Any]:
    """Return ``ros_control_controllers.yaml``, for ``moveit_ros_control_interface``.

    MoveIt asks the cell's controller manager what there is and switches to what a plan needs. It
    is that of the cell, not those of the arms beside it: one manager knows all, and a set of laws
    is switched at once.

    Args:
        namespace: Of the cell.
    """
    return {
        "trajectory_execution": dict(EXECUTION),
        "moveit_manage_controllers": True,
        "moveit_controller_manager": "moveit_ros_control_interface/Ros2ControlManager",
        "ros_control_namespace": namespace,
    }
