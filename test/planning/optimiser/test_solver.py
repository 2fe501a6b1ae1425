# SPDX-License-Identifier: Apache-2.0
"""Paths against closed forms, a dense solver, and two arms that carry a box."""

from __future__ import annotations

import time

import numpy as np
import pytest
from optimiser_scenes import one_arm
from processes import let_pass

from multipanda_py.exceptions import PlanRejected, UnknownName
from multipanda_py.planning.optimiser.goals import PoseGoal, Position, RelativePose
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import NormalEquations, SolverSettings
from multipanda_py.planning.optimiser.term import (
    Near,
    Rest,
    Smoothness,
    VelocityLimits,
    WithinLimits,
    make_term,
)
from multipanda_py.pose import Pose as Placed
from multipanda_py.robots import ArmDescription, SceneObject

pytestmark = pytest.mark.inline
EXACT = SolverSettings(step=1e-7, violation=1e-7, time=20.0)
PATIENT = SolverSettings(time=20.0)


def carry(slices=9, reach=0.3):
    """Two arms 1.4 m apart move a box that both grasp from the start, (problem, goal)."""
    left = ArmDescription("left", position_base_in_world=np.array([0.0, 0.7, 0.0]))
    right = ArmDescription("right", position_base_in_world=np.array([0.0, -0.7, 0.0]))
    box = SceneObject("box", "box", (0.15,) * 3, np.array([0.45, 0.0, 0.4]), mass=1.0)
    scene = Scene([left, right], [box])
    goal = Placed(np.array([0.45, 0.0, 0.4 + reach]), np.eye(3))
    problem = Problem(scene, 1, slices, 4.0)
    problem.add(Smoothness(), "cost", scale=0.3)
    problem.add(WithinLimits()).add(VelocityLimits())
    start = (
        Kinematics(scene, ["left/tool", "right/tool"]).forward_kinematics(scene.start[None]).frames
    )
    for arm in ("left", "right"):
        tool = start[f"{arm}/tool"]
        relative = Placed(tool.position[0], tool.rotation[0]).inverse() @ scene.pose(
            scene.start, "box"
        )
        problem.add(PoseGoal("box", relative, f"{arm}/tool"))
    problem.add(PoseGoal("box", goal), at=1).add(Rest(), at=1)
    return problem, goal


def test_minimum_acceleration_between_rests_is_cubic():
    scene, n = one_arm(), 100
    goal = scene.start + 0.3
    problem = Problem(scene, 1, n, 2.0)
    problem.add(Smoothness(order=2), "cost").add(Near("left", goal), at=1).add(Rest(), at=1)
    found = problem.solve(EXACT)
    assert found.is_feasible, found.reason
    s = found.times / 2.0
    cubic = scene.start + 0.3 * (3 * s**2 - 2 * s**3)[:, None]
    assert np.abs(found.path - cubic).max() < 5e-3  # discretisation error of one period
    # Optimum of the discrete sum, by dense least squares with equality constraints.
    difference = np.zeros((n, n + 2))
    for t in range(n):
        difference[t, t : t + 3] = 1.0, -2.0, 1.0
    d = difference[:, 2:]
    fixed = np.zeros((2, n))
    fixed[0, -1], fixed[1, -2:] = 1.0, (-1.0, 1.0)
    kkt = np.block([[d.T @ d, fixed.T], [fixed, np.zeros((2, 2))]])
    dense = np.linalg.solve(kkt, [*np.zeros(n), 0.3, 0.0])[:n]
    assert np.abs(found.path - scene.start - dense[:, None]).max() < 1e-5


def test_minimum_velocity_is_straight_line():
    scene = one_arm()
    problem = Problem(scene, 1, 10, 1.0)
    problem.add(Smoothness(order=1), "cost").add(Near("left", scene.start + 0.2), at=1)
    found = problem.solve(EXACT)
    line = scene.start + 0.2 * np.arange(1, 11)[:, None] / 10
    assert np.allclose(found.path, line, atol=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_banded_equations_agree_with_dense_ones(order):
    scene = one_arm()
    rng = np.random.default_rng(order)
    n, size = 6, scene.size
    path = scene.start + rng.uniform(-0.3, 0.3, (n, size))
    before = np.tile(scene.start, (3, 1))
    objectives = [
        (Smoothness(order=max(order, 1)), None),
        (Position("left/tool", [0.4, 0, 0.5]), order),
    ]
    equations = NormalEquations(n, size, 3)
    kinematics = Kinematics(scene, ["left/tool", "world"])

    def residual(flat, term):
        placed = kinematics.forward_kinematics(np.concatenate([before, flat.reshape(n, size)]))
        return term.evaluate(placed, 3)

    hessian, gradient = np.zeros((n * size, n * size)), np.zeros(n * size)
    for objective, own in objectives:
        term = make_term(scene, objective, "equal", (1, n), 0.5, 0.7, order=own)
        found, jacobian = residual(path.ravel(), term)
        weight = rng.uniform(0.5, 2.0, found.shape)
        equations.add(term, found, jacobian, weight)
        dense = np.stack(
            [
                (residual(path.ravel() + h, term)[0] - residual(path.ravel() - h, term)[0]).ravel()
                / 2e-6
                for h in 1e-6 * np.eye(n * size)
            ],
            1,
        )
        hessian += dense.T @ (weight.ravel()[:, None] * dense)
        gradient += dense.T @ (weight * found).ravel()
    step = equations.solve(1.0)
    expected = -np.linalg.solve(hessian + np.eye(n * size), gradient)
    assert np.allclose(equations.gradient.ravel(), gradient, atol=1e-5 * np.abs(gradient).max())
    assert np.allclose(step.ravel(), expected, atol=1e-6)


@pytest.mark.parametrize("slices", [9, 20])
def test_two_arms_carry_box_without_losing_grasp(slices):
    problem, goal = carry(slices)
    found = problem.solve(PATIENT)
    assert found.is_feasible, found.reason
    assert found.worst < 1e-4
    assert found.pose("box").distance(goal) < (2e-4, 2e-4)
    scene = problem.scene
    for arm in ("left", "right"):
        q, limits = found.arm_configuration(arm), scene.arms[arm].limits
        assert (q > limits.lower - 1e-4).all()
        assert (q < limits.upper + 1e-4).all()
    frames = Kinematics(scene, ["left/tool", "right/tool"]).forward_kinematics(found.path).frames
    apart = np.linalg.norm(frames["left/tool"].position - frames["right/tool"].position, axis=1)
    assert np.ptp(apart) < 3e-4


def test_same_problem_has_bit_identical_path():
    first, second = (carry()[0].solve(PATIENT).path for _ in range(2))
    assert np.array_equal(first, second)


def test_initial_path_saves_iterations():
    problem, _ = carry()
    cold = problem.solve(PATIENT)
    warm = problem.solve(PATIENT, start=cold.path)
    assert warm.is_feasible
    assert warm.iterations < cold.iterations


def test_unreachable_goal_reports_violation():
    problem, _ = carry(reach=2.0)
    found = problem.solve(PATIENT)
    assert not found.is_feasible
    assert found.ended in ("contradiction", "iterations")
    assert found.violations[0].step < 9
    assert "is off by" in found.reason
    assert np.isfinite(found.path).all()


def test_contradicting_constraints_are_named():
    scene = one_arm()
    problem = Problem(scene, 2, 4, 1.0)
    problem.add(Smoothness(), "cost")
    problem.add(Near("left", scene.start), at=2).add(Near("left", scene.start + 0.5), at=2)
    found = problem.solve(PATIENT)
    assert found.ended == "contradiction"
    assert {(v.phase, v.step) for v in found.violations} == {(1, 7)}
    assert found.violations[0].amount == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_poses_of_random_configurations_are_reached(seed):
    rng = np.random.default_rng(seed)
    scene = one_arm()
    q = np.clip(scene.start + rng.uniform(-0.8, 0.8, 7), scene.lower + 0.05, scene.upper - 0.05)
    tool = Kinematics(scene, ["left/tool"]).forward_kinematics(q[None]).frames["left/tool"]
    goal = Placed(tool.position[0], tool.rotation[0])
    problem = Problem(scene, 1, 10, 4.0)
    problem.add(Smoothness(), "cost").add(WithinLimits()).add(Rest(), at=1)
    problem.add(PoseGoal("left/tool", goal), at=1)
    found = problem.solve(PATIENT)
    assert found.is_feasible, found.reason
    tool = Kinematics(scene, ["left/tool"]).forward_kinematics(found.path[-1:]).frames["left/tool"]
    assert goal.distance_from(tool.position[0], tool.rotation[0]) < (2e-4, 2e-4)


def test_grasp_at_any_pose_stays_rigid():
    problem, _ = carry()
    scene = problem.scene
    problem = Problem(scene, 2, 5, 2.0)
    problem.add(Smoothness(), "cost", scale=0.3).add(Rest("box"), phases=(0, 1))
    problem.add(RelativePose("box", "left/tool"), phases=(1, 2))
    problem.add(Position("box", [0.45, 0.1, 0.5]), at=2)
    found = problem.solve(PATIENT)
    assert found.is_feasible, found.reason
    relative = [
        scene.pose(x, "box").inverse() @ Placed(p, r)
        for x in found.path[4:]
        for f in [Kinematics(scene, ["left/tool"]).forward_kinematics(x[None]).frames["left/tool"]]
        for p, r in [(f.position[0], f.rotation[0])]
    ]
    assert all(np.allclose(h.record, relative[0].record, atol=3e-4) for h in relative)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda p: p.add(PoseGoal("nothing", Placed.identity())), UnknownName),
        (lambda p: p.add(Near("left", [1.0])), PlanRejected),
        (lambda p: p.add(Near("left", [np.nan] * 7)), PlanRejected),
        (lambda p: p.add(Rest("table")), UnknownName),
        (lambda p: p.add(Rest(), at=3), PlanRejected),
        (lambda p: p.add(Rest(), at=0), PlanRejected),
        (lambda p: p.add(Rest(), at=1, phases=(0, 1)), PlanRejected),
        (lambda p: p.add(Rest(), "inequal"), PlanRejected),
        (lambda p: p.add(Rest(), scale=0.0), PlanRejected),
        (lambda p: p.add(Rest(), target=np.inf), PlanRejected),
        (lambda p: p.solve(), PlanRejected),
        (lambda p: p.add(Rest()).solve(start=np.zeros((2, 2))), PlanRejected),
    ],
)
def test_invalid_problem_is_refused(change, error):
    with pytest.raises(error):
        change(Problem(one_arm(), 1, 4, 1.0))


class Busy(Position):
    """Goal on a machine whose core is mostly used by other processes."""

    def evaluate(self, slices):
        let_pass(0.1)
        return super().evaluate(slices)


def test_time_of_other_processes_counted_towards_limit():
    scene = Scene([ArmDescription("arm")])
    problem = Problem(scene, 1, 6, 2.0).add(Smoothness(), "cost")
    problem.add(Busy("arm/tool", [0.4, 0.2, 0.4]), at=1)
    began = time.perf_counter()
    found = problem.solve(SolverSettings(time=0.3))
    assert time.perf_counter() - began > 0.3
    assert found.is_feasible, found.reason
