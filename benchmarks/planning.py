# SPDX-License-Identifier: Apache-2.0
"""How long paths of two arms take to find, and how exact they are.

Two arms carry a box that both hold; goals are drawn from around it. With ``--apart`` the
arms keep apart, too. A goal out of reach shows how soon the optimiser says so.

    .venv/bin/python benchmarks/planning.py --goals 20
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.goals import PoseGoal
from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.optimiser.motion import Rest, Smoothness, VelocityLimits, WithinLimits
from multipanda_py.optimiser.problem import Problem
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solver import SolverSettings
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject

BOX = np.array([0.45, 0.0, 0.4])
AROUND = np.array([0.1, 0.15, 0.2])
PATIENT = SolverSettings(time=20.0)


def carry(slices: int, offset: np.ndarray, apart: bool) -> Problem:
    """Return the problem of a box that is carried by an offset [m]."""
    arms = [
        ArmDescription(name, position_base_in_world=np.array([0.0, y, 0.0]))
        for name, y in (("left", 0.7), ("right", -0.7))
    ]
    scene = Scene(arms, [SceneObject("box", "box", (0.15,) * 3, BOX, mass=1.0)])
    problem = Problem(scene, 1, slices, 4.0)
    problem.add(Smoothness(), "cost", scale=0.3).add(WithinLimits()).add(VelocityLimits())
    tools = [f"{arm}/tool" for arm in scene.arms]
    frames = Kinematics(scene, tools).place(scene.start[None]).frames
    for tool in tools:
        hand = Pose(frames[tool].position[0], frames[tool].rotation[0])
        problem.add(PoseGoal("box", hand.inverse() @ scene.pose(scene.start, "box"), tool))
    if apart:
        problem.add(Distance(scene, "left", "right"))
    return problem.add(PoseGoal("box", Pose(BOX + offset, np.eye(3))), at=1).add(Rest(), at=1)


def row(slices: int, offsets: np.ndarray, apart: bool) -> str:
    """Return a line of the table."""
    wall, cpu, found = [], [], []
    for offset in offsets:
        problem = carry(slices, offset, apart)
        clocks = time.perf_counter(), time.process_time()
        found.append(problem.solve(PATIENT))
        wall.append(time.perf_counter() - clocks[0])
        cpu.append(time.process_time() - clocks[1])
    met = [one for one in found if one.is_feasible]
    worst = max((one.worst for one in met), default=np.nan)
    return (
        f"| {slices} | {'yes' if apart else 'no'} | {1e3 * np.median(wall):.0f} "
        f"| {1e3 * np.median(cpu):.0f} | {1e3 * max(wall):.0f} | {len(met)}/{len(found)} "
        f"| {np.median([one.iterations for one in found]):.0f} | {worst:.1e} |"
    )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--goals", type=int, default=20, help="goals of each row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--apart", action="store_true", help="with distances of the arms, too")
    options = parser.parse_args()
    if options.goals < 1:
        parser.error(f"--goals: got {options.goals}, allowed 1 or more")
    offsets = np.random.default_rng(options.seed).uniform(-AROUND, AROUND, (options.goals, 3))
    print("| slices | arms kept apart | median [ms] | median, CPU [ms] | longest [ms] ", end="")
    print("| solved | iterations | worst violation |\n|---|---|---|---|---|---|---|---|")
    for apart in (False, True) if options.apart else (False,):
        for slices in (9, 20, 50):
            print(row(slices, offsets, apart), flush=True)
    problem = carry(9, np.array([0.0, 0.0, 2.0]), False)
    begin = time.perf_counter()
    found = problem.solve()
    print(f"out of reach, 9 slices: {1e3 * (time.perf_counter() - begin):.0f} ms, {found.reason}")


if __name__ == "__main__":
    main()
