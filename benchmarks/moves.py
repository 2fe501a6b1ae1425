# SPDX-License-Identifier: Apache-2.0
"""Success rate and duration of planning for two arms among five random boxes.

Only goals count for which a reference planner finds a path: RRT-Connect in the joint space of both
arms, with the contacts of MuJoCo. All planned motions are checked for contacts in MuJoCo in steps
of 1 ms. The controllet then executes them and must not stop.

    .venv/bin/python benchmarks/moves.py --scenes 100
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import mujoco
import numpy as np

from multipanda_py import Cell, Pose
from multipanda_py.exceptions import MotionFailed, PlanRejected
from multipanda_py.planning.motions.motion_request import MotionPlan
from multipanda_py.planning.optimiser import Scene
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.testing import simple_cell

STEP, FINE, NODES = 0.4, 0.05, 4000
"""Reference planner: maximum step and check interval of a joint [rad], maximum tree size."""
LOW, HIGH = np.array([0.2, -0.6, 0.0]), np.array([0.8, 0.6, 0.9])
CONTROLLET = "joint_trajectory_controller"
AVOIDANCE = {"collision_avoidance": {"distance": 0.006, "stop_distance": 0.002}}
"""Parameters of the executing controllet, which allow motions with ``CLEARANCE``."""
CLEARANCE = 0.005
MAX_DELAY = 0.5
"""Maximum delay of an executed motion [s]."""
Free = Callable[[np.ndarray], bool]


def scene_of_boxes(rng: np.random.Generator) -> Cell:
    """Return a cell of two arms 0.6 m apart, with five random boxes."""
    boxes = {
        f"box_{number}": {
            "shape": "box",
            "size": rng.uniform(0.03, 0.12, 3).tolist(),
            "position": rng.uniform(LOW, HIGH).tolist(),
            "rpy": [0.0, 0.0, float(rng.uniform(-np.pi, np.pi))],
        }
        for number in range(5)
    }
    active = [f"{arm}/{CONTROLLET}" for arm in ("left", "right")]
    return simple_cell(
        controllets={CONTROLLET: {"type": "joint_trajectory", "params": AVOIDANCE}},
        active=active,
        objects=boxes,
    )


def free_in_mujoco(cell: Cell, data: mujoco.MjData) -> Free:
    """Return a function that checks joint positions of both arms, (14,), for contacts."""
    model = cell.simulation.model
    names = [name for arm in cell.arms for name in cell.descriptions[arm].joint_names]
    addresses = [int(model.joint(name).qposadr[0]) for name in names]

    def is_free(q: np.ndarray) -> bool:
        data.qpos[addresses] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        return not any(contact.dist < 0.0 for contact in data.contact[: data.ncon])

    return is_free


def deepest_contact(cell: Cell, data: mujoco.MjData) -> tuple[float, str]:
    """Return the maximum penetration in MuJoCo [m], and the names of its bodies."""
    model = cell.simulation.model
    return max(
        (
            -float(one.dist),
            f"{model.body(model.geom_bodyid[one.geom1]).name} and "
            f"{model.body(model.geom_bodyid[one.geom2]).name}",
        )
        for one in data.contact[: data.ncon]
    )


def stop_reason(cell: Cell, plan: MotionPlan) -> str:
    """Execute a plan; return the reason of a stop, empty if the motion reached its goal."""
    ends = cell.start_motion(plan)
    try:
        while not cell.is_finished(plan):
            cell.step(8)
            if cell.time > ends + MAX_DELAY:
                return f"it took {MAX_DELAY:g} s longer than planned"
    except MotionFailed as error:
        return str(error)
    return ""


def path_is_free(is_free: Free, begin: np.ndarray, end: np.ndarray) -> bool:
    """Return whether a straight path in joint space is free, in steps of ``FINE``."""
    count = max(1, int(np.ceil(np.abs(end - begin).max() / FINE)))
    return all(is_free(begin + (end - begin) * k / count) for k in range(1, count + 1))


def reference_finds(
    is_free: Free, start: np.ndarray, goal: np.ndarray, scene: Scene, rng: np.random.Generator
) -> bool:
    """Return whether RRT-Connect finds a path (Kuffner and LaValle, ICRA 2000)."""
    lower, upper = scene.lower[: len(start)], scene.upper[: len(start)]
    trees = [[start], [goal]]
    for _ in range(NODES):
        drawn = rng.uniform(lower, upper)
        near = min(trees[0], key=lambda q: float(np.abs(q - drawn).max()))
        offset = drawn - near
        new = near + offset * min(1.0, STEP / np.abs(offset).max())
        if path_is_free(is_free, near, new):
            trees[0].append(new)
            here = min(trees[1], key=lambda q: float(np.abs(q - new).max()))
            while path_is_free(is_free, here, step := _towards(here, new)):
                trees[1].append(step)
                here = step
                if np.array_equal(step, new):
                    return True
        trees.reverse()
    return False


def _towards(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    offset = there - here
    size = float(np.abs(offset).max())
    return there if size <= STEP else here + offset * (STEP / size)


def main() -> None:
    """Measure and print the success rate and durations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--scenes", type=int, default=20, help="number of scenes, default 20")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.scenes < 1:
        parser.error(f"--scenes: got {options.scenes}, allowed 1 or more")
    rng = np.random.default_rng(options.seed)
    wall, cpu, solved, touching, blocked, drawn = [], [], 0, 0, 0, 0
    while len(wall) < options.scenes:
        cell = scene_of_boxes(rng)
        with cell:
            data = mujoco.MjData(cell.simulation.model)
            data.qpos[:] = cell.simulation.data.qpos
            is_free, scene = free_in_mujoco(cell, data), Scene.of(cell.config)
            start = scene.start[:14].copy()
            goal = rng.uniform(scene.lower[:14] + 0.1, scene.upper[:14] - 0.1)
            drawn += 1
            if not (is_free(start) and is_free(goal)):
                continue
            if not reference_finds(is_free, start, goal, scene, rng):
                continue
            x = scene.start.copy()
            x[:14] = goal
            tools = (
                Kinematics(scene, ["left/tool", "right/tool"]).forward_kinematics(x[None]).frames
            )
            goals = {
                arm: Pose(tools[f"{arm}/tool"].position[0], tools[f"{arm}/tool"].rotation[0])
                for arm in cell.arms
            }
            clocks = time.perf_counter(), time.process_time()
            try:
                found = cell.plan(goals, frame="world", clearance=CLEARANCE, planning_time=20.0)
            except PlanRejected as error:
                print(f"missed: {error}", file=sys.stderr)
                found = None
            wall.append(time.perf_counter() - clocks[0])
            cpu.append(time.process_time() - clocks[1])
            if found is not None:
                solved += 1
                duration = found.points["left"][-1, 0]
                at = np.arange(0.0, duration, 1e-3)
                paths = [evaluate(found.points[arm], at)[:, 0] for arm in cell.arms]
                contacts = [
                    deepest_contact(cell, data) for q in np.hstack(paths) if not is_free(q)
                ]
                if contacts:
                    touching += 1
                    depth, bodies = max(contacts)
                    print(f"contact: {bodies} by {depth:.4f} m", file=sys.stderr)
                if reason := stop_reason(cell, found):
                    blocked += 1
                    print(f"stopped: {reason}", file=sys.stderr)
            print(f"{len(wall)} of {options.scenes}: {solved} solved", file=sys.stderr)
    print(
        f"{solved} of {len(wall)} random scenes of five boxes that the reference planner solves "
        f"({drawn} drawn), {touching} with contact in MuJoCo, {blocked} stopped by the "
        f"controllet; planning: median {1e3 * np.median(wall):.0f} ms, processor time "
        f"{1e3 * np.median(cpu):.0f} ms, max {max(wall):.1f} s"
    )


if __name__ == "__main__":
    main()
