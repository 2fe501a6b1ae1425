# SPDX-License-Identifier: Apache-2.0
"""Configuration files of a cell for MoveIt 2, and the node parameters made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.planning.moveit_srdf import GRIPPER, Groups, cell_srdf
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.robots.arm import SceneObject
from multipanda_py.robots.urdf import cell_urdf

PILZ = "pilz_industrial_motion_planner"
FINGER_ACCELERATION = 1.0
"""Acceleration of the fingers for planning [m/s^2]. Grippers specify only a speed."""
DEFAULT_SCALING = 0.1
"""Default scaling factor of velocity and acceleration, low for work near people."""
PILZ_CARTESIAN_LIMITS = {
    "max_trans_vel": 1.0, "max_trans_acc": 2.25, "max_trans_dec": -5.0, "max_rot_vel": 1.57,
}  # fmt: skip
"""Limits of the straight lines and circles of Pilz [m/s, m/s^2, m/s^2, rad/s], below those of an
FR3."""
_PLANNERS: dict[str, dict[str, Any]] = {
    "RRTConnectkConfigDefault": {"type": "geometric::RRTConnect", "range": 0.0},
    "BiTRRTkConfigDefault": {"type": "geometric::BiTRRT", "range": 0.0},
    "RRTstarkConfigDefault": {"type": "geometric::RRTstar", "range": 0.0, "goal_bias": 0.05},
    "PRMstarkConfigDefault": {"type": "geometric::PRMstar"},
}
_REQUEST_ADAPTERS = [
    f"default_planning_request_adapters/{name}"
    for name in (
        "ResolveConstraintFrames", "ValidateWorkspaceBounds", "CheckStartStateBounds",
        "CheckStartStateCollision",
    )
]  # fmt: skip
_RESPONSE_ADAPTERS = [
    f"default_planning_response_adapters/{name}"
    for name in ("AddTimeOptimalParameterization", "ValidateSolution", "DisplayMotionPath")
]


def joint_limits(groups: Groups) -> dict[str, Any]:
    """Return ``joint_limits.yaml`` with velocity, acceleration and jerk limits of every joint.

    Units are rad/s, rad/s^2 and rad/s^3, with m instead of rad for prismatic joints. Position
    limits are in the URDF.
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
        "default_velocity_scaling_factor": DEFAULT_SCALING,
        "default_acceleration_scaling_factor": DEFAULT_SCALING,
        "joint_limits": limits,
    }


def kinematics(groups: Groups) -> dict[str, Any]:
    """Return ``kinematics.yaml`` with one solver per arm, also used by groups of several arms."""
    solver = {
        "kinematics_solver": "kdl_kinematics_plugin/KDLKinematicsPlugin",
        "kinematics_solver_search_resolution": 0.005,
        "kinematics_solver_timeout": 0.05,
    }
    return {arm: dict(solver) for arm in groups.arms}


def ompl(groups: Groups) -> dict[str, Any]:
    """Return ``ompl_planning.yaml`` with sampling-based planners for every group."""
    first = {arm.name: arm.joint_names[:2] for arm in groups.arms.values()}
    hands = {groups.hand_group(arm): () for arm in groups.arms.values() if arm.hand}
    sets = {name: first[arms[0]] for name, arms in groups.sets.items()}
    content: dict[str, Any] = {
        "planning_plugins": ["ompl_interface/OMPLPlanner"],
        "request_adapters": list(_REQUEST_ADAPTERS),
        "response_adapters": list(_RESPONSE_ADAPTERS),
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
    """Return ``pilz_industrial_motion_planner_planning.yaml``, for PTP, LIN and CIRC motions."""
    return {
        "planning_plugins": [f"{PILZ}/CommandPlanner"],
        "request_adapters": list(_REQUEST_ADAPTERS),
        "response_adapters": list(
            _RESPONSE_ADAPTERS[1:]
        ),  # Without AddTimeOptimalParameterization, because Pilz plans have times already.
        "default_planner_config": "PTP",
        "capabilities": f"{PILZ}/MoveGroupSequenceAction {PILZ}/MoveGroupSequenceService",
    }


def _limits(velocity: float, acceleration: float) -> dict[str, Any]:
    return {
        "has_velocity_limits": True, "max_velocity": float(velocity),
        "has_acceleration_limits": True, "max_acceleration": float(acceleration),
    }  # fmt: skip


HEADER = "(noname)+"
"""First line of a scene file without a name. Some readers require it."""
FLOOR = "floor"
FLOOR_SIZE, FLOOR_TOP = (20.0, 20.0, 0.1), -0.005
"""Edges of the floor object, and height of its top relative to the real floor [m]. It is lower, so
that arm bases do not touch it permanently."""
_NO_COLOR = (0.0, 0.0, 0.0, 0.0)
_IDENTITY_POSE = "0 0 0\n0 0 0 1"


def scene_text(objects: Sequence[SceneObject], floor: float) -> str:
    """Return the text of a MoveIt ``.scene`` file with objects and the floor, in ``world``.

    Args:
        objects: Objects of the cell.
        floor: Height of the floor [m].
    """
    center = floor + FLOOR_TOP - FLOOR_SIZE[2] / 2.0
    parts = [HEADER]
    if all(scene_object.name != FLOOR for scene_object in objects):
        parts += [f"* {FLOOR}", f"0 0 {center:.9g}\n0 0 0 1"]
        parts += _scene_file_lines([("box", FLOOR_SIZE, _IDENTITY_POSE)], _NO_COLOR)
    for obj in objects:
        quaternion = quaternion_from_rotation(obj.rotation)
        parts += [f"* {obj.name}", _numbers(obj.position.tolist()), _numbers(quaternion)]
        parts += _scene_file_lines(_solids(obj), obj.rgba)
    return "\n".join([*parts, ".", ""])


def _scene_file_lines(
    solids: Sequence[tuple[str, Sequence[float], str]], color: Sequence[float]
) -> Iterator[str]:
    yield str(len(solids))
    for kind, size, placement in solids:
        yield from (kind, _numbers(size), placement, _numbers(color))
    yield "0"


def _solids(obj: SceneObject) -> list[tuple[str, Sequence[float], str]]:
    if obj.shape == "box":
        return [("box", [2.0 * half for half in obj.size], _IDENTITY_POSE)]
    radius = obj.size[0]
    if obj.shape == "sphere":
        return [("sphere", [radius], _IDENTITY_POSE)]
    half = obj.size[1]
    ends = (half, -half) if obj.shape == "capsule" else ()
    spheres = [("sphere", [radius], f"0 0 {end:.9g}\n0 0 0 1") for end in ends]
    return [("cylinder", [radius, 2.0 * half], _IDENTITY_POSE), *spheres]


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.9g}" for value in values)


EXECUTION = {
    "execution_duration_monitoring": True,
    "allowed_execution_duration_scaling": 1.5,
    "allowed_goal_duration_margin": 2.0,
    "allowed_start_tolerance": 0.05,
}
"""Tolerances of execution: duration scaling [1], duration margin [s] and start tolerance [rad].
Compliant arms lag behind, are slowed down by contacts, and start with a small position error."""


def simple_controllers(groups: Groups) -> dict[str, Any]:
    """Return ``moveit_controllers.yaml``, for ``moveit_simple_controller_manager``.

    A controllet that follows trajectories must already be active, because this plug-in does not
    switch controllets.
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

    This plug-in activates the controllets that a plan needs.
    """
    return {
        "trajectory_execution": dict(EXECUTION),
        "moveit_manage_controllers": True,
        "moveit_controller_manager": "moveit_ros_control_interface/Ros2ControlManager",
        "ros_control_namespace": namespace,
    }


URDF, SRDF, SCENE = "cell.urdf", "cell.srdf", "cell.scene"
KINEMATICS, LIMITS = "kinematics.yaml", "joint_limits.yaml"
CARTESIAN_LIMITS = "pilz_cartesian_limits.yaml"
CONTROLLERS = {"ros_control": "ros_control_controllers.yaml", "simple": "moveit_controllers.yaml"}
"""Controller configuration files, by controller manager plug-in."""
PLANNERS = {name: f"{name}_planning.yaml" for name in ("ompl", PILZ)}
"""Planner configuration files by planning pipeline, the default one first."""
_HEADER = "# Written by multipanda moveit from the cell {name}.\n"


def moveit_files(config: CellConfig) -> dict[str, str]:
    """Return the contents of all files for MoveIt, by file name.

    Raises:
        ConfigurationError: If an arm has no controllet that follows trajectories, or an arm has
            the name of a group of several arms.
    """
    groups, name = Groups(config), config.cell.name
    tables = {
        KINEMATICS: kinematics(groups),
        LIMITS: joint_limits(groups),
        CARTESIAN_LIMITS: {"cartesian_limits": PILZ_CARTESIAN_LIMITS},
        PLANNERS["ompl"]: ompl(groups),
        PLANNERS[PILZ]: pilz(),
        CONTROLLERS["simple"]: simple_controllers(groups),
        CONTROLLERS["ros_control"]: switching_controllers(),
    }
    header = _HEADER.format(name=name)
    texts = {
        file: header + yaml.safe_dump(table, sort_keys=False, width=99)
        for file, table in tables.items()
    }
    arms = describe_arms(config)
    floor = min(0.0, *(float(arm.position_base_in_world[2]) for arm in arms))
    there = [obj for obj in describe_objects(config) if obj.present]
    return {
        URDF: cell_urdf(arms, name),
        SRDF: cell_srdf(groups, name),
        SCENE: scene_text(there, floor),
        **texts,
    }


def read_files(folder: Path) -> dict[str, str]:
    """Read all files written by ``multipanda moveit`` from a folder.

    Raises:
        ConfigurationError: If files are missing. The message lists them.
    """
    names = [URDF, SRDF, SCENE, KINEMATICS, LIMITS, CARTESIAN_LIMITS]
    names += [*CONTROLLERS.values(), *PLANNERS.values()]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ConfigurationError(
            f"{folder}: {', '.join(missing)} missing. Write the files with `multipanda moveit`"
        )
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


def move_group_parameters(
    files: Mapping[str, str], controllers_by: str, namespace: str = ""
) -> dict[str, Any]:
    """Return the ROS parameters of ``move_group`` and of RViz.

    Args:
        files: Contents of the files, by name.
        controllers_by: Controller manager plug-in, a key of :data:`CONTROLLERS`.
        namespace: Namespace of the cell.
    """
    tables = {name: yaml.safe_load(text) for name, text in files.items() if name.endswith("yaml")}
    parameters: dict[str, Any] = {
        "robot_description": files[URDF],
        "robot_description_semantic": files[SRDF],
        "robot_description_kinematics": tables[KINEMATICS],
        "robot_description_planning": {**tables[LIMITS], **tables[CARTESIAN_LIMITS]},
        "planning_pipelines": list(PLANNERS),
        "default_planning_pipeline": "ompl",
        "publish_robot_description_semantic": True,
        **{pipeline: tables[file] for pipeline, file in PLANNERS.items()},
        **tables[CONTROLLERS[controllers_by]],
    }
    # ``move_group`` reads capabilities only from its own parameters, so they are copied from those
    # of the Pilz pipeline.
    parameters["capabilities"] = parameters[PILZ]["capabilities"]
    if "ros_control_namespace" in parameters:
        parameters["ros_control_namespace"] = f"/{namespace.strip('/')}"
    return parameters
