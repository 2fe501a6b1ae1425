# SPDX-License-Identifier: Apache-2.0
"""Offline check of a task: every subtask is planned from the final state of the previous one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import MultipandaError, PlanRejected, TaskFailed
from multipanda_py.planning.optimiser.goals import PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics, Placement
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import SolverSettings
from multipanda_py.planning.optimiser.term import Smoothness, WithinLimits
from multipanda_py.planning.tasks.goals import GoalPose, subtask_goals
from multipanda_py.planning.tasks.path_problem import (
    LIMIT_MARGIN,
    ClearanceRule,
    SubtaskPlan,
    missed,
    plan_by_path,
    plan_by_poses,
    scene_of,
)
from multipanda_py.planning.tasks.preconditions import (
    check_joint_torques,
    refuse_bodies_within,
    refuse_friction,
    refuse_overlaps,
)
from multipanda_py.planning.tasks.sections import Subtask, proposed_mode
from multipanda_py.planning.tasks.task_file import TaskFile
from multipanda_py.planning.tasks.world_state import TOOL_SUFFIX, ContactPoint, WorldState
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

TIMEOUT = 30.0
"""Maximum processor time of the search for one subtask [s]."""
STRAIGHT_PATH_SLICES = 8
"""Number of configurations along the straight path of a tool without a plan."""


@dataclass(frozen=True)
class SubtaskCheck:
    """Result of the check of one subtask.

    Attributes:
        subtask: Name of the subtask.
        words: Result of its planning, or the reason why it was not checked.
        is_checked: True if it was planned.
        seconds: Processor time [s].
    """

    subtask: str
    words: str
    is_checked: bool
    seconds: float

    def __str__(self) -> str:
        return f"{self.subtask}: {self.words} ({self.seconds:.1f} s)"


def check_task(
    config: CellConfig,
    task: TaskFile,
    start: WorldState | None = None,
    on_subtask: Callable[[SubtaskCheck], None] | None = None,
) -> list[SubtaskCheck]:
    """Plan every subtask from the final state of the previous one. Nothing moves.

    Subtasks with an object that a tool has dragged are not checked, because its pose is unknown.

    Args:
        config: Checked cell configuration.
        task: Task to check.
        start: State of arms and objects, as returned by :func:`.observe`; that of the cell file by
            default.
        on_subtask: Function to call with the result of every subtask.

    Raises:
        ConfigurationError: If an arm, object or controllet of the task is not in the cell.
        TaskFailed: If a subtask is refused. The message contains the subtask, the body, and the
            distance, torque or force.

    Thread: any; it takes up to 30 s of processor time per subtask.
    """
    task.check(config)
    law = next(one for one in config.instances() if one.name == task.controllet)
    state, result, moved = (
        start or start_of(config, law.arms),
        list[SubtaskCheck](),
        dict[str, str](),
    )
    for subtask in task.subtasks:
        began = time.process_time()
        try:
            state, words = _check_subtask(config, task, subtask, state, moved)
        except MultipandaError as error:
            raise TaskFailed(f"{subtask.name}: {error}") from None
        spent = time.process_time() - began
        is_checked = not words.startswith("not checked")
        result.append(SubtaskCheck(subtask.name, words, is_checked, spent))
        if on_subtask is not None:
            on_subtask(result[-1])
    return result


def start_of(config: CellConfig, arms: Sequence[str]) -> WorldState:
    """Return the initial state of arms and objects according to the cell file.

    Args:
        config: Checked cell configuration.
        arms: Names of the arms of the task. Other arms are in ``WorldState.others``.
    """
    postures = {name: np.array(arm.q_start) for name, arm in config.arms.items()}
    described = describe_arms(config)
    scene = Scene(described, (), postures)
    frames = (
        Kinematics(scene, [arm + TOOL_SUFFIX for arm in arms])
        .forward_kinematics(scene.start[None])
        .frames
    )
    return WorldState(
        {arm: postures[arm] for arm in arms},
        {
            arm: Pose(frames[arm + TOOL_SUFFIX].position[0], frames[arm + TOOL_SUFFIX].rotation[0])
            for arm in arms
        },
        {
            obj.name: Pose(obj.position, obj.rotation)
            for obj in describe_objects(config)
            if obj.present
        },
        {name: q for name, q in postures.items() if name not in arms},
    )


def _position_stiffness(config: CellConfig, controllet: str) -> Vector:
    spec = next(one for one in instance_specs(config) if one.name == controllet)
    return np.array(spec.initial_values()["position_stiffness"], float)[:3]


def _pose(frame: Placement) -> Pose:
    return Pose(frame.position[0], frame.rotation[0])


def _check_subtask(
    config: CellConfig,
    task: TaskFile,
    subtask: Subtask,
    state: WorldState,
    dragged_by: dict[str, str],
) -> tuple[WorldState, str]:
    """Return the expected state after the subtask, and the planning result as text."""
    mode = proposed_mode(subtask) or "optimization"
    points = task.points(subtask, config)
    concerned = {point.object_name for point in points}
    named = {name for goal in subtask.goals for name in (goal.base, goal.frame)}
    lost = sorted((concerned | named) & dragged_by.keys())
    if lost and (mode != "force" or not subtask.goals or named & dragged_by.keys()):
        return state, f"not checked: the pose of {lost[0]} after {dragged_by[lost[0]]} is unknown"
    if lost:
        known = {name: pose for name, pose in state.object_poses.items() if name not in dragged_by}
        free = replace(state, object_poses=known)
        plan = _plan_straight_paths(config, [], subtask_goals(subtask, [], free), free)
        _refuse_overlaps(config, subtask, [], [], plan, free)
        return replace(
            plan.end, object_poses=state.object_poses
        ), f"{plan.words}, {lost[0]} ignored"
    goals = subtask_goals(subtask, points, state)
    refuse_bodies_within(config, points, goals, state, subtask)
    if mode == "force":
        if not subtask.goals:
            touch = subtask.model_copy(update={"force": 0.0, "approach_distance": 0.0})
            plan = _by_path(config, task, touch, [], subtask_goals(touch, points, state), state)
        else:
            plan = _plan_straight_paths(config, points, goals, state)
            refuse_friction(
                config, points, plan, subtask, _position_stiffness(config, task.controllet)
            )
            for point in points:
                if _is_dragged(config, point, goals):
                    dragged_by[point.object_name] = subtask.name
    else:
        pressed = points if mode == "hybrid" else []
        try:
            plan = _by_path(config, task, subtask, pressed, goals, state)
        except PlanRejected:
            if subtask.on_failure.fallback != "force":
                raise
            plan = _plan_straight_paths(config, points, goals, state)
    if subtask.force:
        check_joint_torques(config, points, plan, subtask.force)
    _refuse_overlaps(config, subtask, points, goals, plan, state)
    return plan.end, plan.words


def _refuse_overlaps(
    config: CellConfig,
    subtask: Subtask,
    points: list[ContactPoint],
    goals: list[GoalPose],
    plan: SubtaskPlan,
    state: WorldState,
) -> None:
    touched = {(goal.frame.removesuffix(TOOL_SUFFIX), goal.base) for goal in goals}
    touched |= {(point.arm, point.object_name) for point in points}
    touched |= {(arm, obj) for arm in state.postures for obj in subtask.allowed_contacts}
    scene = scene_of(config, state, {*plan.object_paths})
    slices = [
        scene.configuration(
            {arm: rows[number] for arm, rows in plan.postures.items()},
            {name: poses[number] for name, poses in plan.object_paths.items()},
        )
        for number in range(len(plan.times))
    ]
    refuse_overlaps(scene, np.array(slices), touched)


def _is_dragged(config: CellConfig, point: ContactPoint, goals: list[GoalPose]) -> bool:
    is_movable = config.objects[point.object_name].mass > 0.0
    return is_movable and any(goal.frame == point.arm + TOOL_SUFFIX for goal in goals)


def _by_path(
    config: CellConfig,
    task: TaskFile,
    subtask: Subtask,
    pressed: list[ContactPoint],
    goals: list[GoalPose],
    state: WorldState,
) -> SubtaskPlan:
    constraint = None
    if task.clearance is not None:
        constraint = ClearanceRule(task.clearance, subtask.allowed_contacts)
    settings = SolverSettings(time=TIMEOUT)
    return plan_by_path(subtask, pressed, goals, state, config, settings, constraint)


def _plan_straight_paths(
    config: CellConfig, points: list[ContactPoint], goals: list[GoalPose], state: WorldState
) -> SubtaskPlan:
    plan = plan_by_poses(points, goals, state)
    scene = scene_of(config, state, ())
    problem = Problem(scene, 1, STRAIGHT_PATH_SLICES, max(plan.lead_time, 0.1))
    problem.add(Smoothness(), "cost", scale=0.3).add(WithinLimits(margin=LIMIT_MARGIN))
    for arm, lead in plan.straight_paths.items():
        for number in range(1, STRAIGHT_PATH_SLICES + 1):
            fraction = number / STRAIGHT_PATH_SLICES
            problem.add(PoseGoal(arm + TOOL_SUFFIX, lead.sample(fraction)), at=fraction)
    result = problem.solve(SolverSettings(time=TIMEOUT))
    if not result.is_feasible:
        raise TaskFailed(f"the arms cannot follow the straight tool path: {missed(result)}")
    postures = {arm: result.arm_configuration(arm) for arm in scene.arms}
    end = replace(plan.end, postures={arm: rows[-1] for arm, rows in postures.items()})
    return replace(plan, end=end, times=result.times, postures=postures)
