# SPDX-License-Identifier: Apache-2.0
"""How often the shipped tasks are done, and how often without a part of what the law combines.

Masses and friction of all things are off by up to 20 %, with another seed for each try. Whether a
task was done is judged by where things are in the end, and by what a plate feels, not by what the
arms say of themselves. All in lockstep, so the same everywhere.

    .venv/bin/python benchmarks/tasks.py                          # hours; what is known is kept
    .venv/bin/python benchmarks/tasks.py --task carry_box --seeds 3
    .venv/bin/python benchmarks/tasks.py --table                  # of what is known
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
TIMEOUT_SCALE = 20.0
"""Of each subtask, where a part is left out: hands that never arrive are not waited for [s]."""
Case = tuple[str, str, int]
Watch = Callable[[Cell, TaskRunner], None]


class Judge:
    """Whether things end at their places, (3,) [m], and one of them stands upright."""

    def __init__(self, *places: tuple[str, list[float], float], upright: str = "") -> None:
        self._places, self._upright = places, upright

    def watch(self, cell: Cell, runner: TaskRunner) -> None:
        """Take notice of a moment."""

    def faults(self, cell: Cell) -> list[str]:
        """Say what is wrong in the end."""
        found, scene_objects = [], cell.objects()
        for name, place, tolerance in self._places:
            off = float(np.linalg.norm(scene_objects[name].position - place))
            if off > tolerance:
                found.append(f"{name} is {1e3 * off:.0f} mm off")
        if self._upright:
            lean = math.acos(min(1.0, float(scene_objects[self._upright].rotation[2, 2])))
            if lean > 0.05:
                found.append(f"{self._upright} leans by {lean:.2f} rad")
        return found


class TurnedBox(Judge):
    """Whether the relocated box is turned, too."""

    def faults(self, cell: Cell) -> list[str]:
        """Say what is wrong in the end."""
        rotation = cell.objects()["box"].rotation
        off = abs(math.atan2(rotation[1, 0], rotation[0, 0]) - math.pi / 2)
        return super().faults(cell) + ([f"box is {off:.2f} rad off"] if off > 0.1 else [])


class BoxTurnedTwice(Judge):
    """Whether the box of four arms lies on its other side, too."""

    def faults(self, cell: Cell) -> list[str]:
        """Say what is wrong in the end."""
        rotation = cell.objects()["box"].rotation
        off = abs(math.atan2(rotation[2, 1], rotation[2, 2]) - math.pi / 2)
        return super().faults(cell) + ([f"box is {off:.2f} rad off"] if off > 0.1 else [])


class PolishedPlate(Judge):
    """Whether the plate has felt the force on all of the way."""

    def __init__(self) -> None:
        super().__init__()
        self._forces: list[float] = []

    def watch(self, cell: Cell, runner: TaskRunner) -> None:
        """Note what the plate feels on the three strokes."""
        if runner.subtask in ("stroke", "aside", "back"):
            self._forces.append(float(cell.simulation.contact_force("arm", "plate")[2]))

    def faults(self, cell: Cell) -> list[str]:
        """Say what is wrong in the end."""
        off = np.array(self._forces or [0.0]) - 15.0
        rmse = float(np.sqrt(np.square(off).mean()))
        return [f"the plate felt 15 N within {rmse:.1f} N"] if rmse > 1.5 else []


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
    """Do a task; return its key, and what went wrong, nothing if it was done."""
    name, part, seed = case
    task = TaskFile.from_yaml(FOLDER / f"{name}.yaml")
    without: Part | None = next((known for known in PARTS if known == part), None)
    if without:
        data = task.model_dump()
        for subtask in data["subtasks"]:
            subtask["timeout"] = min(subtask["timeout"], TIMEOUT_SCALE)
        task = TaskFile.from_dict(data)
    judge = JUDGES[name]()
    with varied_cell(task.cell, seed) as cell:
        runner = TaskRunner(cell, task, without=without)
        runner.run(lambda: judge.watch(cell, runner))
        wrong = judge.faults(cell)
        if runner.state != "done":
            wrong.insert(0, runner.reason)
    return key(case), "; ".join(wrong)


def key(case: Case) -> str:
    """Name a case."""
    return " | ".join(map(str, case))


def table(known: dict[str, str]) -> str:
    """Return how often which task was done, as Markdown."""
    lines = ["| task | with everything | " + " | ".join(f"without {p}" for p in PARTS) + " |"]
    lines.append("|---" * (2 + len(PARTS)) + "|")
    for name in JUDGES:
        cells = []
        for part in ("", *PARTS):
            tries = [why for case, why in known.items() if case.startswith(f"{name} | {part} | ")]
            cells.append(f"{tries.count('')} of {len(tries)}" if tries else "")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Try, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--task", choices=tuple(JUDGES), help="this one only")
    parser.add_argument("--without", choices=("", *PARTS), help="this part only; '' is none")
    parser.add_argument("--seeds", type=int, default=10, help="of each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--table", action="store_true", help="of what is known; try nothing")
    options = parser.parse_args()
    known: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if not options.table:
        names = [options.task] if options.task else list(JUDGES)
        parts = [options.without] if options.without is not None else ["", *PARTS]
        cases = [
            (name, part, seed)
            for seed in range(1, options.seeds + 1) for name in names for part in parts
            if key((name, part, seed)) not in known
        ]  # fmt: skip
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            for number, (case, why) in enumerate(pool.imap_unordered(attempt, cases), 1):
                known[case] = why
                RESULT.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
                sys.stderr.write(f"{number} of {len(cases)}: {case}: {why or 'done'}\n")
    sys.stdout.write(table(known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
