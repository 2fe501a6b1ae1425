# SPDX-License-Identifier: Apache-2.0
"""Measure the dual-arm cell: cost of a cycle, timekeeping under load, switches, memory.

    .venv/bin/python benchmarks/loop.py --json result.json

Run it on a quiet machine, as a user who may take a real-time priority. About a minute;
``--minutes 10`` adds the memory growth over that time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from parts.options import count, duration

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


PARTS = ("hot", "conditions", "paced")


def table(results: dict[str, Any]) -> str:
    """Return the figures beside the goals they are measured against."""
    lines = ["| what | median | p99 | goal |", "|---|---|---|---|"]
    hot = results.get("hot", {})
    goals = {"laws": "p50 <= 50 us, p99 <= 100 us", "cycle": "", "physics": "beside it"}
    for name, label in (
        ("laws", "two impedance laws, nullspace, Coriolis, models"),
        ("laws_one_instance", "the same as one two-arm instance"),
        ("laws_with_terms", "the same with torque terms asked for"),
        ("model", "of it the models"),
        ("safety", "safety"),
        ("read", "read the world"),
        ("physics", "physics step of the dual scene"),
        ("record", "record"),
        ("cycle", "whole inline cycle"),
    ):
        if name in hot:
            p50, p99 = hot[name]["p50_us"], hot[name]["p99_us"]
            lines.append(f"| {label} | {p50:.1f} us | {p99:.1f} us | {goals.get(name, '')} |")
    if hot:
        factor = hot["inline_real_time_factor"]
        lines.append(f"| inline mode | {factor:.1f} x real time | | >= 6 x |")
    limits = {
        "DC-NF": "45", "DC-CA": "50", "DC-MA": "60", "DC-CA-MA": "65", "CDC-MA": "60",
        "UFIC x 2": "60",
    }  # fmt: skip
    for name, cost in results.get("conditions", {}).items():
        limit = limits.get(name)
        goal = f"p50 <= {limit} us, p99 <= twice" if limit else ""
        lines.append(
            f"| laws, {name} | {cost['p50_us']:.1f} us | {cost['p99_us']:.1f} us | {goal} |"
        )
    paced = results.get("paced")
    if paced:
        late, floor = paced["loop_lateness_us"], paced["floor_lateness_us"]
        missed, switch, memory = paced["missed"], paced["switch_ms"], paced["memory_mib"]
        lines += [
            f"| lateness of the loop under load | {late['p50']:.0f} us | {late['p99']:.0f} us | |",
            f"| lateness of a C loop | {floor['p50']:.0f} us | {floor['p99']:.0f} us | |",
            f"| p99 ratio, median of rounds | {paced['p99_ratio_median_of_rounds']:.2f} | "
            "| <= 1.5 |",
            f"| missed cycles, loop and C loop | {missed['loop']} of {missed['loop_cycles']} | "
            f"{missed['floor']} of {missed['floor_cycles']} | in proportion |",
            f"| cycle in the paced loop | {paced['compute_us']['p50']:.0f} us | "
            f"{paced['compute_us']['p99']:.0f} us | |",
            f"| ROS process, {paced['poses_per_second_and_arm']:.0f} poses/s per arm | "
            f"{paced['ros_process_cores']:.2f} cores | | < 0.25 |",
            f"| switch by service, {switch['trials']} trials | mean {switch['mean']:.2f} +- "
            f"{switch['std']:.2f} ms | max {switch['max']:.2f} ms | mean <= 0.7 ms |",
            f"| start to active | {paced['start_to_active_s']:.1f} s | | <= 5 s |",
            f"| resident memory, ROS and loop | {memory['ros']['rss']:.0f} + "
            f"{memory['loop']['rss']:.0f} MiB | shared pages once: "
            f"{memory['ros']['pss'] + memory['loop']['pss']:.0f} MiB | <= 400 MiB |",
        ]
        if paced["memory_growth"]:
            growth = paced["memory_growth"]
            lines.append(
                f"| memory growth in {growth['minutes']:.0f} min | {growth['mib']:.2f} MiB | | "
                "< 1 MiB |"
            )
    return "\n".join(lines)


def main() -> int:
    """Run the parts in processes of their own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--rounds", type=count, default=6, help="rounds of loop and C loop")
    parser.add_argument("--seconds", type=duration, default=3.0, help="length of one round's half")
    parser.add_argument("--trials", type=count, default=50, help="number of switches")
    parser.add_argument("--minutes", type=float, default=0, help="watch memory this long")
    parser.add_argument("--only", choices=PARTS, help="run one part only")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "hot":
        from parts.hot import benchmark as hot

        json.dump(hot(), sys.stdout)
        return 0
    if options.part == "conditions":
        from parts.conditions import benchmark as conditions

        json.dump(conditions(), sys.stdout)
        return 0
    if options.part == "paced":
        from parts.paced import benchmark as paced

        figures = paced(options.rounds, options.seconds, options.trials, options.minutes)
        json.dump(figures, sys.stdout)
        return 0
    results: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "python": platform.python_version(),
    }
    for part in PARTS:
        if options.only in (None, part):
            sys.stderr.write(f"measuring: {part}\n")
            command = [sys.executable, __file__, "--part", part]
            for name in ("rounds", "seconds", "trials", "minutes"):
                command += [f"--{name}", str(getattr(options, name))]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            results[part] = json.loads(done.stdout[done.stdout.index("{") :])
    sys.stdout.write(table(results) + "\n")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
