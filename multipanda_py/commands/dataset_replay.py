# SPDX-License-Identifier: Apache-2.0
"""Do a recorded episode again."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.commands.options import Verb, positive, seed
from multipanda_py.commands.output import FAILED, OK, complain, say
from multipanda_py.machine.interruption import end_in_order


def _add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="of the data set")
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
    from multipanda_py.datasets import Dataset, replay
    from multipanda_py.gym import CellEnv

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
