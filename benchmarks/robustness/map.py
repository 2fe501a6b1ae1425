# SPDX-License-Identifier: Apache-2.0
"""Try every law under every condition, from several postures, and write down what happens.

    .venv/bin/python benchmarks/robustness/map.py            # all cores, some ten minutes
    .venv/bin/python benchmarks/robustness/map.py --quick    # a minute, nothing is written
    .venv/bin/python benchmarks/robustness/map.py --only coupled    # those laws anew
    .venv/bin/python benchmarks/robustness/map.py --robot ur5e      # the rows of that arm anew

What has been tried is kept next to the map until the map is complete, so that a run may be
stopped and started again; it is forgotten when the code has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cases import CONDITIONS, EVERY_LAW, OTHERS, QUICK, Condition, Law, applies, laws_on

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULT = HERE / "map.json"
SEEDS = 2
EVERY = 20
"""Episodes between two lines of progress."""

Episode = tuple[Law, Condition, int]


def episodes(
    laws: Sequence[Law], conditions: Sequence[Condition], seeds: int
) -> Iterator[Episode]:
    """Yield what is to be tried, in the order of the map."""
    for law in laws:
        for condition in conditions:
            if applies(law, condition):
                for seed in range(seeds):
                    yield law, condition, seed


def key(episode: Episode) -> str:
    """Name an episode."""
    law, condition, seed = episode
    return f"{law.name} | {condition.name} | {seed}"


def attempt(episode: Episode) -> tuple[str, dict[str, Any]]:
    """Run an episode, in a process of the pool."""
    from scenarios import run

    return key(episode), run(*episode).rounded()


def fingerprint() -> str:
    """Return what changes with the code that decides what happens."""
    files = [*sorted((ROOT / "multipanda_py").rglob("*.py")), *sorted(HERE.glob("*.py"))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def known(path: Path) -> dict[str, dict[str, Any]]:
    """Return what an interrupted run of the same code has found."""
    if not path.exists():
        return {}
    first, *rest = path.read_text(encoding="utf-8").splitlines() or [""]
    if first != fingerprint():
        return {}
    return dict(json.loads(line) for line in rest if line.endswith("]"))


def make(
    todo: Sequence[Episode], jobs: int, notes: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Run episodes on several cores; what is noted already is not run again."""
    found = known(notes) if notes else {}
    rest = [episode for episode in todo if key(episode) not in found]
    note = None
    if notes:
        note = notes.open("w", encoding="utf-8")
        note.write(fingerprint() + "\n")
        note.writelines(json.dumps(item) + "\n" for item in found.items())
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # of the processes that are started now
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for n, (name, result) in enumerate(pool.imap_unordered(attempt, rest), 1):
            found[name] = result
            if note:
                note.write(json.dumps([name, result]) + "\n")
                note.flush()
            if n % EVERY == 0 or n == len(rest):
                sys.stderr.write(f"{n} of {len(rest)} episodes; {name}: {result['verdict']}\n")
    if note:
        note.close()
    return {key(episode): found[key(episode)] for episode in todo}


def write(found: dict[str, dict[str, Any]], path: Path) -> None:
    """Write the map, one line per episode."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def main() -> int:
    """Make the map."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three conditions, one posture")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="postures per law and condition")
    parser.add_argument("--only", default="", help="laws with this in their name; others are kept")
    parser.add_argument(
        "--robot", choices=("fr3", *OTHERS), default="fr3", help="rows of others are kept"
    )
    parser.add_argument("--json", type=Path, help=f"where to write; by default {RESULT.name}")
    options = parser.parse_args()
    conditions, seeds = (QUICK, 1) if options.quick else (CONDITIONS, options.seeds)
    path = options.json or (None if options.quick else RESULT)
    notes = path.with_suffix(".part") if path else None
    laws = laws_on(options.robot)
    todo = [e for e in episodes(laws, conditions, seeds) if options.only in e[0].name]
    if not todo:
        parser.error(f"--only: got {options.only!r}, which is in no law's name")
    found = make(todo, options.jobs, notes)
    for name, result in found.items():
        if result["verdict"] != "stable":
            sys.stdout.write(f"{result['verdict']:9}{name}: {result['reason']}\n")
    if path and notes:
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8")) | found
            names = [key(episode) for episode in episodes(EVERY_LAW, conditions, seeds)]
            found = {name: kept[name] for name in names if name in kept}
        write(found, path)
        notes.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
