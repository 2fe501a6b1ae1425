# SPDX-License-Identifier: Apache-2.0
"""Compare the cost of the laws in two or more checkouts, condition by condition.

    git worktree add /tmp/before <commit>
    .venv/bin/python benchmarks/compare.py /tmp/before . --rounds 40

Each checkout has a process that has built every condition of this one's `parts/conditions.py`,
and of `parts/moving.py`: whole cycles of arms that move. They never run together: for each
condition one after the other measures some hundred cycles, in changing order, so that a busy
moment hits all. A round's ratio is of medians taken within some 30 ms; the table has the median
of the ratios to the first checkout, and where their middle half lies.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from parts.options import count

WORKER = """
import gc, json, os, statistics, sys, time
from parts.conditions import conditions, laws_of, row_of_arms
from parts.moving import MOVING, moving, name_of
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
cells = conditions()
for n in (1, 2, 4, 8):
    cells[f"N = {n}"] = row_of_arms(n)
    cells[f"N = {n}, CA+MA"] = row_of_arms(n, "collision_avoidance", "manipulability")
known = [*cells, *map(name_of, MOVING)]
blocks = {name: (lambda: None, laws_of(cell)) for name, cell in cells.items() if ONLY in name}
blocks |= {name_of(n): moving(cell) for n, cell in conditions().items()
           if n in MOVING and ONLY in name_of(n)}
gc.collect(), gc.freeze(), gc.disable()
print(json.dumps([known, list(blocks)]), flush=True)
for line in sys.stdin:
    (before, block), samples = blocks[line.strip()], []
    for _ in range(20):
        before(), block()
    for _ in range(CYCLES):
        before()
        begin = time.perf_counter_ns()
        block()
        samples.append((time.perf_counter_ns() - begin) * 1e-3)
    print(statistics.median(samples), flush=True)
"""


HERE = Path(__file__).resolve().parent


class Checkout:
    """A process that measures the conditions of one checkout when it is asked to.

    Attributes:
        known: Names of all conditions.
        conditions: Of those that it measures.
    """

    def __init__(self, folder: Path, cycles: int, only: str) -> None:
        environment = os.environ | {
            "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{folder}{os.pathsep}{HERE}",
        }  # fmt: skip
        worker = WORKER.replace("CYCLES", str(cycles)).replace("ONLY", repr(only))
        self._process = subprocess.Popen(
            [sys.executable, "-c", worker],
            cwd=HERE,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.known: list[str]
        self.conditions: list[str]
        self.known, self.conditions = json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            if not line:
                raise SystemExit("a measuring process has ended; see above")
            if line[0] in "[0123456789":
                return line

    def measure(self, condition: str) -> float:
        """Return the median cost of a condition [us]."""
        assert self._process.stdin is not None
        self._process.stdin.write(condition + "\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def table(figures: list[dict[str, list[float]]], names: list[str]) -> str:
    """Return the comparison of all checkouts with the first."""
    first, *others = figures
    head = [f"| {name} [us] | ratio | middle half " for name in names[1:]]
    lines = [
        f"| condition | {names[0]} [us] {''.join(head)}|",
        "|---" * (2 + 3 * len(others)) + "|",
    ]
    for condition, old in first.items():
        line = f"| {condition} | {statistics.median(old):.1f} "
        for other in others:
            new = other[condition]
            low, middle, high = statistics.quantiles([b / a for a, b in zip(old, new)], n=4)
            line += f"| {statistics.median(new):.1f} | {middle:.3f} | {low:.3f} to {high:.3f} "
        lines.append(line + "|")
    return "\n".join(lines)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkouts", type=Path, nargs="+", help="what to compare with the first")
    parser.add_argument("--rounds", type=count, default=40)
    parser.add_argument("--cycles", type=count, default=200, help="of a condition per round")
    parser.add_argument("--only", default="", help="conditions with this in their name")
    options = parser.parse_args()
    for folder in options.checkouts:
        if not (folder / "multipanda_py").is_dir():
            parser.error(f"{folder} has no multipanda_py: allowed are checkouts")
    sides = [
        Checkout(folder.resolve(), options.cycles, options.only) for folder in options.checkouts
    ]
    names = sides[0].conditions
    if not names:
        for side in sides:
            side.close()
        parser.error(
            f"--only: got {options.only!r}, allowed is a part of {', '.join(sides[0].known)}"
        )
    figures: list[dict[str, list[float]]] = [{name: [] for name in names} for _ in sides]
    for n in range(options.rounds):
        for name in names:
            for i in range(len(sides)):
                which = (n + i) % len(sides)
                figures[which][name].append(sides[which].measure(name))
        sys.stderr.write(f"round {n + 1} of {options.rounds}\n")
    for side in sides:
        side.close()
    sys.stdout.write(
        table(figures, [folder.resolve().name for folder in options.checkouts]) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
