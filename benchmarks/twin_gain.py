# SPDX-License-Identifier: Apache-2.0
"""Reduction of errors of twin and control by identification, for each validation task.

    .venv/bin/python benchmarks/twin_gain.py -o gain.json             # ten plants, in half an hour
    .venv/bin/python benchmarks/twin_gain.py -o gain.json --seeds 3 --first 5 --seconds 4

A plant is a simulated cell. Its inertial parameters, friction, delay and sensors are drawn from
ranges (``multipanda_py/config/data/typical.yaml``, or ``--spec``), with a seed. Each arm is
identified from the motion of ``multipanda excite``. Then plant and twin run the tasks of
``multipanda validate``:

- before: twin and controllets use the datasheet,
- after: the twin has the identified bodies, and the controllets of both use them (``identified``).

Scene and seeds of noise are the same. Results of all plants are written as JSON, table and plot.
An interrupted run continues with the missing plants.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from identification import EVALUATIONS
from parts.gain_table import GOAL, draw, force_ratio, table
from parts.options import count, count_or_none, duration

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.perturbation import TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.exceptions import MultipandaError
from multipanda_py.files import replacing
from multipanda_py.identification.arm.identify import identify
from multipanda_py.identification.calibration.improvement import (
    MODEL_NAMES,
    find_motion,
    gain_of,
    measure,
    with_bodies,
    with_laws,
)
from multipanda_py.identification.validation import TASKS, Run, make_task
from multipanda_py.identification.validation.compare import QUANTITIES
from multipanda_py.identification.validation.task import Task
from multipanda_py.identification.validation.validate import compare_runs, runs_of
from multipanda_py.robots.measured_files import parameters_text
from multipanda_py.state import Matrix

CELL = Path(__file__).parents[1] / "config" / "dual_sim.yaml"
NORMAL = "measured minus true force, along the normal [N]"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """Tasks to run with each plant.

    Attributes:
        tasks: Numbers of the tasks.
        laws: Force controllets of tasks 3 and 4.
        seconds: Duration of each task [s].
        repeats: Number of runs of each task, for plant and twin.
    """

    tasks: Sequence[int]
    laws: Sequence[str]
    seconds: float
    repeats: int

    def all(self) -> Iterator[Task]:
        """Yield all tasks with each of their controllets."""
        for number in self.tasks:
            known = TASKS[number].controllets
            for law in [law for law in known if law in self.laws] or known[:1]:
                yield make_task(number, law, self.seconds)


def identified(
    plant: CellConfig, twin: CellConfig, motions: Mapping[str, Matrix], seed: int, folder: Path
) -> tuple[dict[str, Path], dict[str, Any]]:
    """Identify all arms of a plant; return parameter files and held-out torque errors, by arm.

    Raises:
        MultipandaError: If an arm cannot complete its motion or be identified from it.
    """
    files, errors = {}, {}
    for name, points in motions.items():
        found = identify([measure(plant, name, points, seed)], describe_arm(name, twin.arms[name]))
        files[name] = folder / f"{name}.yaml"
        files[name].write_text(parameters_text(found.robot, {}), encoding="utf-8")
        errors[name] = {
            model: found.held_out[model].round(5).tolist() for model in ("datasheet", "consistent")
        }
    return files, errors


def figures(
    plant: CellConfig,
    twin: CellConfig,
    files: Mapping[str, Path],
    effort: Effort,
    seed: int,
    report: Report = lambda text: None,
) -> list[dict[str, Any]]:
    """Return the errors of all tasks before and after identification.

    ``errors`` has root mean square errors between plant and twin by quantity, as maximum over arms
    and axes. ``forces`` has force errors of the plant, see :func:`.gain_of`. Each value is a pair.
    """
    pairs = (
        (plant, twin),
        (with_laws(plant, files), with_laws(with_bodies(twin, files), files)),
    )
    found = []
    for task in effort.all():
        report(f"task {task.number}, {task.controllet}")
        runs = [[runs_of(task, cell, effort.repeats, seed) for cell in pair] for pair in pairs]
        compared = [compare_runs(task, plant, *own) for own in runs]
        gain = gain_of(task, runs[0][0], runs[1][0])
        forces = {name: list(pair) for name, pair in gain.errors.items()}
        if task.number in (3, 4):  # the normal of their table is z of the world
            forces[NORMAL] = [_along_normal(own[0]) for own in runs]
        found.append({
            "task": task.number, "law": task.controllet,
            "errors": {q.name: [one.worst(q.name) for one in compared] for q in QUANTITIES},
            "forces": forces,
            "faults": [f"{side}: {fault}" for side, one in zip(MODEL_NAMES, compared)
                       for fault in one.faults],
        })  # fmt: skip
    return found


def _along_normal(runs: Sequence[Run]) -> float:
    errors = [run.force_error[:, 0, 2] for run in runs if len(run.force_error)]
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2))) if errors else float("nan")


def known(target: Path, requested: Mapping[str, Any], again: bool) -> dict[str, Any]:
    """Return the results in a file by seed.

    Raises:
        SystemExit: If the results are for other options.
    """
    if again or not target.is_file():
        return {}
    data = json.loads(target.read_text(encoding="utf-8"))
    other = [name for name, value in requested.items() if data["asked"].get(name) != value]
    if other:
        raise SystemExit(
            f"{target}: has results for other {', '.join(other)}. Discard them with --again"
        )
    plants: dict[str, Any] = data["plants"]
    return plants


def main() -> int:
    """Run the missing plants and write the results; return 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="JSON file; also writes .md and .png"
    )
    parser.add_argument("--seeds", type=count, default=10, help="number of plants, default 10")
    parser.add_argument(
        "--first", type=count_or_none, default=1, help="seed of the first plant, default 1"
    )
    parser.add_argument("--twin", type=Path, default=CELL, help="cell file, default dual_sim.yaml")
    parser.add_argument(
        "--spec",
        type=Path,
        default=TYPICAL_ERRORS_FILE,
        help="file with the ranges of perturbations",
    )
    parser.add_argument("--task", type=int, action="append", choices=tuple(TASKS))
    parser.add_argument("--law", action="append", choices=("ufic", "plain_pi"))
    parser.add_argument(
        "--seconds", type=duration, default=10.0, help="duration of each task, default 10"
    )
    parser.add_argument("--repeats", type=count, default=1, help="runs of each task, default 1")
    parser.add_argument(
        "--evaluations", type=count, default=EVALUATIONS, help="of the search for motions"
    )
    parser.add_argument("--again", action="store_true", help="discard existing results")
    options = parser.parse_args()
    twin, spec = CellConfig.from_yaml(options.twin), PerturbationSpec.from_yaml(options.spec)
    tasks = options.task or [n for n, task in TASKS.items() if task.arms <= len(twin.arms)]
    effort = Effort(sorted(set(tasks)), options.law or ["ufic"], options.seconds, options.repeats)
    requested = {
        "twin": options.twin.name, "ranges": spec.values, "tasks": list(effort.tasks),
        "laws": list(effort.laws), "seconds": effort.seconds, "repeats": effort.repeats,
        "evaluations": options.evaluations,
    }  # fmt: skip
    plants = known(options.output, requested, options.again)
    seeds = range(options.first, options.first + options.seeds)
    missing = [seed for seed in seeds if str(seed) not in plants]

    def report(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    report(f"{len(seeds) - len(missing)} of {len(seeds)} plants have results")
    arms = list(dict.fromkeys(name for task in effort.all() for name in task.names(twin)))
    motions = {
        name: find_motion(twin, name, options.evaluations, 0, lambda text: None)
        for name in (arms if missing else ())
    }
    for seed in missing:
        begin, plant = time.process_time(), spec.draw(twin, seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                files, errors = identified(plant, twin, motions, seed, Path(folder))
                report(f"plant {seed}: identified")
                found = figures(plant, twin, files, effort, seed, report)
            except MultipandaError as error:  # affects this plant only
                report(f"plant {seed}: {error}")
                continue
        plants[str(seed)] = {
            "tasks": found, "held out [Nm]": errors, "CPU [s]": time.process_time() - begin,
        }  # fmt: skip
        with replacing(options.output) as partial:
            partial.write_text(json.dumps({"asked": requested, "plants": plants}, indent=1))
        report(f"plant {seed}: {plants[str(seed)]['CPU [s]']:.0f} s of CPU")
    shown = {seed: plants[str(seed)] for seed in seeds if str(seed) in plants}
    if not shown:
        raise SystemExit("no plant was identified")
    text = table(shown)
    options.output.with_suffix(".md").write_text(f"{text}\n", encoding="utf-8")
    draw(shown, options.output.with_suffix(".png"))
    print(text)
    ratio = force_ratio(shown)
    good = len(shown) == len(seeds) and (ratio is None or ratio <= GOAL)
    print(
        "goal met"
        if good
        else f"goal missed: force error of task 4, after / before, above {GOAL:g}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
