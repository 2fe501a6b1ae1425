# SPDX-License-Identifier: Apache-2.0
"""What is done with recorded episodes, a verb a file."""

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
    run_verb,
    say,
    seed,
)
from multipanda_py.realtime.system.signals import end_in_order


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="of the data set")


def _run_check(options: argparse.Namespace) -> int:
    """Check it."""
    from multipanda_py.learning.datasets import Dataset
    from multipanda_py.learning.datasets.replay import check

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
    _add_folder,
    _run_check,
)


def _add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    _add_folder(parser)
    parser.add_argument("--episode", type=seed, default=0, metavar="N", help="which, default 0")
    parser.add_argument(
        "--cell", metavar="FILE", type=Path,
        help="a cell file instead of the task's scene; real arms in it MOVE",
    )  # fmt: skip
    parser.add_argument(
        "--within", type=positive, default=5.0, metavar="MM",
        help="how far a tool may be from where it was, default 5; 1 is returned beyond",
    )  # fmt: skip


def _run_replay(options: argparse.Namespace) -> int:
    """Do it, and compare."""
    from multipanda_py.learning.datasets import Dataset, replay
    from multipanda_py.learning.gym import CellEnv

    end_in_order()
    dataset = Dataset(options.folder)
    ours = dataset.ours
    env = CellEnv(
        ours["task"],
        control=ours["control"],
        rate=ours["rate"],
        things=ours["things"],
        features=ours["features"],
        cell=options.cell,
    )
    try:
        done = replay(dataset, options.episode, env)
    finally:
        env.close()
    for arm, apart in done.apart.items():
        say(f"{arm}: the tool was at most {1e3 * apart:.3f} mm from where it had been")
    say(f"{done.frames} frames, {'success' if done.success else 'no success'}")
    if done.fault:
        complain(done.fault)
    return OK if 1e3 * max(done.apart.values()) <= options.within and not done.fault else FAILED


REPLAY = Verb(
    "Do a recorded episode again, and say how far tools were from where they had been.",
    _add_replay_arguments,
    _run_replay,
)


def _run_stats(options: argparse.Namespace) -> int:
    """Write it as lines."""
    from multipanda_py.learning.datasets import Dataset
    from multipanda_py.learning.datasets.reader import STATS, read_json

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
    _add_folder,
    _run_stats,
)


SUMMARY = "Episodes for learning: check FOLDER, stats FOLDER, replay FOLDER."
VERBS = {"check": CHECK, "stats": STATS, "replay": REPLAY}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(options)
