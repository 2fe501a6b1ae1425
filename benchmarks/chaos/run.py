# SPDX-License-Identifier: Apache-2.0
"""Inject faults and inputs into the node, and count violated rules (`make chaos`).

A watcher that shares no code with the project checks the rules of doc/faults.md. The default
takes 40 minutes at a load average of 14 on two cores.

    .venv/bin/python benchmarks/chaos/run.py --seed 7 --faults 200 --inputs 10000

`--only crowd` connects many clients at the same time (`make crowd`). `--only soak` injects
nothing; it runs the node for a long time and reports growth of memory and the causes of late
cycles (`make soak`).

A campaign consists of parts. `--record FILE` stores the results of each part, so that an
interrupted campaign can continue. `--merge` adds the records of several campaigns.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
from campaign import Campaign
from crowd import crowd
from ledger import Ledger
from soak import soak
from stage import ROOT

sys.path.append(str(ROOT / "benchmarks"))

from parts.options import count_or_none, duration

PAGE = ROOT / "doc" / "faults.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
TIMES = {
    "stop": "`/stop` without other load",
    "stop under 1000 targets/s": "`/stop` under 1 000 targets/s",
    "stop under 50000 targets/s": "`/stop` under a flood (50 000 targets/s requested)",
    "error in /diagnostics": "`/diagnostics` at ERROR after SIGSTOP of the loop",
    "ListControllers": "`list_controllers`",
    "switch requests": "`switch_controller`, mostly rejected",
    "parameters set": "`set_parameters`",
    "error_recovery": "`left/error_recovery`",
    "after a large input": "`list_controllers`, right after a large input",
    "start on a busy machine": "start until active, 6 busy processes on two cores",
    "stop on a busy machine": "`/stop` with 6 busy processes on two cores",
    "stop of a deaf node": "`/stop` of an unresponsive node",
    "error in /diagnostics of a deaf node": "`/diagnostics` at ERROR of an unresponsive node",
    "a deaf node can be reached again": "first answer of an unresponsive node",
    "check of a cell file": "`multipanda check`, per file",
}


def main() -> int:
    """Run a campaign; return 1 after any failure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--faults", type=count_or_none, default=200, metavar="N")
    parser.add_argument("--inputs", type=count_or_none, default=10_000, metavar="N")
    parser.add_argument(
        "--minutes", type=duration, help="time limit [min] (60; soak: 30; crowd: 1)"
    )
    parser.add_argument("--only", choices=["soak", "crowd"], help="long run, or many clients")
    parser.add_argument(
        "--clients", type=int, default=50, metavar="N", help="number of clients of the crowd"
    )
    parser.add_argument(
        "--patience", type=float, default=1.0, help="maximum answer time for the crowd [s]"
    )
    parser.add_argument("--png", type=Path, help="plot of the soak")
    parser.add_argument(
        "--flood", type=float, default=5.0, help="length of a flood, 0 for none [s]"
    )
    parser.add_argument("--write", action="store_true", help="write the tables to doc/faults.md")
    parser.add_argument("--record", type=Path, help="file for the results; continue from it")
    parser.add_argument("--merge", type=Path, nargs="+", help="inject nothing, add these records")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        # The exception ends all started processes. In the background of a shell, SIGINT is
        # ignored, also by child processes, unless a handler is set.
        signal.signal(number, signal.default_int_handler)
    if options.only == "soak":
        return soak(options.minutes or 30.0, options.record, options.png)
    if options.only == "crowd":
        return crowd(options.clients, 60.0 * (options.minutes or 1.0), options.patience)
    for record in options.merge or ():
        if not record.is_file():
            parser.error(f"{record}: no such file. --record FILE writes one.")
    ledger = Ledger(0 if options.merge else options.faults + options.inputs)
    for file in options.merge or []:
        ledger.add(json.loads(file.read_text(encoding="utf-8"))["ledger"])
    if not options.merge:
        run_campaign(ledger, options)
    text = "\n".join([*ledger.rows(), "", *times(ledger)])
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(
            f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8"
        )
    print(*ledger.failures, sep="\n")
    return 1 if ledger.failures else 0


def run_campaign(ledger: Ledger, options: argparse.Namespace) -> None:
    """Run all parts that are not in the record."""
    done, record = [], options.record
    if record and record.exists():
        stored = json.loads(record.read_text(encoding="utf-8"))
        done = stored["done"]
        ledger.add(stored["ledger"])
    campaign = Campaign(ledger, options.seed, options.minutes or 60.0)
    try:
        for name, work in campaign.parts(options.faults, options.inputs, options.flood):
            if name in done or campaign.out_of_time:
                continue
            try:
                work()
            except Exception:
                ledger.fail("the campaign itself", traceback.format_exc()[-3000:])
            done.append(name)
            if record:
                stored = {"done": done, "ledger": ledger.to_json()}
                record.write_text(json.dumps(stored), encoding="utf-8")
    finally:
        campaign.close()


def times(ledger: Ledger) -> list[str]:
    """Return the table of response times in Markdown."""
    lines = ["| response time | number | median [ms] | 99 % [ms] | max [ms] |",
             "|---|---|---|---|---|"]  # fmt: skip
    for name, text in TIMES.items():
        if name in ledger.times:
            found = np.array(ledger.times[name]) * 1e3
            p50, p99 = np.percentile(found, [50, 99])
            lines.append(f"| {text} | {len(found)} | {p50:.1f} | {p99:.1f} | {found.max():.1f} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
