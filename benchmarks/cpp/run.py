# SPDX-License-Identifier: Apache-2.0
"""Compare the processor time of controllets with that of the same computation in C++.

    .venv/bin/python benchmarks/cpp/run.py --check     # same torques, to 1e-9 Nm
    .venv/bin/python benchmarks/cpp/run.py --json

Both run on the same core in turn, so that other load affects both. The first run builds the
reference, which takes about a minute. README.md in this folder lists its scope.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

from multipanda_py import Cell

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
from build import Missing, reference  # noqa: E402
from parts.conditions import BASE, PAIR, conditions, dual, laws_of  # noqa: E402
from parts.hot import measure  # noqa: E402
from parts.options import count  # noqa: E402
from scenario import Scenario  # noqa: E402

TOLERANCE = 1e-9
"""Maximum difference of a torque [Nm]."""
CASES = 60
"""Number of compared states per condition."""


class Reference:
    """Process of the C++ reference on the same core."""

    def __init__(self, program: Path, scenario: Path, cpu: int) -> None:
        self._process = subprocess.Popen(
            [str(program), str(scenario), str(cpu)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, word: str, condition: str, number: int) -> np.ndarray:
        """Send a command; return the numbers of the answer.

        Args:
            word: Command, ``check`` or ``time``.
            condition: Name of the condition.
            number: Index of the case, or number of cycles.

        Raises:
            SystemExit: If the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word} {condition.replace(' ', '_')} {number}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the reference ended at: {word} {condition} {number}")
        return np.array(line.split(), dtype=float)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def stiff() -> dict[str, Cell]:
    """Return cells that only ``--check`` uses, whose dampers are at the bandwidth limit."""
    gains = [5000.0] * 3 + [300.0] * 3
    law = {"type": "cartesian_impedance", "features": BASE, "params": {"stiffness": gains}}
    params = {"stiffness": gains, "relative_stiffness": gains}
    coupled = {
        "type": "coupled_impedance", "arms": list(PAIR), "features": BASE, "params": params,
    }  # fmt: skip
    return {"DC, stiff": dual(law), "C, stiff": dual(coupled)}


def check(reference_process: Reference, scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Return the number of states and the maximum torque difference [Nm] of each condition."""
    found = {}
    for name, torques in scenario.torques.items():
        worst = max(
            float(np.abs(reference_process.ask("check", name, case) - tau).max())
            for case, tau in enumerate(torques)
        )
        found[name] = {"states": len(torques), "worst_nm": worst}
        if active := scenario.active[name]:
            found[name]["arms_near_something"] = active
    return found


def compare(
    reference_process: Reference, blocks: dict[str, Any], rounds: int, cycles: int
) -> dict[str, dict[str, float]]:
    """Return the times of both in each condition [us], and the median ratio of the rounds."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in blocks}
    ratios: dict[str, list[float]] = {name: [] for name in blocks}
    for n in range(rounds):
        for name, block in blocks.items():
            python: dict[str, Any] = {}
            for python_is_next in (True, False) if n % 2 else (False, True):
                if python_is_next:
                    python = measure({name: block}, 1, cycles)[name]
                else:
                    cpp = 1e-3 * reference_process.ask("time", name, cycles)
            times[name][0].append(python["p50_us"])
            times[name][1].extend(cpp)
            ratios[name].append(python["p50_us"] / float(np.median(cpp)))
    return {
        name: {
            "median_us": float(np.median(cpp)),
            "p99_us": float(np.percentile(cpp, 99)),
            "python_median_us": float(np.median(python)),
            "ratio": float(np.median(ratios[name])),
        }
        for name, (python, cpp) in times.items()
    }


def table(costs: dict[str, dict[str, float]]) -> str:
    """Return the times as a Markdown table."""
    lines = ["| condition | C++ [us] | p99 | Python [us] | ratio |", "|---|---|---|---|---|"]
    for name, cost in costs.items():
        lines.append(
            f"| {name} | {cost['median_us']:.1f} | {cost['p99_us']:.1f} | "
            f"{cost['python_median_us']:.1f} | {cost['ratio']:.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Build the reference, compare torques or times, and print the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare torques instead of times")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=count, default=20)
    parser.add_argument("--cycles", type=count, default=200, help="cycles per condition and round")
    options = parser.parse_args()
    try:
        program = reference()
    except Missing as missing:
        sys.stderr.write(f"no C++ reference: {missing}\n")
        return 2
    cpu = sorted(os.sched_getaffinity(0))[-1]
    os.sched_setaffinity(0, {cpu})
    cells, scenario, rng = conditions(), Scenario(), np.random.default_rng(0)
    cells |= stiff() if options.check else {}
    blocks = {name: laws_of(cell) for name, cell in cells.items()}
    scenario.add_arms(next(iter(cells.values())))
    for name, cell in cells.items():
        scenario.add(name, cell, CASES if options.check else 1, rng)
    folder = Path(tempfile.mkdtemp())
    try:
        scenario.write(folder / "scenario.txt")
        reference_process = Reference(program, folder / "scenario.txt", cpu)
        if options.check:
            found = check(reference_process, scenario)
            sys.stdout.write(json.dumps(found, indent=2) + "\n")
            reference_process.close()
            return int(not all(one["worst_nm"] <= TOLERANCE for one in found.values()))
        gc.collect(), gc.freeze(), gc.disable()
        costs = compare(reference_process, blocks, options.rounds, options.cycles)
        reference_process.close()
    finally:
        shutil.rmtree(folder)
    sys.stdout.write((json.dumps(costs, indent=2) if options.json else table(costs)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
