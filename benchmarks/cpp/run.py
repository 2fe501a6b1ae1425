# SPDX-License-Identifier: Apache-2.0
"""Time the laws beside the same maths in C++, in pairs, so that a busy moment hits both.

    .venv/bin/python benchmarks/cpp/run.py --check     # same torques, to 1e-9 Nm
    .venv/bin/python benchmarks/cpp/run.py --json

The reference is built on first use, which takes the compiler about a minute. What it computes and
what not is in the README beside this file.
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
"""Largest difference of a torque [Nm]."""
CASES = 60


class Reference:
    """The C++ side, in a process of its own on the same core."""

    def __init__(self, program: Path, scenario: Path, cpu: int) -> None:
        self._process = subprocess.Popen(
            [str(program), str(scenario), str(cpu)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, word: str, condition: str, number: int) -> np.ndarray:
        """Return the numbers of one answer.

        Raises:
            SystemExit: If the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word} {condition.replace(' ', '_')} {number}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the reference has ended at: {word} {condition} {number}")
        return np.array(line.split(), dtype=float)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def stiff() -> dict[str, Cell]:
    """Return cells for the check alone: so stiff that the dampers are at their bound."""
    gains = [5000.0] * 3 + [300.0] * 3
    law = {"type": "cartesian_impedance", "features": BASE, "params": {"stiffness": gains}}
    params = {"stiffness": gains, "relative_stiffness": gains}
    coupled = {
        "type": "coupled_impedance", "arms": list(PAIR), "features": BASE, "params": params,
    }  # fmt: skip
    return {"DC, stiff": dual(law), "C, stiff": dual(coupled)}


def check(peer: Reference, scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Return the largest difference of torques of every condition [Nm]."""
    found = {}
    for name, torques in scenario.torques.items():
        worst = max(
            float(np.abs(peer.ask("check", name, case) - tau).max())
            for case, tau in enumerate(torques)
        )
        found[name] = {"states": len(torques), "worst_nm": worst}
        if active := scenario.active[name]:
            found[name]["arms_near_something"] = active
    return found


def compare(
    peer: Reference, blocks: dict[str, Any], rounds: int, cycles: int
) -> dict[str, dict[str, float]]:
    """Return the cost of both in every condition; the ratio is the median of the rounds'."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in blocks}
    ratios: dict[str, list[float]] = {name: [] for name in blocks}
    for n in range(rounds):
        for name, block in blocks.items():
            ours: dict[str, Any] = {}
            for python_is_next in (True, False) if n % 2 else (False, True):
                if python_is_next:
                    ours = measure({name: block}, 1, cycles)[name]
                else:
                    theirs = 1e-3 * peer.ask("time", name, cycles)
            times[name][0].append(ours["p50_us"])
            times[name][1].extend(theirs)
            ratios[name].append(ours["p50_us"] / float(np.median(theirs)))
    return {
        name: {
            "median_us": float(np.median(theirs)),
            "p99_us": float(np.percentile(theirs, 99)),
            "python_median_us": float(np.median(ours)),
            "ratio": float(np.median(ratios[name])),
        }
        for name, (ours, theirs) in times.items()
    }


def table(figures: dict[str, dict[str, float]]) -> str:
    """Return the figures as a table."""
    lines = ["| condition | C++ [us] | p99 | Python [us] | ratio |", "|---|---|---|---|---|"]
    for name, cost in figures.items():
        lines.append(
            f"| {name} | {cost['median_us']:.1f} | {cost['p99_us']:.1f} | "
            f"{cost['python_median_us']:.1f} | {cost['ratio']:.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Build, check or time, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare torques, not times")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=count, default=20)
    parser.add_argument("--cycles", type=count, default=200, help="of a condition per round")
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
        peer = Reference(program, folder / "scenario.txt", cpu)
        if options.check:
            found = check(peer, scenario)
            sys.stdout.write(json.dumps(found, indent=2) + "\n")
            peer.close()
            return int(not all(one["worst_nm"] <= TOLERANCE for one in found.values()))
        gc.collect(), gc.freeze(), gc.disable()
        figures = compare(peer, blocks, options.rounds, options.cycles)
        peer.close()
    finally:
        shutil.rmtree(folder)
    sys.stdout.write((json.dumps(figures, indent=2) if options.json else table(figures)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
