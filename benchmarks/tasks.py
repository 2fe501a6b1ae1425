# SPDX-License-Identifier: Apache-2.0
"""Success rates of the shipped tasks, also without one part of the method.

Masses and friction of all objects are off by up to 20 %, with another seed for each run. A run is
successful if the final poses of the objects, or the contact forces on the plate, are within
tolerances. Runs are in lockstep, so results are repeatable. tasks.json stores all results; runs
with stored results are skipped.

    .venv/bin/python benchmarks/tasks.py                          # hours; can be interrupted
    .venv/bin/python benchmarks/tasks.py --task carry_box --seeds 3
    .venv/bin/python benchmarks/tasks.py --table                  # only stored results
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.planning.tasks.sections import PARTS, Part
from multipanda_py.testing import varied_cell

HERE = Path(__file__).parent
FOLDER, RESULT = HERE.parent / "config" / "tasks", HERE / "tasks.json"
TIMEOUT = 20.0
"""Maximum timeout of a subtask without a part of the method, as its tools may never arrive [s]."""
Case = tuple[str, str, int]
Watch = Callable[[Cell, TaskRunner], None]


class Judge:
    """Check of final object poses.

    Args:
        places: Name, position (3,) [m] and tolerance [m] of each object.
        upright: Name of an object that must be upright, or empty.
    """

    def __init__(self, *places: tuple[str, list[float], float], upright: str = "") -> None:
        self._places, self._upright = places, upright

    def watch(self, cell: Cell, runner: TaskRunner) -> None:
        """Record the present state."""

    def faults(self, cell: Cell) -> list[str]:
        """Return the failed checks of the final state."""
        found, scene_objects = [], cell.objects()
        for name, position, tolerance in self._places:
            error = float(np.linalg.norm(scene_objects[name].position - position))
            if error > tolerance:
                found.append(f"{name} is {1e3 * error:.0f} mm off")
        if self._upright:
            tilt = math.acos(min(1.0, float(scene_objects[self._upright].rotation[2, 2])))
            if tilt > 0.05:
                found.append(f"{self._upright} leans by {tilt:.2f} rad")
        return found


class TurnedBox(Judge):
    """Check that also the rotation of the relocated box is correct."""

    def faults(self, cell: Cell) -> list[str]:
        """Return the failed checks of the final state."""
        rotation = cell.objects()["box"].rotation
        error = abs(math.atan2(rotation[1, 0], rotation[0, 0]) - math.pi / 2)
        return super().faults(cell) + ([f"box is {error:.2f} rad off"] if error > 0.1 else [])


class BoxTurnedTwice(Judge):
    """Check that the box of four arms also lies on its other side."""

    def faults(self, cell: Cell) -> list[str]:
        """Return the failed checks of the final state."""
        rotation = cell.objects()["box"].rotation
        error = abs(math.atan2(rotation[2, 1], rotation[2, 2]) - math.pi / 2)
        return super().faults(cell) + ([f"box is {error:.2f} rad off"] if error > 0.1 else [])


class PolishedPlate(Judge):
    """Check of the contact force on the plate during all strokes."""

    def __init__(self) -> None:
        super().__init__()
        self._forces: list[float] = []

    def watch(self, cell: Cell, runner: TaskRunner) -> None:
        """Record the contact force during the three strokes."""
        if runner.subtask in ("stroke", "aside", "back"):
            self._forces.append(float(cell.simulation.contact_force("arm", "plate")[2]))

    def faults(self, cell: Cell) -> list[str]:
        """Return the failed checks of the final state."""
        error = np.array(self._forces or [0.0]) - 15.0
        rmse = float(np.sqrt(np.square(error).mean()))
        return [f"force on the plate: RMS error of {rmse:.1f} N"] if rmse > 1.5 else []


JUDGES: dict[str, Callable[[], Judge]] = {
    "carry_box": lambda: Judge(("box", [0.56, 0.0, 0.4], 0.02), upright="box"),
    "relocate_box": lambda: TurnedBox(("box", [0.45, 0.35, 0.574], 0.025)),
    "carry_cubes": lambda: Judge(
        ("second", [0.5, 0.0, 0.25], 0.03), ("first", [0.5, 0.0, 0.55], 0.03)
    ),
    "insert_post": lambda: Judge(("post", [-0.5, 0.0, 0.4], 0.02), upright="post"),
    "turn_box": lambda: BoxTurnedTwice(("box", [0.0, 0.0, 0.48], 0.02)),
    "polish": PolishedPlate,
}


def attempt(case: Case) -> tuple[str, str]:
    """Run a case; return its key and the reason of a failure, empty after a success."""
    name, part, seed = case
    task = TaskFile.from_yaml(FOLDER / f"{name}.yaml")
    without: Part | None = next((one for one in PARTS if one == part), None)
    if without:
        data = task.model_dump()
        for subtask in data["subtasks"]:
            subtask["timeout"] = min(subtask["timeout"], TIMEOUT)
        task = TaskFile.from_dict(data)
    judge = JUDGES[name]()
    with varied_cell(task.cell, seed) as cell:
        runner = TaskRunner(cell, task, without=without)
        runner.run(lambda: judge.watch(cell, runner))
        failures = judge.faults(cell)
        if runner.state != "done":
            failures.insert(0, runner.reason)
    return key(case), "; ".join(failures)


def key(case: Case) -> str:
    """Return the name of a case in tasks.json."""
    return " | ".join(map(str, case))


def table(results: dict[str, str]) -> str:
    """Return the number of successful runs of each task as Markdown."""
    lines = ["| task | complete method | " + " | ".join(f"without {p}" for p in PARTS) + " |"]
    lines.append("|---" * (2 + len(PARTS)) + "|")
    for name in JUDGES:
        cells = []
        for part in ("", *PARTS):
            outcomes = [
                reason
                for case, reason in results.items()
                if case.startswith(f"{name} | {part} | ")
            ]
            cells.append(f"{outcomes.count('')} of {len(outcomes)}" if outcomes else "")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the missing cases and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--task", choices=tuple(JUDGES), help="only this task")
    parser.add_argument(
        "--without",
        choices=("", *PARTS),
        help="only runs without this part; '' is the complete method",
    )
    parser.add_argument("--seeds", type=int, default=10, help="runs of each task, default 10")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument(
        "--table", action="store_true", help="print stored results without new runs"
    )
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if not options.table:
        names = [options.task] if options.task else list(JUDGES)
        parts = [options.without] if options.without is not None else ["", *PARTS]
        cases = [
            (name, part, seed)
            for seed in range(1, options.seeds + 1) for name in names for part in parts
            if key((name, part, seed)) not in results
        ]  # fmt: skip
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            for number, (case, reason) in enumerate(pool.imap_unordered(attempt, cases), 1):
                results[case] = reason
                RESULT.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
                sys.stderr.write(f"{number} of {len(cases)}: {case}: {reason or 'done'}\n")
    sys.stdout.write(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
