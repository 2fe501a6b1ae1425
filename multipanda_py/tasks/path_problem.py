# SPDX-License-Identifier: Apache-2.0
"""A subtask as a problem of the optimiser of paths."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.exceptions import PlanRejected
from multipanda_py.limits import MAX_TORQUE_FRACTION
from multipanda_py.optimiser.between_slices import too_close
from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.goals import Axis, Orientation, PoseGoal, Position
from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.optimiser.motion import Rest, Smoothness, VelocityLimits, WithinLimits
from multipanda_py.optimiser.path_search import find_path
from multipanda_py.optimiser.problem import Problem
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solution import Solution
from multipanda_py.optimiser.solver import SolverSettings
from multipanda_py.pose import Pose
from multipanda_py.tasks.apart import Encounters, apart, is_clear
from multipanda_py.tasks.arm_solids import FLOOR, as_things
from multipanda_py.tasks.contact_points import ContactPoint
from multipanda_py.tasks.sections import WORLD, Subtask
from multipanda_py.tasks.seen import TOOL, Seen
from multipanda_py.tasks.subtask_plan import SubtaskPlan
from multipanda_py.tasks.wanted import GoalPlace

LIMIT_MARGIN = 0.1
"""Distance of plans from the joints' position limits [rad]. The barriers of ``joint_limits`` begin
there, and would push an arm away that searches for its contact."""
UPRIGHT = 1.0
"""Weight of a tool's angle to the normal that it presses along, where it may turn."""
UNTURNED = 3.0
"""Weight of its turn in the thing, likewise: a tip that spins takes the thing along."""
SPEED_SHARE = 0.7
"""Of the joints' speed limits, for what replaces the plan between its slices."""
TRIES = 6
"""Beginnings of a path around something, most."""


@dataclass(frozen=True)
class Keeping:
    """What arms, and what they carry, keep from all that they are not to touch.

    Attributes:
        clearance: How far [m].
        touching: Things that hands may touch, and what they carry may rest on.
    """

    clearance: float
    touching: Collection[str] = ()


def plan_by_path(
    subtask: Subtask,
    points: Sequence[ContactPoint],
    goals: Sequence[GoalPlace],
    start: Seen,
    config: CellConfig,
    settings: SolverSettings,
    keeping: Keeping | None = None,
) -> SubtaskPlan:
    """Find the path of all arms of a subtask; things that are pressed on stay in their hands.

    Args:
        subtask: Of a checked task.
        points: Where its hands press, none if they press on nothing.
        goals: At the end.
        start: Where everything is at the beginning.
        config: The cell.
        settings: Limits of the search.
        keeping: What arms and what they carry keep away from, nothing if it is None.

    Raises:
        PlanRejected: If there is no such path, with the constraints that are not met.

    Thread: any.
    """
    carried = {point.thing for point in points}
    scene = scene_of(config, start, carried)
    problem = Problem(scene, 1, subtask.slices, subtask.duration)
    problem.add(Smoothness(), "cost", scale=0.3)
    problem.add(WithinLimits(margin=LIMIT_MARGIN)).add(VelocityLimits(share=SPEED_SHARE))
    problem.add(Rest(*scene.arms), at=1)
    for point in points:
        tool = point.arm + TOOL
        held = start.pose(tool).inverse() @ start.pose(point.thing)
        if point.pivots:
            tip = start.pose(point.thing).inverse() @ start.pose(tool)
            problem.add(Position(tool, tip.position, point.thing))
            lean = Axis(tool, [0.0, 0.0, 1.0], point.inward, point.thing)
            problem.add(lean, "cost", scale=UPRIGHT)
            problem.add(Orientation(point.thing, held, tool), "cost", scale=UNTURNED)
        else:
            problem.add(PoseGoal(point.thing, held, tool))
    for goal in goals:
        if goal.position is not None:
            problem.add(Position(goal.frame, goal.position, goal.base), at=1)
        if goal.rotation is not None:
            turned = Pose(np.zeros(3), goal.rotation)
            problem.add(Orientation(goal.frame, turned, goal.base), at=1)
        if goal.direction is not None:
            problem.add(Axis(goal.frame, [0.0, 0.0, 1.0], goal.direction, goal.base), at=1)
    distances = []
    if keeping is not None:
        placed = {goal.frame: goal.in_world(start) for goal in goals if goal.frame in carried}
        touched = {(goal.frame.removesuffix(TOOL), goal.base) for goal in goals}
        touched |= {(point.arm, point.thing) for point in points}
        wanted = Encounters(touched, placed, keeping.touching)
        distances = apart(scene, wanted, keeping.clearance)
    found = _search(problem, distances, settings)
    if not found.is_feasible:
        raise PlanRejected(f"no path: {missed(found)}")
    _check_force(subtask.force, points, scene, found)
    tools = [arm + TOOL for arm in scene.arms]
    frames = Kinematics(scene, tools).place(found.path[-1:]).frames
    end = Seen(
        {arm: found.posture(arm)[-1] for arm in scene.arms},
        {
            arm: Pose(frames[tool].position[0], frames[tool].rotation[0])
            for arm, tool in zip(scene.arms, tools)
        },
        {**start.things, **{name: found.pose(name) for name in scene.movable}},
        start.others,
    )
    return SubtaskPlan(
        start,
        end,
        goals,
        found.reason,
        found.times,
        {arm: found.posture(arm) for arm in scene.arms},
        {
            name: [found.pose(name, number) for number in range(len(found.times))]
            for name in scene.movable
        },
    )


def _check_force(
    force: float, points: Sequence[ContactPoint], scene: Scene, found: Solution
) -> None:
    """Refuse a path on which a joint cannot exert the force [N].

    Raises:
        PlanRejected: With joint, torque and time of the first violation.
    """
    frames = Kinematics(scene, [point.arm + TOOL for point in points]).place(found.path).frames
    for point in points:
        arm, jacobians = scene.arms[point.arm], frames[point.arm + TOOL].jacobian
        allowed = MAX_TORQUE_FRACTION * arm.limits.torque
        for number, jacobian in enumerate(jacobians):
            direction = found.pose(point.thing, number).rotation @ point.inward
            torque = np.abs(force * direction @ jacobian[:3, scene.columns[point.arm]])
            joint = int((torque / allowed).argmax())
            if torque[joint] > allowed[joint]:
                raise PlanRejected(
                    f"joint {joint + 1} of {point.arm}: force of {force:g} N takes "
                    f"{torque[joint]:.2f} Nm at {found.times[number]:.2f} s, allowed "
                    f"{allowed[joint]:.2f} Nm"
                )


def _search(problem: Problem, distances: Sequence[Distance], settings: SolverSettings) -> Solution:
    """Find a path, with regard to distances only where the one without does not keep them."""
    found = problem.solve(settings)
    if not found.is_feasible or is_clear(distances, problem.scene, found.path):
        return found
    for distance in distances:
        problem.add(distance)
    around = problem.solve(settings, start=found.path)
    if around.is_feasible and not too_close(problem.terms, around, problem.each):
        return around
    return find_path(problem, tries=TRIES, settings=settings)


def missed(found: Solution) -> str:
    """Return the largest violation, with its bodies, and the reason of the search."""
    if not found.violations:
        return found.reason
    worst = found.violations[0]
    bodies = " and ".join(body for body in dict.fromkeys(worst.bodies) if body != WORLD)
    where = "at its end" if worst.slice == len(found.path) - 1 else "on its way"
    return f"{bodies} would be {worst.amount:.3f} {worst.unit} off {where}: {found.reason}"


def scene_of(config: CellConfig, seen: Seen, carried: Collection[str]) -> Scene:
    """Return arms and things where they are; only what is carried is movable."""
    things = [
        replace(
            thing,
            position=seen.things[thing.name].position,
            rotation=seen.things[thing.name].rotation,
            mass=thing.mass if thing.name in carried else 0.0,
            present=True,
        )
        for thing in describe_objects(config)
        if thing.name in seen.things
    ]
    if FLOOR.name not in seen.things:
        things.append(FLOOR)
    arms = {arm.name: arm for arm in describe_arms(config)}
    for name, posture in seen.others.items():
        things += as_things(arms[name], posture)
    return Scene([arms[name] for name in seen.postures], things, seen.postures)
