# SPDX-License-Identifier: Apache-2.0
"""The paper's study of stability: two arms carry a box over nine waypoints, with and without it.

The box is squeezed, and carried by nine plans one after another. Then arms without a box follow
the same plans. Compared are contact forces as MuJoCo has them with what was asked for, and, after
dynamic time warping, the ways of tools and joints with those without the box, and the way of the
box with its plan. All in lockstep.

    .venv/bin/python benchmarks/carry.py            # a minute
    .venv/bin/python benchmarks/carry.py --seeds 10 # masses and friction off by up to 20 %

Source of method and figures: Özcan and Oguz, "An Optimization-Augmented Control Framework for
Single and Coordinated Multi-Arm Robotic Manipulation".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from parts.warping import warped_rmse

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.cell.tasks.metrics import Sample, TaskMetrics
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.controllets.targets.joint import Trajectory
from multipanda_py.planning.tasks.path_problem import SubtaskPlan
from multipanda_py.testing import varied_cell

FILE = Path(__file__).parents[1] / "config" / "tasks" / "carry_box.yaml"
WAYPOINTS = [
    [0.50, 0.00, 0.45], [0.50, 0.00, 0.50], [0.53, 0.02, 0.52], [0.56, 0.05, 0.52],
    [0.58, 0.02, 0.50], [0.56, -0.03, 0.48], [0.53, -0.03, 0.47], [0.52, 0.00, 0.45],
    [0.52, 0.00, 0.402],
]  # fmt: skip
ARMS, FORCE = ("left", "right"), 25.0
PAPER = {
    "force of left [N]": 2.80, "force of right [N]": 2.82, "largest force [N]": 2.0 * FORCE,
    "left [mm]": 17.0, "right [mm]": 16.0, "box [mm]": 21.0,
    "joints of left [deg]": 7.9, "joints of right [deg]": 8.3,
}  # fmt: skip


def nine() -> TaskFile:
    """Return the task: approach, squeeze, nine waypoints, leave."""
    data = TaskFile.from_yaml(FILE).model_dump()
    approach, squeeze, carry, leave = (data["subtasks"][place] for place in (0, 1, 3, 5))
    ways = [
        {**carry, "name": f"waypoint_{number}", "duration": 1.0,
         "goals": [{"frame": "box", "position": place}]}
        for number, place in enumerate(WAYPOINTS, 1)
    ]  # fmt: skip
    return TaskFile.from_dict({**data, "subtasks": [approach, squeeze, *ways, leave]})


def with_box(task: TaskFile, seed: int) -> tuple[list[Sample], np.ndarray, list[SubtaskPlan]]:
    """Do it; return what was between the waypoints, true forces of both hands, and plans."""
    plans: list[SubtaskPlan] = []
    forces, inside = [], []
    with varied_cell(task.cell, seed) as cell:
        runner = TaskRunner(cell, task)
        book = TaskMetrics(runner)

        def note() -> None:
            book.note()
            if runner.subtask.startswith("waypoint"):
                inside.append(book.moments[-1])
                forces.append(
                    [np.linalg.norm(cell.simulation.contact_force(arm, "box")[1]) for arm in ARMS]
                )
                if runner.plan is not None and (not plans or runner.plan is not plans[-1]):
                    plans.append(runner.plan)

        if not runner.run(note):
            raise SystemExit(f"seed {seed}: {runner.reason}")
    return inside, np.array(forces), plans


def at_rest(time: float, posture: np.ndarray) -> list[list[float]]:
    """Return a trajectory that ends at a posture (n,) at a time [s]."""
    return [[time, *posture, *np.zeros(2 * len(posture))]]


def without_box(task: TaskFile, plans: list[SubtaskPlan]) -> list[Sample]:
    """Follow the same plans with a box that is elsewhere."""
    with varied_cell(task.cell, 0) as cell:
        data = cell.config.model_dump()
    data["objects"]["box"]["position"] = [0.0, 1.5, 0.1]
    with Cell(CellConfig.from_dict(data)) as cell:
        cell.switch([task.controllet], strictness="force_auto")
        start = plans[0].start.postures
        cell.follow_trajectories(
            task.controllet, {arm: Trajectory(at_rest(3.0, start[arm])) for arm in ARMS}
        )
        cell.step(3500)
        book = TaskMetrics(TaskRunner(cell, task))
        for plan in plans:
            cell.follow_trajectories(
                task.controllet,
                {arm: Trajectory(plan.points(arm, cell.state(arm).q)) for arm in ARMS},
            )
            for _ in range(round(plan.times[-1] * 100)):
                cell.step(10)
                book.note()
    return book.moments


def measured(task: TaskFile, seed: int) -> dict[str, float]:
    """Return the paper's measures."""
    moments, forces, plans = with_box(task, seed)
    free = without_box(task, plans)
    off = np.sqrt(np.square(forces - FORCE).mean(axis=0))
    found = {f"force of {arm} [N]": float(value) for arm, value in zip(ARMS, off)}
    found["largest force [N]"] = float(forces.max())
    for arm in ARMS:
        ways = [np.array([one.positions[f"{arm}/tool"] for one in run]) for run in (moments, free)]
        found[f"{arm} [mm]"] = 1e3 * warped_rmse(*ways)
    box = np.array([one.positions["box"] for one in moments if one.planned])
    planned = np.array([one.planned["box"] for one in moments if one.planned])
    found["box [mm]"] = 1e3 * warped_rmse(box, planned)
    for arm in ARMS:
        ways = [np.array([one.q[arm] for one in run]) for run in (moments, free)]
        found[f"joints of {arm} [deg]"] = float(np.degrees(warped_rmse(*ways)))
    return found


def main() -> int:
    """Measure, and print a table beside the paper's figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=0, help="runs with things that are off")
    options = parser.parse_args()
    task = nine()
    runs = []
    for seed in range(options.seeds + 1):
        runs.append(measured(task, seed))
        sys.stderr.write(
            f"seed {seed}: " + ", ".join(f"{v:.2f}" for v in runs[-1].values()) + "\n"
        )
    sys.stdout.write("| | paper | here | worst seed |\n|---|---|---|---|\n")
    for name, value in PAPER.items():
        mine = [run[name] for run in runs]
        sys.stdout.write(f"| {name} | {value:g} | {mine[0]:.2f} | {max(mine):.2f} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
