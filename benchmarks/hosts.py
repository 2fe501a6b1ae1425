# SPDX-License-Identifier: Apache-2.0
"""Measure what cells on several hosts cost each other over DDS, on one machine.

    sudo .venv/bin/python benchmarks/hosts.py                  # two minutes
    sudo .venv/bin/python benchmarks/hosts.py --seconds 30 --json hosts.json

The hosts are namespaces of the kernel, joined by a switch (`parts/network.py`): their traffic is
that of two computers on a cable, their processor is shared. Two arms each under an impedance law,
a user per cell that sends target poses at 1 kHz per arm.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from parts.network import Network, why_not
from parts.options import duration

from multipanda_py.apps.bench.conditions import row_of_arms
from multipanda_py.apps.bench.node import SETTLE_TIME, START_TIMEOUT, BenchNode, stop_generator
from multipanda_py.apps.bench.processes import Child, UsageMeter, cores_of
from multipanda_py.apps.bench.report import not_measured, table
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.system.child_process import end_with_parent, module_command
from multipanda_py.realtime.system.dds import remove_leftovers

HERE = Path(__file__).resolve().parent
FINDER = HERE / "parts" / "finder.py"
FIND = 120.0
"""For a client to start and to find all cells [s]."""


@dataclass(frozen=True)
class Where:
    """Where a cell runs and its user.

    Attributes:
        cell: Host of the cell.
        user: Host of the user.
        domain: ROS domain of both.
        namespace: Of the cell.
    """

    cell: str
    user: str
    domain: int
    namespace: str


ONE, TWO = Where("first", "first", 51, "/one"), Where("first", "first", 51, "/two")
ARRANGEMENTS = {
    "one cell, its user beside it": [ONE],
    "one cell, its user on another host": [Where("first", "third", 51, "/one")],
    "two cells on a host, a domain each": [ONE, Where("first", "first", 52, "/two")],
    "two cells on a host, one domain": [ONE, TWO],
    "two cells on a host each, users on a third, one domain": [
        Where("first", "third", 51, "/one"),
        Where("second", "third", 51, "/two"),
    ],
}
PAIR = ("arm0=0", "arm1=0.7")
"""Arms of each cell, and where their bases are along y [m]."""
HOSTS = ("first", "second", "third")


def environment(domain: int) -> dict[str, str]:
    """Return what lets processes find those on other hosts."""
    return {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}


def cell_of(k: int, name: str = "") -> dict[str, Any]:
    """Return the file of a cell."""
    return {**row_of_arms(2, ()), "cell": {"name": name or f"hosts_{os.getpid()}_{k}"}}


def traffic(network: Network, seconds: float) -> tuple[float, float]:
    """Return what all hosts send together for some time: bytes and packets per second."""
    before, begun = [network.sent(host) for host in HOSTS], time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begun
    after = [network.sent(host) for host in HOSTS]
    more = [sum(b[k] - a[k] for a, b in zip(before, after)) / passed for k in (0, 1)]
    return more[0], more[1]


def found_after(network: Network, cells: Sequence[Where]) -> float:
    """Return how long a new client takes to have an answer of every cell of a domain [s].

    Raises:
        BenchError: If it does not.
    """
    slowest = 0.0
    for domain in sorted({one.domain for one in cells}):
        here = [one for one in cells if one.domain == domain]
        done = subprocess.run(
            [*network.enter(here[0].user), sys.executable, str(FINDER),
             *(one.namespace for one in here)],
            env=os.environ | environment(domain), timeout=FIND, check=False,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if done.returncode:
            raise BenchError("a client does not find all cells")
        slowest = max(slowest, float(done.stdout))
    return slowest


def measure(
    network: Network, cells: Sequence[Where], seconds: float, folder: Path
) -> dict[str, Any]:
    """Return the figures of an arrangement, or its ``trouble``."""
    try:
        with contextlib.ExitStack() as stack:
            nodes = [
                stack.enter_context(
                    BenchNode(cell_of(k), folder, environment(one.domain), one.namespace,
                              network.enter(one.cell))
                )
                for k, one in enumerate(cells)
            ]  # fmt: skip
            time.sleep(SETTLE_TIME)
            found = found_after(network, cells)
            quiet = traffic(network, seconds)
            users = [
                stack.enter_context(
                    Child("multipanda_py.ros.client.motion_generator", *PAIR, "--each",
                          "--namespace", one.namespace, environment=environment(one.domain),
                          through=network.enter(one.user))
                )
                for one in cells
            ]  # fmt: skip
            for user in users:
                user.wait_until_ready(START_TIMEOUT)
            time.sleep(SETTLE_TIME)
            meters = [UsageMeter(node.pids) for node in nodes]
            busy = traffic(network, seconds)
            usage = [{"processes": [asdict(p) for p in meter.read()]} for meter in meters]
            for node in nodes:
                node.check()
            rates = [len(PAIR) * stop_generator(user) for user in users]
    except BenchError as error:
        return {"trouble": f"{error}"}
    cores = {
        name: [cores_of(one, name) for one in usage]
        for name in ("ros.node.node", "realtime.process")
    }
    return {"found_s": found, "quiet": quiet, "busy": busy, "cores": cores, "targets": rates}


def same_names(network: Network, folder: Path) -> str:
    """Return what the log of a second cell of the same names on another host says at last."""
    name = f"hosts_{os.getpid()}_same"
    log, active = folder / "second.log", f"cell {name!r} is active"
    with BenchNode(cell_of(0, name), folder, environment(51), "", network.enter("first")):
        command = module_command(
            "multipanda_py.ros.node.node",
            "--ros-args",
            "--params-file",
            str(folder / f"{name}.yaml"),
        )
        with log.open("wb") as output:
            second = subprocess.Popen(
                [*network.enter("second"), *command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env=os.environ | environment(51),
                start_new_session=True, preexec_fn=end_with_parent,
            )  # fmt: skip
        try:
            deadline = time.monotonic() + START_TIMEOUT
            while second.poll() is None and active not in log.read_text("utf-8"):
                if time.monotonic() > deadline:
                    return f"neither active nor refused within {START_TIMEOUT:g} s"
                time.sleep(0.1)
            if second.poll() is None:
                return "it starts beside the first, and both answer"
            return f"it is refused: {log.read_text('utf-8').strip().splitlines()[-1]}"
        finally:
            second.terminate()
            second.wait()


def lines(figures: dict[str, dict[str, Any]]) -> str:
    """Return the figures in Markdown."""
    rows = []
    for how, found in figures.items():
        if "trouble" in found:
            rows.append([how, not_measured(found), *[""] * 5])
            continue
        (quiet, _), (busy, packets) = found["quiet"], found["busy"]
        rows.append([
            how, *(" / ".join(f"{v:.2f}" for v in cores) for cores in found["cores"].values()),
            f"{sum(found['targets']):.0f}", f"{found['found_s']:.2f}",
            f"{quiet / 1e3:.1f}", f"{busy / 1e3:.0f} ({packets:.0f})",
        ])  # fmt: skip
    return table(
        ("", "ROS process of each cell [cores]", "loop of each [cores]", "targets [1/s]",
         "a client finds all [s]", "wire, no user [kB/s]",
         "wire, with targets [kB/s] (packets/s)"),
        rows,
    )  # fmt: skip


def main() -> int:
    """Measure every arrangement and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=duration, default=10.0, help="of each measurement")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what was started, too
    figures = {}
    with Network(*HOSTS) as network, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for how, cells in ARRANGEMENTS.items():
            sys.stderr.write(f"measuring {how}\n")
            figures[how] = measure(network, cells, options.seconds, folder)
        sys.stderr.write("starting a second cell of the same names on another host\n")
        second = same_names(network, folder)
    remove_leftovers()
    sys.stdout.write(f"{lines(figures)}\n\nA second cell of the same names: {second}\n")
    if options.json:
        kept = {"load": os.getloadavg(), "figures": figures, "same_names": second}
        options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
