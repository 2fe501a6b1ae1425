# SPDX-License-Identifier: Apache-2.0
"""Compare the cost of the laws in two checkouts, measured in turn so that a busy moment hits both.

    git worktree add /tmp/before <commit>
    .venv/bin/python benchmarks/compare.py /tmp/before . --rounds 10

Each round runs the conditions of each checkout in a process of its own, first the one and then the
other, in changing order. The ratio of a round is free of what the machine does slowly; the table
has the median of the rounds' medians, and the median and the range of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

PART = "import json, sys; from {module} import benchmark; json.dump(benchmark({n}), sys.stdout)"
PARTS = {"conditions": 2, "hot": 3}
"""Modules of benchmarks/ that are run, and how many rounds of their own each does per process."""

Figures = dict[str, float]


def measure(checkout: Path) -> Figures:
    """Return the medians of one run of a checkout, by condition [us]."""
    figures: Figures = {}
    environment = os.environ | {
        "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    for module, rounds in PARTS.items():
        done = subprocess.run(
            [sys.executable, "-c", PART.format(module=module, n=rounds)],
            cwd=checkout / "benchmarks",
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = json.loads(done.stdout[done.stdout.index("{") :])
        for name, cost in found.items():
            if isinstance(cost, dict):
                figures[name if module == "conditions" else f"{module}: {name}"] = cost["p50_us"]
    return figures


def table(before: list[Figures], after: list[Figures]) -> str:
    """Return the comparison of equally many rounds."""
    lines = [
        "| condition | before [us] | after [us] | ratio | of the rounds |",
        "|---|---|---|---|---|",
    ]
    for name in before[0]:
        if not all(name in figures for figures in after):
            continue
        old, new = [f[name] for f in before], [f[name] for f in after]
        ratios = sorted(b / a for a, b in zip(old, new))
        lines.append(
            f"| {name} | {statistics.median(old):.1f} | {statistics.median(new):.1f} | "
            f"{statistics.median(ratios):.3f} | {ratios[0]:.3f} to {ratios[-1]:.3f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, and print the table after every round to the error stream."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", type=Path, help="a checkout")
    parser.add_argument("after", type=Path, help="another one")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    places = [options.before.resolve(), options.after.resolve()]
    figures: tuple[list[Figures], list[Figures]] = ([], [])
    for n in range(options.rounds):
        for which in (0, 1) if n % 2 == 0 else (1, 0):
            figures[which].append(measure(places[which]))
        sys.stderr.write(f"round {n + 1} of {options.rounds}\n")
    sys.stdout.write(table(*figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
