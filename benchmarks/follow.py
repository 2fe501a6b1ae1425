# SPDX-License-Identifier: Apache-2.0
"""Count cycle records of a real-time cell that another process misses within hours.

Two simulated arms run at 1 kHz, with a controllet each. Another process, the follower, reads all
records and checks that each is complete, in order and new. The memory of the loop and of the
follower is sampled once a second.

    .venv/bin/python benchmarks/follow.py --minutes 60
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from parts.footprint import ALLOWED, COLUMNS, growth, sample
from parts.options import duration

from multipanda_py import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import LoopError

CELL = Path(__file__).resolve().parents[1] / "config" / "dual_sim.yaml"
WARM_UP = 5.0  # time before the first memory sample [s]

FOLLOWER = """
import json, sys
import numpy as np
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.running_cell import RecordFollower

follower = RecordFollower(CellConfig.from_yaml(sys.argv[1]), sys.argv[2])
found = dict(first=follower.position, rows=0, dropped=0, torn=0, disorder=0, behind=0, gaps=0)
last = -1
sys.stdout.write("ready\\n")
sys.stdout.flush()
while rows := len(batch := follower.wait(2.0, 256)):  # bounds the heap after a pause to 1 MiB
    cycles, dropped = batch["cycle"], follower.dropped
    found["rows"] += rows
    found["torn"] += int((cycles != batch["cycle_end"]).sum())
    found["disorder"] += int((np.diff(cycles) != 1).sum()) + int(cycles[0] <= last)
    found["gaps"] += dropped > found["dropped"]
    found["behind"] = max(found["behind"], rows + follower.waiting)
    found["dropped"], last = dropped, int(cycles[-1])
found["seen"] = follower.position
print(json.dumps(found))
"""


def follow(
    minutes: float, file: Path = CELL
) -> tuple[dict[str, Any], dict[str, list[list[float]]]]:
    """Run cell and follower; return record counts, and memory samples by process."""
    memory: dict[str, list[list[float]]] = {"loop": [], "follower": []}
    data = CellConfig.from_yaml(file).model_dump()
    data["cell"] |= {
        "name": f"follow_{os.getpid()}",
        "placement": "process",
    }  # unique on this machine
    with Cell(CellConfig.from_dict(data, str(file))) as cell:
        follower = subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, str(file), cell.records_path],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if follower.stdout is None or follower.stdout.readline() != "ready\n":
            raise RuntimeError("the follower did not start")
        begin = time.monotonic()
        with contextlib.suppress(KeyboardInterrupt):
            while time.monotonic() < begin + 60 * minutes and follower.poll() is None:
                time.sleep(1.0)
                cell.check()
                if time.monotonic() > begin + WARM_UP:
                    memory["loop"].append(sample(cell.loop_pid))
                    memory["follower"].append(sample(follower.pid))
        seconds, count = time.monotonic() - begin, int(cell.latest_record()["cycle"])
        missed = int(cell.latest_record()["missed_cycles"])
    answer, _ = follower.communicate(timeout=30.0)
    found = json.loads(answer) | {"seconds": seconds, "cycles": count, "missed": missed}
    return found, memory


def main() -> int:
    """Print the table; return 1 if records are lost uncounted or torn, or memory has grown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=duration, default=60.0, help="default 60")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    options = parser.parse_args()
    try:
        found, memory = follow(options.minutes)
    except (LoopError, RuntimeError) as error:
        parser.exit(2, f"follow.py: {error}\n")
    uncounted = found["seen"] - found["first"] - found["rows"] - found["dropped"]
    is_bad = bool(uncounted or found["torn"] or found["disorder"])
    print("| quantity | |")
    print("|---|---|")
    print(f"| time | {found['seconds'] / 60:.1f} min |")
    print(f"| records read | {found['rows']} |")
    print(f"| dropped and counted | {found['dropped']} in {found['gaps']} gaps |")
    print(f"| lost but not counted | {uncounted} |")
    print(f"| torn, out of order | {found['torn']}, {found['disorder']} |")
    print(f"| max records behind | {found['behind']} |")
    print(f"| missed cycles of the loop | {found['missed']} |")
    for name, rows in memory.items():
        values = np.array(rows)
        if len(values) < 10:
            continue
        increase = growth(values)
        is_bad |= bool(increase[0] > ALLOWED)
        print(f"| {name}: {COLUMNS[0]} | {values[0, 0]:.2f} to {values[-1, 0]:.2f}, "
              f"growth {increase[0]:+.2f} |")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps({"found": found, "memory": memory}))
    return int(is_bad)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
