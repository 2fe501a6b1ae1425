# SPDX-License-Identifier: Apache-2.0
"""Say what recorded episodes have in them."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.commands.options import Verb
from multipanda_py.commands.output import OK, say


def _add_stats_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="of the data set")


def _run_stats(options: argparse.Namespace) -> int:
    """Write it as lines."""
    from multipanda_py.datasets import Dataset
    from multipanda_py.datasets.layout import STATS, read_json

    dataset = Dataset(options.folder)
    for episode in dataset:
        result = "success" if episode.facts.get("success") else "fail"
        say(
            f"{episode.number:6d}  {len(episode):6d} frames  {result:8s}"
            f"seed {episode.facts.get('seed')}  {episode.task}"
        )
    if not len(dataset):
        return OK
    stats = read_json(dataset.folder, STATS)
    say(f"{'':28s}{'min':>12s}{'max':>12s}{'mean':>12s}{'std':>12s}")
    for key, feature in dataset.info["features"].items():
        if not key.startswith(("observation", "action")) or feature["dtype"] == "video":
            continue
        say(key)
        of = stats[key]
        for name, *row in zip(feature["names"], of["min"], of["max"], of["mean"], of["std"]):
            say(f"  {name:26s}" + "".join(f"{value:12.4f}" for value in row))
    return OK


STATS = Verb(
    "Say what a data set has in it: episodes, how they ended, and the range of every number.",
    _add_stats_arguments,
    _run_stats,
)
