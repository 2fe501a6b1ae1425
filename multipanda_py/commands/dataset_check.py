# SPDX-License-Identifier: Apache-2.0
"""Say whether recorded episodes are whole."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.commands.options import Verb
from multipanda_py.commands.output import FAILED, OK, complain, say


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="of the data set")


def _run_check(options: argparse.Namespace) -> int:
    """Check it."""
    from multipanda_py.datasets import Dataset
    from multipanda_py.datasets.check import check

    dataset = Dataset(options.folder)
    faults = check(dataset)
    for fault in faults:
        complain(fault)
    if faults:
        return FAILED
    skew = max((episode.skew for episode in dataset), default=0.0)
    say(
        f"{options.folder}: {len(dataset)} episodes, {dataset.info['total_frames']} frames at "
        f"{dataset.info['fps']} Hz, {len(dataset.films)} cameras, largest skew {1e3 * skew:.2f} ms"
    )
    return OK


CHECK = Verb(
    "Say whether a data set is whole: files, frames, pictures, instants.",
    _add_check_arguments,
    _run_check,
)
