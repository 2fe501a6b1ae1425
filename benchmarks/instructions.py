# SPDX-License-Identifier: Apache-2.0
"""Compare the instructions per cycle of all controllets with the accepted counts.

    .venv/bin/python benchmarks/instructions.py              # fails at an increase of 5 %
    .venv/bin/python benchmarks/instructions.py --accept     # writes accepted.json
    .venv/bin/python benchmarks/instructions.py --against /tmp/before --only DC

Instruction counts are independent of the load of the machine. They are divided by the count of a
calibration in the same process: a fixed mix of bytecode, numpy and pinocchio. This removes most of
the influence of other builds. ``--keep FOLDER`` keeps the files for ``callgrind_annotate``.
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
"""Maximum accepted ratio of new to old counts of a condition."""


def interpreter() -> str:
    """Return the Python version and machine type for which counts are comparable."""
    return f"Python {'.'.join(platform.python_version_tuple()[:2])}, {platform.machine()}"


def ratios(counts: dict[str, int]) -> dict[str, float]:
    """Return the counts of all conditions relative to that of the calibration."""
    unit = counts[CALIBRATION]
    return {name: n / unit for name, n in counts.items() if name != CALIBRATION}


def grown(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """Return the conditions with an increased count, and those of one side only."""
    conditions = {**before, **now}
    return [
        name
        for name in conditions
        if name not in now or name not in before or now[name] > MAXIMUM * before[name]
    ]


def table(now: dict[str, float], before: dict[str, float]) -> str:
    """Return old and new counts of all conditions as Markdown."""
    lines = ["| condition | before | now | ratio |", "|---|---|---|---|"]
    for name, ratio in now.items():
        old = before.get(name)
        old_text, change = (f"{old:.4f}", f"{ratio / old:.3f}") if old else ("", "")
        lines.append(f"| {name} | {old_text} | {ratio:.4f} | {change} |")
    return "\n".join(lines)


def counted(checkout: Path, folder: Path | None, only: str) -> dict[str, float]:
    """Count the conditions of a checkout, relative to the calibration."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        return ratios(count(checkout, folder, only))
    with tempfile.TemporaryDirectory() as temporary:
        return ratios(count(checkout, Path(temporary), only))


def main() -> int:
    """Print the counts; return 1 if one has increased."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--accept", action="store_true", help="write the counts to accepted.json")
    parser.add_argument(
        "--against", type=Path, help="checkout to compare with, instead of accepted.json"
    )
    parser.add_argument("--only", default="", help="only conditions with this text in their name")
    parser.add_argument("--keep", type=Path, help="empty folder for the files of callgrind")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    options = parser.parse_args()
    if options.accept and (options.only or options.against):
        parser.error("--accept needs all conditions of this checkout: remove --only and --against")
    if options.against and not (options.against / "multipanda_py").is_dir():
        parser.error(f"{options.against}: is no checkout, because multipanda_py is missing")
    if options.keep and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty")
    accepted = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    if missing := what_is_missing():
        sys.stdout.write(f"instruction counts skipped: {missing}\n")
        return 0
    if not (options.accept or options.against) and accepted.get("for") != interpreter():
        sys.stdout.write(
            f"instruction counts skipped: accepted.json is for {accepted.get('for')}, "
            f"this is {interpreter()}; use --against CHECKOUT to compare two checkouts here\n"
        )
        return 0
    before = {n: r for n, r in accepted.get("ratios", {}).items() if options.only in n}
    if options.against:
        before = counted(options.against, None, options.only)
    now = counted(HERE.parent, options.keep, options.only)
    if not now:
        known = ", ".join(accepted.get("ratios", {}))
        parser.error(f"--only: got {options.only!r}, allowed are parts of: {known}")
    sys.stdout.write(table(now, before) + "\n")
    figures = {"for": interpreter(), "ratios": {name: round(r, 4) for name, r in now.items()}}
    for path in filter(None, (options.json, ACCEPTED if options.accept else None)):
        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if options.accept or not (worse := grown(now, before)):
        return 0
    sys.stdout.write(
        f"more than {MAXIMUM - 1:.0%} more instructions: {', '.join(worse)}. "
        "If this is intended, run benchmarks/instructions.py --accept.\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
