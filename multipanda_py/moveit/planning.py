# SPDX-License-Identifier: Apache-2.0
"""What MoveIt's planners are told: limits of joints, inverse kinematics, OMPL and Pilz.

Names and formats are those of MoveIt 2 from Jazzy on, read by ``moveit_configs_utils`` and by
this package's launch file alike.
"""

from __future__ import annotations

from typing import Any

from multipanda_py.moveit.groups import Groups

PILZ = "pilz_industrial_motion_planner"
FINGER_ACCELERATION = 1.0
"""For planning only: hands have a speed, and no acceleration that anybody states [m/s^2]."""
SCALING = 0.1
"""Of velocity and acceleration where nobody asks for more, next to people."""
PILZ_CARTESIAN_LIMITS = {
    "max_trans_vel": 1.0, "max_trans_acc": 2.25, "max_trans_dec": -5.0, "max_rot_vel": 1.57,
}  # fmt: skip
"""Of Pilz's straight lines and circles [m/s, m/s^2, m/s^2, rad/s]: below those of an FR3."""
_PLANNERS: dict[str, dict[str, Any]] = {
    "RRTConnectkConfigDefault": {"type": "geometric::RRTConnect", "range": 0.0},
    "BiTRRTkConfigDefault": {"type": "geometric::BiTRRT", "range": 0.0},
    "RRTstarkConfigDefault": {"type": "geometric::RRTstar", "range": 0.0, "goal_bias": 0.05},
    "PRMstarkConfigDefault": {"type": "geometric::PRMstar"},
}
_CHECKS = [
    f"default_planning_request_adapters/{name}"
    for name in (
        "ResolveConstraintFrames", "ValidateWorkspaceBounds", "CheckStartStateBounds",
        "CheckStartStateCollision",
    )
]  # fmt: skip
_AFTER = [
    f"default_planning_response_adapters/{name}"
    for name in ("AddTimeOptimalParameterization", "ValidateSolution", "DisplayMotionPath")
]


def joint_limits(groups: Groups) -> dict[str, Any]:
    """Return ``joint_limits.yaml``: velocity, acceleration and jerk of every joint.

    Positions are in the URDF. Numbers are the robots' own limits [rad/s, rad/s^2, rad/s^3; m for
    rad of a joint that slides], which goals are checked against too.
    """
    limits: dict[str, Any] = {}
    for arm in groups.arms.values():
        bounds = zip(arm.limits.velocity, arm.limits.acceleration, arm.limits.jerk)
        for joint, (velocity, acceleration, jerk) in zip(arm.joint_names, bounds):
            limits[joint] = _limits(velocity, acceleration) | {
                "has_jerk_limits": True, "max_jerk": float(jerk),
            }  # fmt: skip
        if arm.gripper is not None:
            for joint in arm.finger_joint_names:
                limits[joint] = _limits(arm.gripper.velocity, FINGER_ACCELERATION)
    return {
        "default_velocity_scaling_factor": SCALING,
        "default_acceleration_scaling_factor": SCALING,
        "joint_limits": limits,
    }


def kinematics(groups: Groups) -> dict[str, Any]:
    """Return ``kinematics.yaml``: a solver per arm; groups of several arms use theirs."""
    solver = {
        "kinematics_solver": "kdl_kinematics_plugin/KDLKinematicsPlugin",
        "kinematics_solver_search_resolution": 0.005,
        "kinematics_solver_timeout": 0.05,
    }
    return {arm: dict(solver) for arm in groups.arms}


def ompl(groups: Groups) -> dict[str, Any]:
    """Return ``ompl_planning.yaml``: sampling planners, for every group."""
    first = {arm.name: arm.joint_names[:2] for arm in groups.arms.values()}
    hands = {groups.hand_group(arm): () for arm in groups.arms.values() if arm.hand}
    sets = {name: first[arms[0]] for name, arms in groups.sets.items()}
    content: dict[str, Any] = {
        "planning_plugins": ["ompl_interface/OMPLPlanner"],
        "request_adapters": list(_CHECKS),
        "response_adapters": list(_AFTER),
        "planner_configs": {name: dict(values) for name, values in _PLANNERS.items()},
    }
    for group, joints in {**first, **sets, **hands}.items():
        content[group] = {"planner_configs": list(_PLANNERS)}
        if joints:
            content[group] |= {
                "projection_evaluator": f"joints({','.join(joints)})",
                "longest_valid_segment_fraction": 0.005,
            }
    return content


def pilz() -> dict[str, Any]:
    """Return ``pilz_industrial_motion_planner_planning.yaml``: PTP, LIN and CIRC of an arm."""
    return {
        "planning_plugins": [f"{PILZ}/CommandPlanner"],
        "request_adapters": list(_CHECKS),
        "response_adapters": list(_AFTER[1:]),  # what it plans has times
        "default_planner_config": "PTP",
        "capabilities": f"{PILZ}/MoveGroupSequenceAction {PILZ}/MoveGroupSequenceService",
    }


def _limits(velocity: float, acceleration: float) -> dict[str, Any]:
    return {
        "has_velocity_limits": True, "max_velocity": float(velocity),
        "has_acceleration_limits": True, "max_acceleration": float(acceleration),
    }  # fmt: skip
