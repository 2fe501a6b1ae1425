# SPDX-License-Identifier: Apache-2.0
"""Compare the processor time of controllets in two or more checkouts, for each condition.

    git worktree add /tmp/before <commit>
    .venv/bin/python benchmarks/compare.py /tmp/before . --rounds 40

Conditions are those of `parts/conditions.py` in this checkout, and whole cycles of moving arms
(`parts/moving.py`). Each checkout has its own process, and one process measures at a time. For
each condition, all processes measure some hundred cycles in alternating order, so that other load
affects all checkouts equally. A round takes some 30 ms per condition and gives ratios of medians
to the first checkout. The table has the median and the interquartile range of these ratios.
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
    """Process that measures conditions of one checkout on request.

    Attributes:
        known: Names of all conditions.
        conditions: Names of the measured conditions.
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
                raise SystemExit("a measurement process has ended; the reason is above")
            if line[0] in "[0123456789":
                return line

    def measure(self, condition: str) -> float:
        """Return the median time of a cycle of a condition [us]."""
        assert self._process.stdin is not None
        self._process.stdin.write(condition + "\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def table(figures: list[dict[str, list[float]]], names: list[str]) -> str:
    """Return the comparison of all checkouts with the first, as Markdown."""
    first, *others = figures
    head = [f"| {name} [us] | ratio | interquartile range " for name in names[1:]]
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
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "checkouts", type=Path, nargs="+", help="folders of checkouts; the first is the reference"
    )
    parser.add_argument("--rounds", type=count, default=40, help="default 40")
    parser.add_argument(
        "--cycles", type=count, default=200, help="per condition and round, default 200"
    )
    parser.add_argument("--only", default="", help="only conditions with this text in their name")
    options = parser.parse_args()
    for folder in options.checkouts:
        if not (folder / "multipanda_py").is_dir():
            parser.error(f"{folder}: is no checkout, because multipanda_py is missing")
    sides = [
        Checkout(folder.resolve(), options.cycles, options.only) for folder in options.checkouts
    ]
    names = sides[0].conditions
    if not names:
        for side in sides:
            side.close()
        parser.error(
            f"--only: got {options.only!r}, allowed are parts of: {', '.join(sides[0].known)}"
        )
    figures: list[dict[str, list[float]]] = [{name: [] for name in names} for _ in sides]
    for n in range(options.rounds):
        for name in names:
            for i in range(len(sides)):
                index = (n + i) % len(sides)
                figures[index][name].append(sides[index].measure(name))
        sys.stderr.write(f"round {n + 1} of {options.rounds}\n")
    for side in sides:
        side.close()
    sys.stdout.write(
        table(figures, [folder.resolve().name for folder in options.checkouts]) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
