# SPDX-License-Identifier: Apache-2.0
"""Check, replay and summarise recorded episodes: command ``multipanda dataset``."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.apps.commands.command_line import (
    FAILED,
    OK,
    Verb,
    add_verbs,
    complain,
    positive,
    print_line,
    run_verb,
    seed,
)
from multipanda_py.realtime.system.signals import end_in_order


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the data set")


def _run_check(options: argparse.Namespace) -> int:
    from multipanda_py.learning.datasets import Dataset
    from multipanda_py.learning.datasets.replay import check

    dataset = Dataset(options.folder)
    faults = check(dataset)
    for fault in faults:
        complain(fault)
    if faults:
        return FAILED
    skew = max((episode.skew for episode in dataset), default=0.0)
    print_line(
        f"{options.folder}: {len(dataset)} episodes, {dataset.info['total_frames']} frames at "
        f"{dataset.info['fps']} Hz, {len(dataset.video_keys)} cameras, largest skew "
        f"{1e3 * skew:.2f} ms"
    )
    return OK


CHECK = Verb(
    "Check that a data set is complete: files, frames, images and time stamps.",
    _add_folder,
    _run_check,
)


def _add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    _add_folder(parser)
    parser.add_argument(
        "--episode", type=seed, default=0, metavar="N", help="number of the episode, default 0"
    )
    parser.add_argument(
        "--cell", metavar="FILE", type=Path,
        help="cell file instead of the task's scene; real arms in it MOVE",
    )  # fmt: skip
    parser.add_argument(
        "--tolerance", type=positive, default=5.0, metavar="MM",
        help="allowed deviation of a tool from its recorded position, default 5; the exit code is "
        "1 if it is larger",
    )  # fmt: skip


def _run_replay(options: argparse.Namespace) -> int:
    from multipanda_py.learning.datasets import Dataset, replay
    from multipanda_py.learning.gym import CellEnv

    end_in_order()
    dataset = Dataset(options.folder)
    metadata = dataset.extra_metadata
    env = CellEnv(
        metadata["task"],
        control=metadata["control"],
        rate=metadata["rate"],
        objects=metadata["objects"],
        features=metadata["features"],
        cell=options.cell,
    )
    try:
        done = replay(dataset, options.episode, env)
    finally:
        env.close()
    for arm, apart in done.apart.items():
        print_line(
            f"{arm}: the tool deviated by up to {1e3 * apart:.3f} mm from the recorded position"
        )
    print_line(f"{done.frames} frames, {'success' if done.success else 'no success'}")
    if done.fault:
        complain(done.fault)
    return (
        OK
        if 1e3 * max(done.apart.values(), default=0.0) <= options.tolerance and not done.fault
        else FAILED
    )


REPLAY = Verb(
    "Replay a recorded episode and report how far the tools are from their recorded positions.",
    _add_replay_arguments,
    _run_replay,
)


def _run_stats(options: argparse.Namespace) -> int:
    from multipanda_py.learning.datasets import Dataset
    from multipanda_py.learning.datasets.reader import STATS_FILE, read_json

    dataset = Dataset(options.folder)
    for episode in dataset:
        result = "success" if episode.metadata.get("success") else "fail"
        print_line(
            f"{episode.number:6d}  {len(episode):6d} frames  {result:8s}"
            f"seed {episode.metadata.get('seed')}  {episode.task}"
        )
    if not len(dataset):
        return OK
    stats = read_json(dataset.folder, STATS_FILE)
    print_line(f"{'':28s}{'min':>12s}{'max':>12s}{'mean':>12s}{'std':>12s}")
    for key, feature in dataset.info["features"].items():
        if not key.startswith(("observation", "action")) or feature["dtype"] == "video":
            continue
        print_line(key)
        of = stats[key]
        for name, *row in zip(feature["names"], of["min"], of["max"], of["mean"], of["std"]):
            print_line(f"  {name:26s}" + "".join(f"{value:12.4f}" for value in row))
    return OK


STATS = Verb(
    "Print the episodes of a data set, their results and the range of every quantity.",
    _add_folder,
    _run_stats,
)


SUMMARY = (
    "Check, summarise or replay recorded episodes: check FOLDER, stats FOLDER, replay FOLDER."
)
VERBS = {"check": CHECK, "stats": STATS, "replay": REPLAY}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    return run_verb(options)
