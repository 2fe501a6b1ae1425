# SPDX-License-Identifier: Apache-2.0
"""Paths and kinematics against RAI's KOMO, if the package ``robotic`` is installed."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.planning.optimiser.goals import Position
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import SolverSettings
from multipanda_py.planning.optimiser.term import Rest, Smoothness
from multipanda_py.robots import ArmDescription

pytestmark = pytest.mark.inline
HAND = "panda_hand_joint"  # same origin as the hand frame, different rotation


@pytest.fixture(scope="module")
def ry():
    # The wheel needs the system's liblapack.so.3; without it, the import fails.
    return pytest.importorskip("robotic", exc_type=ImportError)


@pytest.fixture
def config(ry):
    config = ry.Config()
    config.addFile(ry.raiPath("panda/panda.g"))
    config.getFrame("panda_base").setPosition([0.0, 0.0, 0.0]).setQuaternion([1.0, 0.0, 0.0, 0.0])
    return config


def scene_at(q):
    return Scene([ArmDescription("arm", "fer")], (), {"arm": q})


def hand_at(scene, q):
    return (
        Kinematics(scene, ["arm/hand"]).forward_kinematics(q[None]).frames["arm/hand"].position[0]
    )


def test_hand_positions_agree(config):
    scene = scene_at(config.getJointState())
    rng = np.random.default_rng(0)
    for q in rng.uniform(scene.lower, scene.upper, (20, 7)):
        config.setJointState(q)
        assert hand_at(scene, q) == pytest.approx(config.getFrame(HAND).getPosition(), abs=1e-6)


@pytest.mark.parametrize("displacement", [[0.1, 0.2, -0.2], [-0.1, -0.3, 0.1], [0.0, 0.1, 0.15]])
def test_smoothest_path_to_position_agrees(ry, config, displacement):
    start, slices = config.getJointState(), 9
    goal = config.getFrame(HAND).getPosition() + displacement
    komo = ry.KOMO(config, 1, slices, 2, False)
    komo.addControlObjective([], 2, 1.0)
    komo.addObjective([1.0], ry.FS.position, [HAND], ry.OT.eq, [10.0], goal)
    komo.addObjective([1.0], ry.FS.qItself, [], ry.OT.eq, [10.0], [], 1)
    solved = ry.NLP_Solver(komo.nlp(), verbose=0)
    solved.setOptions(stopTolerance=1e-6, stopEvals=2000)
    assert solved.solve().feasible
    theirs = np.array(komo.getPath())

    scene = scene_at(start)
    problem = Problem(scene, 1, slices, 1.0).add(Smoothness(order=2), "cost")
    problem.add(Position("arm/hand", goal), at=1).add(Rest(), at=1)
    ours = problem.solve(SolverSettings(step=1e-6, time=30.0, iterations=500))
    assert ours.is_feasible
    assert hand_at(scene, theirs[-1]) == pytest.approx(goal, abs=1e-3)
    assert ours.path == pytest.approx(theirs, abs=0.01)
