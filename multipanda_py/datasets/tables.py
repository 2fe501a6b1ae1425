# SPDX-License-Identifier: Apache-2.0
"""Files of Parquet in a data set, each written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.datasets.features import SCALARS, Features
from multipanda_py.datasets.layout import TASKS, data_file, episode_file, place
from multipanda_py.datasets.statistics import Stats
from multipanda_py.extras import needed
from multipanda_py.machine.whole_file import replacing


def write_numbers(
    folder: Path,
    features: Features,
    episode: int,
    table: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> None:
    """Write the frames of an episode.

    Args:
        folder: Of the data set.
        features: What frames have.
        episode: Number of the episode.
        table: Vectors, (n, k), and scalars, (n,), by key.
        facts: What else there is to say of the episode.
    """
    arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    fields, arrays = [], []
    for key, names in features.vectors.items():
        kind = arrow.list_(arrow.float32(), len(names))
        flat = arrow.array(np.asarray(table[key], np.float32).reshape(-1))
        fields.append((key, kind))
        arrays.append(arrow.FixedSizeListArray.from_arrays(flat, len(names)))
    for key, name in SCALARS.items():
        fields.append((key, getattr(arrow, "bool_" if name == "bool" else name)()))
        arrays.append(arrow.array(np.asarray(table[key]).astype(name)))
    schema = arrow.schema(fields, metadata={"multipanda_episode": json.dumps(dict(facts))})
    path = data_file(folder, episode)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        parquet.write_table(arrow.Table.from_arrays(arrays, schema=schema), partial)


def write_episode(
    folder: Path,
    features: Features,
    episode: int,
    task: str,
    rows: tuple[int, int],
    stats: Mapping[str, Stats],
) -> None:
    """Write that an episode is there.

    Args:
        folder: Of the data set.
        features: What frames have.
        episode: Number of the episode.
        task: What was to be done.
        rows: First of its rows among those of all episodes, and the one after its last.
        stats: By key.
    """
    arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    begin, end = rows
    row: dict[str, Any] = {"episode_index": episode, "tasks": [task], "length": end - begin}
    row |= {f"data/{key}": value for key, value in place(episode).items()}
    row |= {"dataset_from_index": begin, "dataset_to_index": end}
    for film in features.films:
        row |= {f"videos/{film}/{key}": value for key, value in place(episode).items()}
        row[f"videos/{film}/from_timestamp"] = 0.0
        row[f"videos/{film}/to_timestamp"] = (end - begin) / features.fps
    row |= {
        f"stats/{key}/{name}": value.tolist()
        for key, found in stats.items()
        for name, value in found.items()
    }
    row |= {f"meta/episodes/{key}": value for key, value in place(episode).items()}
    path = episode_file(folder, episode)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        parquet.write_table(arrow.Table.from_pylist([row]), partial)


def write_tasks(folder: Path, tasks: list[str]) -> None:
    """Write what was to be done, in the order of the numbers that frames have of it."""
    pandas = needed("pandas")
    frame = pandas.DataFrame(
        {"task_index": np.arange(len(tasks))},
        index=pandas.Index(tasks, name="task"),
    )
    with replacing(folder / TASKS) as partial:
        frame.to_parquet(partial)
