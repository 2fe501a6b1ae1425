# SPDX-License-Identifier: Apache-2.0
"""Planning of a subtask as a path optimisation problem."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.distance import Distance
from multipanda_py.planning.optimiser.free_space import too_close
from multipanda_py.planning.optimiser.goals import Axis, Orientation, PoseGoal, Position
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.path_search import find_path
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import Solution, SolverSettings
from multipanda_py.planning.optimiser.term import Rest, Smoothness, VelocityLimits, WithinLimits
from multipanda_py.planning.tasks.goals import (
    FLOOR_OBJECT,
    AllowedContacts,
    GoalPose,
    StraightPath,
    as_objects,
    distance_constraints,
    is_clear,
)
from multipanda_py.planning.tasks.sections import WORLD, Subtask
from multipanda_py.planning.tasks.world_state import TOOL_SUFFIX, ContactPoint, WorldState
from multipanda_py.planning.trajectory.trajectory import complete
from multipanda_py.pose import Pose
from multipanda_py.state import MAX_TORQUE_FRACTION, Matrix, Vector


@dataclass(frozen=True, eq=False)
class SubtaskPlan:
    """Plan of a subtask.

    Attributes:
        start: State of arms and objects at the start, measured or expected.
        end: Expected state after the subtask.
        goals: Goals of the subtask.
        words: Result of planning in one sentence.
        times: Times of the s time steps since the start of the path, (s,) [s].
        postures: Joint positions at all time steps, by arm, (s, n) [rad, m]. Empty without a path.
        object_paths: Poses in the world at all time steps, by carried object.
        straight_paths: Straight tool paths for a subtask without a planned path, by arm.
    """

    start: WorldState
    end: WorldState
    goals: Sequence[GoalPose]
    words: str = ""
    times: Vector = field(default_factory=lambda: np.zeros(0))
    postures: Mapping[str, Matrix] = field(default_factory=dict)
    object_paths: Mapping[str, Sequence[Pose]] = field(default_factory=dict)
    straight_paths: Mapping[str, StraightPath] = field(default_factory=dict)

    @property
    def lead_time(self) -> float:
        """Common duration of all straight tool paths [s]; the slowest path determines it."""
        return max((lead.time for lead in self.straight_paths.values()), default=0.0)

    def tool_poses(self, time: float) -> dict[str, Pose]:
        """Return the tool poses in the world on the straight paths at a time [s], by arm."""
        whole = self.lead_time
        fraction = min(1.0, time / whole) if whole > 0.0 else 1.0
        return {arm: lead.sample(fraction) for arm, lead in self.straight_paths.items()}

    def points(self, arm: str, configuration: Vector) -> Matrix:
        """Return the trajectory of an arm, as for :meth:`.Cell.follow_trajectory`.

        .. math:: q_k + (q - q_0) (1 - s(t_k / T)).

        :math:`q_k` are the planned positions at the times :math:`t_k`, T is the duration, and s
        the minimum-jerk profile.

        Args:
            arm: Name of the arm.
            configuration: Measured joint positions q, (n,) [rad, m].
        """
        times = np.concatenate([[0.0], self.times])
        path = np.vstack([self.start.postures[arm], self.postures[arm]])
        fraction = times / times[-1]
        fading = 1.0 - fraction**3 * (10.0 - 15.0 * fraction + 6.0 * fraction**2)
        return complete(times, path + np.outer(fading, configuration - path[0]))[1:]

    def expected(self, object_name: str, time: float) -> Pose:
        """Return the planned pose of an object in the world at a time since the start [s]."""
        path = self.object_paths.get(object_name)
        if path is None:
            return self.start.pose(object_name)
        positions = [self.start.pose(object_name), *path]
        times = np.concatenate([[0.0], self.times])
        after = min(int(np.searchsorted(times, time)), len(times) - 1)
        before = max(after - 1, 0)
        fraction = (time - times[before]) / max(times[after] - times[before], 1e-9)
        fraction = min(max(fraction, 0.0), 1.0)
        between = (
            positions[before].position * (1.0 - fraction) + positions[after].position * fraction
        )
        return positions[before if fraction < 0.5 else after].with_position(between)


def plan_by_poses(
    points: Sequence[ContactPoint], goals: Sequence[GoalPose], start: WorldState
) -> SubtaskPlan:
    """Return straight tool paths without collision checks. Grasped objects move with the tools."""
    straight_paths: dict[str, StraightPath] = {}
    objects = dict(start.object_poses)
    for goal in goals:
        there, here = goal.in_world(start), start.pose(goal.frame)
        if goal.frame.endswith(TOOL_SUFFIX):
            straight_paths[goal.frame.removesuffix(TOOL_SUFFIX)] = StraightPath(
                here, there, Pose.identity()
            )
            continue
        objects[goal.frame] = there
        for point in points:
            if point.object_name == goal.frame:
                straight_paths[point.arm] = StraightPath(
                    here, there, here.inverse() @ start.tools[point.arm]
                )
    tools = {arm: lead.sample(1.0) for arm, lead in straight_paths.items()}
    end = replace(start, tools={**start.tools, **tools}, object_poses=objects)
    return SubtaskPlan(start, end, goals, "without a plan", straight_paths=straight_paths)


LIMIT_MARGIN = 0.1
"""Margin of plans to the joint position limits [rad]. Closer to them, the barriers of
``joint_limits`` would push away an arm that searches for its contact."""
PIVOT_ANGLE_WEIGHT = 1.0
"""Scale of the cost of the angle between a pivoting tool and its contact normal."""
PIVOT_ROTATION_WEIGHT = 3.0
"""Scale of the cost of a rotation of a pivoting tool in its object. A spinning tip would rotate
the object."""
VELOCITY_SCALING = 0.7
"""Fraction of the joint speed limits for plans. Feedback and interpolation need the remainder."""
MAX_SEARCHES = 6
"""Maximum number of searches for a path around obstacles."""


@dataclass(frozen=True)
class ClearanceRule:
    """Distance that arms and carried objects keep from other bodies.

    Attributes:
        clearance: Minimum distance [m].
        touching: Names of objects that grippers may touch, and on which carried objects may rest.
    """

    clearance: float
    touching: Collection[str] = ()


def plan_by_path(
    subtask: Subtask,
    points: Sequence[ContactPoint],
    goals: Sequence[GoalPose],
    start: WorldState,
    config: CellConfig,
    settings: SolverSettings,
    constraint: ClearanceRule | None = None,
) -> SubtaskPlan:
    """Plan a path of all arms for a subtask. Grippers stay at their contact points.

    Args:
        subtask: Subtask of a checked task.
        points: Contact points of the grippers on the carried objects.
        goals: Poses of tools and objects at the end of the subtask.
        start: State of arms and objects at the start.
        config: Checked cell configuration.
        settings: Tolerances and limits of the search.
        constraint: Minimum distance of arms and carried objects to other bodies; None for none.

    Raises:
        PlanRejected: If no path was found. The message contains the violated constraint.

    Thread: any.
    """
    carried = {point.object_name for point in points}
    scene = scene_of(config, start, carried)
    problem = Problem(scene, 1, subtask.time_steps, subtask.duration)
    problem.add(Smoothness(), "cost", scale=0.3)
    problem.add(WithinLimits(margin=LIMIT_MARGIN)).add(VelocityLimits(fraction=VELOCITY_SCALING))
    problem.add(Rest(*scene.arms), at=1)
    for point in points:
        tool = point.arm + TOOL_SUFFIX
        held = start.pose(tool).inverse() @ start.pose(point.object_name)
        if point.pivots:
            tip = start.pose(point.object_name).inverse() @ start.pose(tool)
            problem.add(Position(tool, tip.position, point.object_name))
            lean = Axis(tool, [0.0, 0.0, 1.0], point.inward, point.object_name)
            problem.add(lean, "cost", scale=PIVOT_ANGLE_WEIGHT)
            problem.add(
                Orientation(point.object_name, held, tool), "cost", scale=PIVOT_ROTATION_WEIGHT
            )
        else:
            problem.add(PoseGoal(point.object_name, held, tool))
    for goal in goals:
        if goal.position is not None:
            problem.add(Position(goal.frame, goal.position, goal.base), at=1)
        if goal.rotation is not None:
            turned = Pose(np.zeros(3), goal.rotation)
            problem.add(Orientation(goal.frame, turned, goal.base), at=1)
        if goal.direction is not None:
            problem.add(Axis(goal.frame, [0.0, 0.0, 1.0], goal.direction, goal.base), at=1)
    distances = []
    if constraint is not None:
        placed = {goal.frame: goal.in_world(start) for goal in goals if goal.frame in carried}
        touched = {(goal.frame.removesuffix(TOOL_SUFFIX), goal.base) for goal in goals}
        touched |= {(point.arm, point.object_name) for point in points}
        desired = AllowedContacts(touched, placed, constraint.touching)
        distances = distance_constraints(scene, desired, constraint.clearance)
    result = _search_path(problem, distances, settings)
    if not result.is_feasible:
        raise PlanRejected(f"no path: {missed(result)}")
    _refuse_excess_torques(subtask.force, points, scene, result)
    tools = [arm + TOOL_SUFFIX for arm in scene.arms]
    frames = Kinematics(scene, tools).forward_kinematics(result.path[-1:]).frames
    end = WorldState(
        {arm: result.arm_configuration(arm)[-1] for arm in scene.arms},
        {
            arm: Pose(frames[tool].position[0], frames[tool].rotation[0])
            for arm, tool in zip(scene.arms, tools)
        },
        {**start.object_poses, **{name: result.pose(name) for name in scene.movable}},
        start.others,
    )
    return SubtaskPlan(
        start,
        end,
        goals,
        result.reason,
        result.times,
        {arm: result.arm_configuration(arm) for arm in scene.arms},
        {
            name: [result.pose(name, number) for number in range(len(result.times))]
            for name in scene.movable
        },
    )


def _refuse_excess_torques(
    contact_force: float, points: Sequence[ContactPoint], scene: Scene, result: Solution
) -> None:
    frames = (
        Kinematics(scene, [point.arm + TOOL_SUFFIX for point in points])
        .forward_kinematics(result.path)
        .frames
    )
    for point in points:
        arm, jacobians = scene.arms[point.arm], frames[point.arm + TOOL_SUFFIX].jacobian
        allowed = MAX_TORQUE_FRACTION * arm.limits.torque
        for number, jacobian in enumerate(jacobians):
            direction = result.pose(point.object_name, number).rotation @ point.inward
            torque = np.abs(contact_force * direction @ jacobian[:3, scene.columns[point.arm]])
            joint = int((torque / allowed).argmax())
            if torque[joint] > allowed[joint]:
                raise PlanRejected(
                    f"joint {joint + 1} of {point.arm}: a force of {contact_force:g} N needs "
                    f"{torque[joint]:.2f} Nm at {result.times[number]:.2f} s, allowed "
                    f"{allowed[joint]:.2f} Nm"
                )


def _search_path(
    problem: Problem, distances: Sequence[Distance], settings: SolverSettings
) -> Solution:
    # The first search ignores the distances.
    result = problem.solve(settings)
    if not result.is_feasible or is_clear(distances, problem.scene, result.path):
        return result
    for distance in distances:
        problem.add(distance)
    around = problem.solve(settings, start=result.path)
    if around.is_feasible and not too_close(problem.terms, around, problem.each):
        return around
    return find_path(problem, tries=MAX_SEARCHES, settings=settings)


def missed(result: Solution) -> str:
    """Describe the largest violation with its bodies, and the result of the search."""
    if not result.violations:
        return result.reason
    worst = result.violations[0]
    bodies = " and ".join(body for body in dict.fromkeys(worst.bodies) if body != WORLD)
    path = "at its end" if worst.step == len(result.path) - 1 else "on its way"
    return f"{bodies} would be {worst.amount:.3f} {worst.unit} off {path}: {result.reason}"


def scene_of(config: CellConfig, state: WorldState, carried: Collection[str]) -> Scene:
    """Return the scene of a state. Only carried objects are movable."""
    objects = [
        replace(
            obj,
            position=state.object_poses[obj.name].position,
            rotation=state.object_poses[obj.name].rotation,
            mass=obj.mass if obj.name in carried else 0.0,
            present=True,
        )
        for obj in describe_objects(config)
        if obj.name in state.object_poses
    ]
    if FLOOR_OBJECT.name not in state.object_poses:
        objects.append(FLOOR_OBJECT)
    arms = {arm.name: arm for arm in describe_arms(config)}
    for name, configuration in state.others.items():
        objects += as_objects(arms[name], configuration)
    return Scene([arms[name] for name in state.postures], objects, state.postures)
