# SPDX-License-Identifier: Apache-2.0
"""Compare what a cycle of every law costs, in instructions, with what was accepted last.

    .venv/bin/python benchmarks/instructions.py              # fails at 5 % more
    .venv/bin/python benchmarks/instructions.py --accept     # writes accepted.json
    .venv/bin/python benchmarks/instructions.py --against /tmp/before --only DC

Times depend on the machine and on who else uses it; instructions do not. They are divided by
those of a fixed mix of bytecode, numpy and pinocchio counted in the same process, which takes
out most of what another build of these does. ``--keep FOLDER`` leaves the files that
``callgrind_annotate`` reads.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path

from parts.callgrind import count, what_is_missing

HERE = Path(__file__).resolve().parent
ACCEPTED = HERE / "accepted.json"
CALIBRATION = "calibration"
MAXIMUM = 1.05
"""Largest accepted growth of a condition."""


def interpreter() -> str:
    """Return what accepted figures are valid for."""
    return f"Python {'.'.join(platform.python_version_tuple()[:2])}, {platform.machine()}"


def ratios(counts: dict[str, int]) -> dict[str, float]:
    """Return the instructions of every condition, in those of the calibration."""
    unit = counts[CALIBRATION]
    return {name: n / unit for name, n in counts.items() if name != CALIBRATION}


def grown(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """Return the conditions that cost more than before, or that only one side has."""
    either = {**before, **now}
    return [
        name
        for name in either
        if name not in now or name not in before or now[name] > MAXIMUM * before[name]
    ]


def table(now: dict[str, float], before: dict[str, float]) -> str:
    """Return both, condition by condition."""
    lines = ["| condition | before | now | ratio |", "|---|---|---|---|"]
    for name, ratio in now.items():
        old = before.get(name)
        old_text, change = (f"{old:.4f}", f"{ratio / old:.3f}") if old else ("", "")
        lines.append(f"| {name} | {old_text} | {ratio:.4f} | {change} |")
    return "\n".join(lines)


def counted(checkout: Path, folder: Path | None, only: str) -> dict[str, float]:
    """Count the conditions of a checkout, in units of the calibration."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        return ratios(count(checkout, folder, only))
    with tempfile.TemporaryDirectory() as throw_away:
        return ratios(count(checkout, Path(throw_away), only))


def main() -> int:
    """Count, compare, and say what has grown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--accept", action="store_true", help="write the figures to accepted.json")
    parser.add_argument("--against", type=Path, help="a checkout to compare with instead")
    parser.add_argument("--only", default="", help="conditions with this in their name")
    parser.add_argument("--keep", type=Path, help="an empty folder for callgrind's files")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if options.accept and (options.only or options.against):
        parser.error("--accept takes all conditions of this checkout: drop --only and --against")
    if options.against and not (options.against / "multipanda_py").is_dir():
        parser.error(f"{options.against} has no multipanda_py: allowed are checkouts")
    if options.keep and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty")
    accepted = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    if missing := what_is_missing():
        sys.stdout.write(f"instruction counts skipped: {missing}\n")
        return 0
    if not (options.accept or options.against) and accepted.get("for") != interpreter():
        sys.stdout.write(
            f"instruction counts skipped: accepted ones are for {accepted.get('for')}, "
            f"this is {interpreter()}; --against CHECKOUT compares two checkouts on any\n"
        )
        return 0
    before = {n: r for n, r in accepted.get("ratios", {}).items() if options.only in n}
    if options.against:
        before = counted(options.against, None, options.only)
    now = counted(HERE.parent, options.keep, options.only)
    if not now:
        known = ", ".join(accepted.get("ratios", {}))
        parser.error(f"--only: got {options.only!r}, allowed is a part of {known}")
    sys.stdout.write(table(now, before) + "\n")
    figures = {"for": interpreter(), "ratios": {name: round(r, 4) for name, r in now.items()}}
    for path in filter(None, (options.json, ACCEPTED if options.accept else None)):
        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if options.accept or not (worse := grown(now, before)):
        return 0
    sys.stdout.write(
        f"more than {MAXIMUM - 1:.0%} more instructions: {', '.join(worse)}. If that is meant: "
        "benchmarks/instructions.py --accept\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
