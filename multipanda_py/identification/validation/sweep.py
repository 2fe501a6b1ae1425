# SPDX-License-Identifier: Apache-2.0
"""Validation against many perturbed plants in parallel processes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from multipanda_py.config.cell_file import CellConfig, fingerprint
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.exceptions import MultipandaError, ValidationRejected
from multipanda_py.files import replacing
from multipanda_py.identification.validation.compare import QUANTITIES
from multipanda_py.identification.validation.tasks import make_task
from multipanda_py.identification.validation.validate import check_sides, validate
from multipanda_py.registry import needed

Row = dict[str, Any]


def sweep(
    config: CellConfig,
    spec: PerturbationSpec,
    seeds: Sequence[int],
    target: Path,
    tasks: Sequence[int],
    *,
    seconds: float = 10.0,
    repeats: int = 1,
    controllets: Sequence[str] = (),
    jobs: int = 1,
    report: Callable[[str], None] = lambda text: None,
) -> int:
    """Compare a cell with one perturbed plant per seed and write a table of the errors.

    The plants are perturbed copies of the cell, which is the twin. The table has one row per
    plant, task and controllet. A call with the same arguments resumes an interrupted sweep.
    Processes come from joblib. Within ``joblib.parallel_config("dask")`` they run on a Dask
    cluster.

    Args:
        config: Description of the twin.
        spec: Perturbations of the plants.
        seeds: Random seeds, one per plant. Each is also the seed of the noise.
        target: Path of the table, ``.parquet``.
        tasks: Numbers of the tasks.
        seconds: Duration of each task [s].
        repeats: Repeats of each task.
        controllets: Names of force controllets. If empty, all are used.
        jobs: Number of processes.
        report: Callback that receives progress messages.

    Returns:
        Number of rows of the table.

    Raises:
        ValidationRejected: If the twin cannot run a task or has real arms, or if the folder of the
            table does not exist. Also if no plant could be compared; the table states the reasons.
        ConfigurationError: If the perturbations are invalid or a file cannot be written.
        MissingExtra: If joblib, pandas or pyarrow is missing.
    """
    joblib, table = needed("joblib"), needed("pandas")
    needed("pyarrow")  # Without pyarrow, the table could not be written after the simulations.
    for number in tasks:
        check_sides(make_task(number, seconds=seconds), config, config)
    for seed in seeds:  # Check all perturbations before hours of simulation.
        spec.draw(config, seed)
    request = [list(tasks), seconds, repeats, sorted(controllets)]
    text = fingerprint(config) + json.dumps([spec.values, *request], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = target.with_name(f".{target.stem}.{key}.parts")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ValidationRejected(f"{target}: cannot be written: {error.strerror}") from None
    parts = {seed: folder / f"{seed}.json" for seed in seeds}
    left = [seed for seed, part in parts.items() if not part.is_file()]
    if len(left) < len(parts):
        report(f"{len(parts) - len(left)} of {len(parts)} plants are already done")
    done = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
        joblib.delayed(plant_rows)(config, spec, seed, tasks, seconds, repeats, controllets)
        for seed in left
    )
    for number, (seed, rows) in enumerate(done, start=len(parts) - len(left) + 1):
        with replacing(parts[seed]) as partial:
            partial.write_text(json.dumps(rows), encoding="utf-8")
        report(f"{number} of {len(parts)} plants: seed {seed}")
        for row in rows:
            if not row["law"]:
                report(f"seed {seed}: {row['faults']}")
    rows = [row for part in parts.values() for row in json.loads(part.read_text("utf-8"))]
    with replacing(target) as partial:
        table.DataFrame(rows).to_parquet(partial)
    for part in folder.iterdir():
        part.unlink()
    folder.rmdir()
    if all(math.isnan(row.get("worst q", math.nan)) for row in rows):
        raise ValidationRejected(f"{target}: no plant could be compared: {rows[0]['faults']}")
    return len(rows)


def plant_rows(
    twin: CellConfig,
    spec: PerturbationSpec,
    seed: int,
    tasks: Sequence[int],
    task_seconds: float,
    repeats: int,
    controllets: Sequence[str],
) -> tuple[int, list[Row]]:
    """Compare a twin with one perturbed copy of it, and return the seed and the table rows.

    The row of a task that cannot be compared states the reason.
    """
    plant = spec.draw(twin, seed)
    drawn = dict(_flat(spec.values_for(twin, seed)))
    rows: list[Row] = []
    for number in tasks:
        head: Row = {"seed": seed, "task": number}
        try:
            result = validate(
                plant,
                twin,
                [number],
                repeats=repeats,
                seconds=task_seconds,
                seed=seed,
                controllets=controllets,
            )
        except MultipandaError as error:
            rows.append({**head, "law": "", "faults": " ".join(str(error).split()), **drawn})
            continue
        for one in result:
            row = {**head, "law": one.controllet, "faults": "; ".join(one.faults)}
            row |= {f"worst {q.name}": one.worst(q.name) for q in QUANTITIES}
            for side, errors in one.force.items():
                row[f"force rmse, {side}"] = float(errors.mean())
            rows.append({**row, **drawn})
    return seed, rows


def _flat(values: dict[str, dict[str, Any]]) -> Iterator[tuple[str, float]]:
    for path, keys in values.items():
        for key, value in keys.items():
            if isinstance(value, list):
                yield from ((f"{path}.{key}[{k}]", item) for k, item in enumerate(value))
            else:
                yield f"{path}.{key}", value
