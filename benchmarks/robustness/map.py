# SPDX-License-Identifier: Apache-2.0
"""Simulate every controllet under every condition from several start configurations.

    .venv/bin/python benchmarks/robustness/map.py            # all cores, some ten minutes
    .venv/bin/python benchmarks/robustness/map.py --quick    # one minute, writes no file
    .venv/bin/python benchmarks/robustness/map.py --only coupled    # controllets of this name
    .venv/bin/python benchmarks/robustness/map.py --robot ur5e      # rows of this arm

The results are written to map.json. Finished episodes are stored in map.part until the map is
complete, so an interrupted run can continue. A change of the code discards them.
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
PROGRESS_EVERY = 20
"""Episodes between two progress lines."""

Episode = tuple[Law, Condition, int]


def episodes(
    laws: Sequence[Law], conditions: Sequence[Condition], seeds: int
) -> Iterator[Episode]:
    """Yield the episodes in the order of the map."""
    for law in laws:
        for condition in conditions:
            if applies(law, condition):
                for seed in range(seeds):
                    yield law, condition, seed


def key(episode: Episode) -> str:
    """Return the key of an episode in the map."""
    law, condition, seed = episode
    return f"{law.name} | {condition.name} | {seed}"


def run_episode(episode: Episode) -> tuple[str, dict[str, Any]]:
    """Run an episode in a worker process; return its key and result."""
    from scenarios import run

    return key(episode), run(*episode).rounded()


def fingerprint() -> str:
    """Return a hash of all code that affects the results."""
    files = [*sorted((ROOT / "multipanda_py").rglob("*.py")), *sorted(HERE.glob("*.py"))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def stored_results(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results that an interrupted run of the same code stored."""
    if not path.exists():
        return {}
    first, *rest = path.read_text(encoding="utf-8").splitlines() or [""]
    if first != fingerprint():
        return {}
    return dict(json.loads(line) for line in rest if line.endswith("]"))


def make(
    todo: Sequence[Episode], jobs: int, partial: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Run episodes in parallel and return their results.

    Args:
        todo: Episodes to run.
        jobs: Number of worker processes.
        partial: File of finished episodes, which are not run again.
    """
    found = stored_results(partial) if partial else {}
    rest = [episode for episode in todo if key(episode) not in found]
    log = None
    if partial:
        log = partial.open("w", encoding="utf-8")
        log.write(fingerprint() + "\n")
        log.writelines(json.dumps(item) + "\n" for item in found.items())
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # The workers inherit this.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for n, (name, result) in enumerate(pool.imap_unordered(run_episode, rest), 1):
            found[name] = result
            if log:
                log.write(json.dumps([name, result]) + "\n")
                log.flush()
            if n % PROGRESS_EVERY == 0 or n == len(rest):
                sys.stderr.write(f"{n} of {len(rest)} episodes; {name}: {result['verdict']}\n")
    if log:
        log.close()
    return {key(episode): found[key(episode)] for episode in todo}


def write(found: dict[str, dict[str, Any]], path: Path) -> None:
    """Write the map, one line per episode."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def main() -> int:
    """Run the episodes of the command line, print failures and write the map."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="three conditions, one start configuration"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="worker processes")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="start configurations per field")
    parser.add_argument("--only", default="", help="only controllets with this in their name")
    parser.add_argument(
        "--robot", choices=("fr3", *OTHERS), default="fr3", help="arm; rows of other arms stay"
    )
    parser.add_argument("--json", type=Path, help=f"output file, default {RESULT.name}")
    options = parser.parse_args()
    conditions, seeds = (QUICK, 1) if options.quick else (CONDITIONS, options.seeds)
    path = options.json or (None if options.quick else RESULT)
    partial = path.with_suffix(".part") if path else None
    laws = laws_on(options.robot)
    todo = [e for e in episodes(laws, conditions, seeds) if options.only in e[0].name]
    if not todo:
        parser.error(f"--only: no controllet of {options.robot} has {options.only!r} in its name")
    found = make(todo, options.jobs, partial)
    for name, result in found.items():
        if result["verdict"] != "stable":
            sys.stdout.write(f"{result['verdict']:9}{name}: {result['reason']}\n")
    if path and partial:
        if path.exists():
            merged = json.loads(path.read_text(encoding="utf-8")) | found
            names = [key(episode) for episode in episodes(EVERY_LAW, conditions, seeds)]
            found = {name: merged[name] for name in names if name in merged}
        write(found, path)
        partial.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
