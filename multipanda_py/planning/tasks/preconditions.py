# SPDX-License-Identifier: Apache-2.0
"""Preconditions of a subtask: goals without overlap, and forces that the joints can exert."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product

import coal
import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.exceptions import TaskFailed
from multipanda_py.planning.optimiser.distance import Distance, clearances, frame_of, shape_of
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solids import solids_of
from multipanda_py.planning.tasks.goals import GoalPose
from multipanda_py.planning.tasks.path_problem import SubtaskPlan, scene_of
from multipanda_py.planning.tasks.sections import Subtask
from multipanda_py.planning.tasks.world_state import TOOL_SUFFIX, ContactPoint, WorldState
from multipanda_py.pose import Pose
from multipanda_py.robots.inertial import STANDARD_GRAVITY
from multipanda_py.state import Matrix, Vector

MAX_LINK_OVERLAP, MAX_OBJECT_OVERLAP = 5e-3, 5e-3
"""Maximum overlap of capsules, and of objects [m]. Capsules are larger than links. Objects may
rest on each other, or be pressed together."""
MAX_OVERLAP_INCREASE = 5e-3
"""Maximum increase of an overlap that exists at the start of the subtask [m]."""
CHECKS_PER_STEP = 4
"""Number of checked configurations from one time step of a plan to the next."""


def refuse_overlaps(scene: Scene, path: Matrix, touched: Collection[tuple[str, str]]) -> None:
    """Refuse a path on which bodies overlap by more than a tolerance.

    Args:
        scene: Arms and objects at the start, with carried objects as movable.
        path: Variables of the scene (joint positions and object poses) at s time steps after the
            start, (s, d).
        touched: Pairs of an arm and an object that its gripper may touch.

    Raises:
        TaskFailed: If bodies overlap too much. The message contains the bodies and the depth.
    """
    whole = np.concatenate([scene.start[None], path])
    fraction = np.arange(1, CHECKS_PER_STEP + 1)[:, None] / CHECKS_PER_STEP
    dense = (whole[:-1, None] + fraction * np.diff(whole, axis=0)[:, None]).reshape(-1, scene.size)
    every = np.concatenate([scene.start[None], dense])
    matches = [one for one in _pairs(scene, touched) if one.pairs]
    frames = dict.fromkeys(name for one in matches for name in one.frames)
    placed = Kinematics(scene, frames).forward_kinematics(every)
    for one in matches:
        depths = one.evaluate(placed)[0].max(axis=1)
        allowed = MAX_OBJECT_OVERLAP if one.of[0] in scene.objects else MAX_LINK_OVERLAP
        allowed = max(allowed, float(depths[0]) + MAX_OVERLAP_INCREASE)
        deepest = int(depths.argmax())
        if depths[deepest] > allowed:
            first, second = one.of
            names = f"parts of {first}" if first == second else f"{first} and {second}"
            raise TaskFailed(
                f"{names} would overlap by {depths[deepest]:.3f} m "
                f"{_time_description(deepest, len(every))}, "
                f"allowed {allowed:.3f} m"
            )


def _pairs(scene: Scene, touched: Collection[tuple[str, str]]) -> Iterator[Distance]:
    for one in clearances(scene, (), 0.0):
        is_touched = one.of in touched
        yield Distance(scene, *one.of, 0.0, "arm") if is_touched else one
    others = [scene_object for scene_object in scene.objects if scene_object not in scene.movable]
    for obj, other in product(scene.movable, others):
        yield Distance(scene, obj, other, 0.0)


def _time_description(number: int, count: int) -> str:
    if number == 0:
        return "at the start"
    return "at the end" if number == count - 1 else "on the way"


def refuse_bodies_within(
    config: CellConfig,
    points: Sequence[ContactPoint],
    goals: Sequence[GoalPose],
    state: WorldState,
    subtask: Subtask,
) -> None:
    """Refuse contact points, and goals of tools and objects, inside another body.

    Raises:
        TaskFailed: If a point or goal is inside a body. The message contains the body and the
            depth.
    """
    scene = scene_of(config, state, ())
    poses = dict(state.object_poses)
    for point in points:
        world = state.pose(point.object_name) @ Pose(point.point, np.eye(3))
        _refuse_point(scene, poses, world.position,
                      f"contact of {point.arm} on {point.object_name}",
                      {point.object_name})  # fmt: skip
    for goal in goals:
        pose = goal.in_world(state)
        if goal.frame.endswith(TOOL_SUFFIX):
            arm = goal.frame.removesuffix(TOOL_SUFFIX)
            touched = {point.object_name for point in points if point.arm == arm} | {
                *subtask.allowed_contacts
            }
            if goal.position is not None:
                _refuse_point(scene, poses, pose.position, f"goal of {goal.frame}", touched)
            continue
        for other, depth in _overlaps_with_others(scene, poses, goal.frame, pose):
            if depth > MAX_OBJECT_OVERLAP and other not in subtask.allowed_contacts:
                raise TaskFailed(
                    f"{goal.frame} would overlap with {other} by {depth:.3f} m at its goal, "
                    f"allowed up to {MAX_OBJECT_OVERLAP:g} m"
                )


def check_joint_torques(
    config: CellConfig, points: Sequence[ContactPoint], plan: SubtaskPlan, force: float
) -> None:
    r"""Refuse a contact force that exceeds a torque limit in any configuration of a plan.

    .. math:: |J^T (f u + m g / n)| \le \tau_{max}.

    f is the force [N] along the inward normal u. m is the mass of an object that n grippers carry,
    and g the gravitational acceleration. J is the translational Jacobian of the tool, and
    :math:`\tau_{max}` the torque limits.

    Raises:
        TaskFailed: If a torque limit is exceeded. The message contains the joint and its torque.
    """
    described = {arm.name: arm for arm in describe_arms(config)}
    scene = Scene([described[arm] for arm in plan.start.postures], (), plan.start.postures)
    tools = [point.arm + TOOL_SUFFIX for point in points]
    postures = plan.postures or {arm: q[None] for arm, q in plan.start.postures.items()}
    slices = np.array(
        [
            scene.configuration({arm: rows[k] for arm, rows in postures.items()})
            for k in range(len(next(iter(postures.values()))))
        ]
    )
    frames = Kinematics(scene, tools).forward_kinematics(slices).frames
    carried = plan.object_paths
    for point in points:
        limits = described[point.arm].limits
        columns = scene.columns[point.arm]
        grippers = sum(other.object_name == point.object_name for other in points)
        weight = config.objects[point.object_name].mass * STANDARD_GRAVITY / grippers
        for number in range(len(slices)):
            obj = plan.start.pose(point.object_name)
            if point.object_name in carried:
                obj = carried[point.object_name][number]
            wrench = force * (obj.rotation @ point.inward)
            if point.object_name in carried:
                wrench = wrench + [0.0, 0.0, weight]
            jacobian = frames[point.arm + TOOL_SUFFIX].jacobian[number, :3, columns]
            torque: Vector = np.abs(jacobian.T @ wrench)
            joint = int((torque / limits.torque).argmax())
            if torque[joint] > limits.torque[joint]:
                raise TaskFailed(
                    f"{point.arm}: joint {joint + 1} would need {torque[joint]:.1f} "
                    f"{limits.unit(joint, 'Nm')} to press with {force:g} N on "
                    f"{point.object_name}, allowed {limits.torque[joint]:g}"
                )


def refuse_friction(
    config: CellConfig,
    points: Sequence[ContactPoint],
    plan: SubtaskPlan,
    subtask: Subtask,
    stiffness: Vector,
) -> None:
    r"""Refuse goals that a tool cannot reach because of friction on a fixed object.

    .. math:: \lVert K_t^{-1} \rVert \mu f \le 0.95\, e_{max}.

    The left side is the position error of the tool by friction. :math:`K_t` is the position
    stiffness perpendicular to the contact force f, :math:`\mu` the friction coefficient, and
    :math:`e_{max}` the position tolerance of the subtask.

    Args:
        config: Checked cell configuration.
        points: Contact points of the subtask.
        plan: Plan of the subtask. Tools with a planned path are not checked.
        subtask: Subtask in mode ``force``.
        stiffness: Position stiffness of the controllet along the axes of the base, (3,) [N/m].

    Raises:
        TaskFailed: If the position error is too large. The message contains a force and a
            stiffness with which the goal is reached.
    """
    bases = {arm.name: arm.rotation_base_in_world for arm in describe_arms(config)}
    for point in points:
        obj, tool = config.objects[point.object_name], config.arms[point.arm].tool
        friction = tool.friction if tool is not None and tool.friction > 0.0 else obj.friction
        if point.arm not in plan.straight_paths or obj.mass > 0.0 or friction == 0.0:
            continue
        normal = bases[point.arm].T @ plan.start.pose(point.object_name).rotation @ point.inward
        across = np.linalg.svd(normal[None])[2][1:]
        force = friction * subtask.force
        softest = float(np.linalg.eigvalsh((across * stiffness) @ across.T)[0])
        off = force / softest if softest > 0.0 else np.inf
        # 5 % of the tolerance remain for position errors of joints and sensors.
        allowed = 0.95 * subtask.position_tolerance
        if off > allowed:
            raise TaskFailed(
                f"{point.arm}: friction of {force:.1f} N on {point.object_name} keeps the tool "
                f"{off:.3f} m from its goal, allowed {subtask.position_tolerance:g} m "
                f"(position_tolerance). Reduce the force to {allowed * softest / friction:.1f} N, "
                f"or raise position_stiffness to {force / allowed:.0f} N/m"
            )


def _refuse_point(
    scene: Scene, poses: dict[str, Pose], position: Vector, description: str, touched: set[str]
) -> None:
    ball = coal.Sphere(1e-4)
    at = coal.Transform3s(np.eye(3), position)
    for name in scene.objects:
        if name in touched:
            continue
        depth = -_signed_distance(scene, name, poses.get(name), ball, at)
        if depth > 0.0:
            raise TaskFailed(f"{description} would be {depth:.3f} m inside {name}")


def _overlaps_with_others(
    scene: Scene, poses: dict[str, Pose], name: str, pose: Pose
) -> Iterator[tuple[str, float]]:
    """Yield name and overlap [m] of every other object; negative if apart."""
    (solid,) = solids_of(scene, name)
    shape, at = _placed(solid, pose)
    for other in scene.objects:
        if other != name:
            yield other, -_signed_distance(scene, other, poses.get(other), shape, at)


def _placed(solid: object, pose: Pose) -> tuple[object, object]:
    rotation, centre = frame_of(solid)  # type: ignore[arg-type]
    return shape_of(solid), coal.Transform3s(  # type: ignore[arg-type]
        pose.rotation @ rotation, pose.position + pose.rotation @ centre
    )


def _signed_distance(
    scene: Scene, name: str, pose: Pose | None, shape: object, shape_pose: object
) -> float:
    obj = scene.objects[name]
    (solid,) = solids_of(scene, name)
    other, there = _placed(solid, pose or Pose(obj.position, obj.rotation))
    distance: float = coal.distance(
        shape, shape_pose, other, there, coal.DistanceRequest(), coal.DistanceResult()
    )
    return distance
