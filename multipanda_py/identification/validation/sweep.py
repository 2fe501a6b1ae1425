# SPDX-License-Identifier: Apache-2.0
"""Validation over many perturbed plants, in processes, resumed where it was broken off."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from multipanda_py.config.cell_file import CellConfig, fingerprint
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.exceptions import MultipandaError, ValidationRefused
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
    laws: Sequence[str] = (),
    jobs: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Compare a cell with a perturbed plant per seed, and write one row per plant, task and law.

    What a plant has said is kept in a folder beside the table, a file each, so that a sweep that
    was broken off goes on where it was; the folder goes when the table is there. Processes are
    those of joblib: within ``joblib.parallel_config("dask")`` they are those of a Dask cluster.

    Args:
        config: The twin.
        spec: Of the plants.
        seeds: Of the plants, each also that of the noise.
        target: The table, ``.parquet``.
        tasks: By number.
        seconds: Of each task.
        repeats: Of each task.
        laws: Names of force laws; all if empty.
        jobs: How many processes.
        say: Told what is done.

    Returns:
        How many rows the table has.

    Raises:
        ValidationRefused: If the twin cannot do a task or has real arms, if there is no folder
            for the table, or no plant could be compared with the twin; the table, which is there
            then, says why.
        ConfigurationError: If the plants cannot be drawn, or a file cannot be written.
        MissingExtra: If joblib, pandas or pyarrow is missing.
    """
    joblib, table = needed("joblib"), needed("pandas")
    needed("pyarrow")  # which writes the table, in the end
    for number in tasks:
        check_sides(make_task(number, seconds=seconds), config, config)
    for seed in seeds:  # refused before hours have gone by
        spec.draw(config, seed)
    asked = [list(tasks), seconds, repeats, sorted(laws)]
    text = fingerprint(config) + json.dumps([spec.values, *asked], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = target.with_name(f".{target.stem}.{key}.parts")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ValidationRefused(f"{target}: cannot be written: {error.strerror}") from None
    parts = {seed: folder / f"{seed}.json" for seed in seeds}
    left = [seed for seed, part in parts.items() if not part.is_file()]
    if len(left) < len(parts):
        say(f"{len(parts) - len(left)} of {len(parts)} plants are there already")
    done = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
        joblib.delayed(plant_rows)(config, spec, seed, tasks, seconds, repeats, laws)
        for seed in left
    )
    for number, (seed, rows) in enumerate(done, start=len(parts) - len(left) + 1):
        with replacing(parts[seed]) as partial:
            partial.write_text(json.dumps(rows), encoding="utf-8")
        say(f"{number} of {len(parts)} plants: seed {seed}")
        for row in rows:
            if not row["law"]:
                say(f"seed {seed}: {row['faults']}")
    rows = [row for part in parts.values() for row in json.loads(part.read_text("utf-8"))]
    with replacing(target) as partial:
        table.DataFrame(rows).to_parquet(partial)
    for part in folder.iterdir():
        part.unlink()
    folder.rmdir()
    if all(math.isnan(row.get("worst q", math.nan)) for row in rows):
        raise ValidationRefused(f"{target}: no plant was compared: {rows[0]['faults']}")
    return len(rows)


def plant_rows(
    config: CellConfig,
    spec: PerturbationSpec,
    seed: int,
    tasks: Sequence[int],
    seconds: float,
    repeats: int,
    laws: Sequence[str],
) -> tuple[int, list[Row]]:
    """Return the rows of one plant, and its seed; a plant that fails says why in its row."""
    plant = spec.draw(config, seed)
    drawn = dict(_flat(spec.values_for(config, seed)))
    rows: list[Row] = []
    for number in tasks:
        head: Row = {"seed": seed, "task": number}
        try:
            found = validate(
                plant, config, [number], repeats=repeats, seconds=seconds, seed=seed, laws=laws
            )
        except MultipandaError as error:
            rows.append({**head, "law": "", "faults": " ".join(str(error).split()), **drawn})
            continue
        for one in found:
            row = {**head, "law": one.law, "faults": "; ".join(one.faults)}
            row |= {f"worst {q.name}": one.worst(q.name) for q in QUANTITIES}
            for side, errors in one.force.items():
                row[f"force rmse, {side}"] = float(errors.mean())
            rows.append({**row, **drawn})
    return seed, rows


def _flat(values: dict[str, dict[str, Any]]) -> Iterator[tuple[str, float]]:
    for place, keys in values.items():
        for key, value in keys.items():
            if isinstance(value, list):
                yield from ((f"{place}.{key}[{k}]", item) for k, item in enumerate(value))
            else:
                yield f"{place}.{key}", value
