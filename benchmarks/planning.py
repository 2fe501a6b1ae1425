# SPDX-License-Identifier: Apache-2.0
"""Duration and accuracy of path optimisation for two arms.

Two arms carry a box together to random goals around it. ``--apart`` adds distances between the
arms. A last goal is out of reach and shows the time until the optimiser rejects it. With
``--random``, goals are tool poses of random configurations of two arms 0.6 m apart, without
contacts.

    .venv/bin/python benchmarks/planning.py --goals 20
"""

from __future__ import annotations

import argparse
import time

import mujoco
import numpy as np

from multipanda_py import Cell
from multipanda_py.config.describe import describe_arms
from multipanda_py.planning.optimiser.distance import Distance, clearances
from multipanda_py.planning.optimiser.goals import PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.path_search import find_path
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import SolverSettings
from multipanda_py.planning.optimiser.term import Rest, Smoothness, VelocityLimits, WithinLimits
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.testing import simple_cell

BOX = np.array([0.45, 0.0, 0.4])
AROUND = np.array([0.1, 0.15, 0.2])
PATIENT = SolverSettings(time=20.0)


def two_arms(apart: float) -> list[ArmDescription]:
    """Return two arms side by side, with a distance of their bases [m]."""
    return [
        ArmDescription(name, position_base_in_world=np.array([0.0, y, 0.0]))
        for name, y in (("left", 0.5 * apart), ("right", -0.5 * apart))
    ]


def carry(slices: int, offset: np.ndarray, apart: bool) -> Problem:
    """Return the problem of two arms that move a box by an offset [m]."""
    scene = Scene(two_arms(1.4), [SceneObject("box", "box", (0.15,) * 3, BOX, mass=1.0)])
    problem = Problem(scene, 1, slices, 4.0)
    problem.add(Smoothness(), "cost", scale=0.3).add(WithinLimits()).add(VelocityLimits())
    tools = [f"{arm}/tool" for arm in scene.arms]
    frames = Kinematics(scene, tools).forward_kinematics(scene.start[None]).frames
    for tool in tools:
        tool_pose = Pose(frames[tool].position[0], frames[tool].rotation[0])
        problem.add(PoseGoal("box", tool_pose.inverse() @ scene.pose(scene.start, "box"), tool))
    if apart:
        problem.add(Distance(scene, "left", "right"))
    return problem.add(PoseGoal("box", Pose(BOX + offset, np.eye(3))), at=1).add(Rest(), at=1)


def row(slices: int, offsets: np.ndarray, apart: bool) -> str:
    """Return a row of the table in Markdown."""
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


def random_problem(scene: Scene, rng: np.random.Generator) -> Problem:
    """Return the problem of a path to the tool poses of a random configuration without contact."""
    apart = clearances(scene)
    kinematics = Kinematics(scene, scene.frame_names)
    while True:
        placed = kinematics.forward_kinematics(
            rng.uniform(scene.lower + 0.1, scene.upper - 0.1)[None]
        )
        tools = {f"{arm}/tool": placed.frames[f"{arm}/tool"] for arm in scene.arms}
        is_low = min(tool.position[0, 2] for tool in tools.values()) < 0.05
        if not is_low and max(one.evaluate(placed)[0].max() for one in apart) < 0.0:
            break
    problem = Problem(scene, 1, 20, 6.0).add(Smoothness(), "cost", scale=0.3)
    problem.add(WithinLimits()).add(VelocityLimits()).add(Rest(), at=1)
    for one in apart:
        problem.add(one)
    for name, tool in tools.items():
        problem.add(PoseGoal(name, Pose(tool.position[0], tool.rotation[0])), at=1)
    return problem


def has_contact(cell: Cell, scene: Scene, path: np.ndarray, period: float) -> bool:
    """Return whether MuJoCo finds a contact along a path, in steps of 1 ms."""
    model, data = cell.simulation.model, cell.simulation.data
    full = np.concatenate([scene.start[None], path])
    times = period * np.arange(len(full))
    at = np.arange(0.0, times[-1], 1e-3)
    fine = np.stack([np.interp(at, times, column) for column in full.T], 1)
    columns = np.concatenate(
        [np.arange(len(scene.start))[scene.columns[arm]] for arm in scene.arms]
    )
    names = [name for arm in scene.arms for name in cell.descriptions[arm].joint_names]
    addresses = [int(model.joint(name).qposadr[0]) for name in names]
    for q in fine[:, columns]:
        data.qpos[addresses] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        if any(contact.dist < 0.0 for contact in data.contact[: data.ncon]):
            return True
    return False


def random_goals(number: int, seed: int) -> None:
    """Print the number of solved random goals, and of paths with contacts in MuJoCo."""
    cell = simple_cell()
    floor = SceneObject("floor", "box", (2.0, 2.0, 0.1), np.array([0.0, 0.0, -0.1]))
    scene, rng = Scene(describe_arms(cell.config), [floor]), np.random.default_rng(seed)
    cell.start()
    cpu, solved, touching, missed = [], 0, 0, []
    for _ in range(number):
        problem = random_problem(scene, rng)
        begin = time.process_time()
        found = find_path(problem, settings=PATIENT)
        cpu.append(time.process_time() - begin)
        if found.is_feasible:
            solved += 1
            period = problem.period * problem.slices / len(found.path)
            touching += has_contact(cell, scene, found.path, period)
        else:
            missed.append(found.reason)
    print(
        f"random goals of two arms: {solved} of {number} solved, {touching} of them with contact "
        f"in MuJoCo; processor time: median {1e3 * np.median(cpu):.0f} ms, max {max(cpu):.1f} s"
    )
    cell.close()
    print("".join(f"  missed: {reason}\n" for reason in missed), end="")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--goals", type=int, default=20, help="goals of each row, default 20")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--apart", action="store_true", help="also with distances between the arms"
    )
    parser.add_argument(
        "--random", type=int, metavar="N", help="only N random goals, without the table"
    )
    options = parser.parse_args()
    if options.random is not None:
        if options.random < 1:
            parser.error(f"--random: got {options.random}, allowed 1 or more")
        random_goals(options.random, options.seed)
        return
    if options.goals < 1:
        parser.error(f"--goals: got {options.goals}, allowed 1 or more")
    offsets = np.random.default_rng(options.seed).uniform(-AROUND, AROUND, (options.goals, 3))
    print("| slices | distances of arms | median [ms] | median, CPU [ms] | max [ms] ", end="")
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
