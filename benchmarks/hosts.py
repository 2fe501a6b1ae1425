# SPDX-License-Identifier: Apache-2.0
"""Processor time and network load of cells on several emulated hosts.

    sudo .venv/bin/python benchmarks/hosts.py                  # two minutes
    sudo .venv/bin/python benchmarks/hosts.py --seconds 30 --json hosts.json

The hosts are network namespaces, joined by a switch (`parts/network.py`). Their traffic is that of
computers on a cable; they share one processor. Each cell has two arms under impedance control, and
a client that sends target poses to each arm at 1 kHz.
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
DISCOVERY_TIMEOUT = 120.0
"""Maximum time for a client to start and discover all cells [s]."""


@dataclass(frozen=True)
class CellHosts:
    """Hosts of a cell and its client.

    Attributes:
        cell: Host of the cell.
        client: Host of the client.
        domain: ROS domain of both.
        namespace: ROS namespace of the cell.
    """

    cell: str
    client: str
    domain: int
    namespace: str


ONE, TWO = CellHosts("first", "first", 51, "/one"), CellHosts("first", "first", 51, "/two")
ARRANGEMENTS = {
    "one cell, its user beside it": [ONE],
    "one cell, its user on another host": [CellHosts("first", "third", 51, "/one")],
    "two cells on a host, a domain each": [ONE, CellHosts("first", "first", 52, "/two")],
    "two cells on a host, one domain": [ONE, TWO],
    "two cells on a host each, users on a third, one domain": [
        CellHosts("first", "third", 51, "/one"),
        CellHosts("second", "third", 51, "/two"),
    ],
}
PAIR = ("arm0=0", "arm1=0.7")
"""Arms of each cell, with the y coordinates of their bases [m]."""
HOSTS = ("first", "second", "third")


def environment(domain: int) -> dict[str, str]:
    """Return environment variables that allow discovery of other hosts."""
    return {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}


def cell_of(k: int, name: str = "") -> dict[str, Any]:
    """Return the settings of a cell."""
    return {**row_of_arms(2, ()), "cell": {"name": name or f"hosts_{os.getpid()}_{k}"}}


def traffic(network: Network, seconds: float) -> tuple[float, float]:
    """Return bytes and packets per second that all hosts send together."""
    before, begun = [network.sent(host) for host in HOSTS], time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - begun
    after = [network.sent(host) for host in HOSTS]
    more = [sum(b[k] - a[k] for a, b in zip(before, after)) / elapsed for k in (0, 1)]
    return more[0], more[1]


def discovery_time(network: Network, cells: Sequence[CellHosts]) -> float:
    """Return the maximum time in which a new client gets answers of all cells of its domain [s].

    Raises:
        BenchError: If a client does not discover all cells.
    """
    slowest = 0.0
    for domain in sorted({one.domain for one in cells}):
        here = [one for one in cells if one.domain == domain]
        done = subprocess.run(
            [*network.enter(here[0].client), sys.executable, str(FINDER),
             *(one.namespace for one in here)],
            env=os.environ | environment(domain), timeout=DISCOVERY_TIMEOUT, check=False,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if done.returncode:
            raise BenchError("a client does not discover all cells")
        slowest = max(slowest, float(done.stdout))
    return slowest


def measure(
    network: Network, cells: Sequence[CellHosts], seconds: float, folder: Path
) -> dict[str, Any]:
    """Return the results of an arrangement, or the reason of its failure as ``trouble``."""
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
            found = discovery_time(network, cells)
            quiet = traffic(network, seconds)
            clients = [
                stack.enter_context(
                    Child("multipanda_py.ros.client.motion_generator", *PAIR, "--each",
                          "--namespace", one.namespace, environment=environment(one.domain),
                          through=network.enter(one.client))
                )
                for one in cells
            ]  # fmt: skip
            for client in clients:
                client.wait_until_ready(START_TIMEOUT)
            time.sleep(SETTLE_TIME)
            meters = [UsageMeter(node.pids) for node in nodes]
            busy = traffic(network, seconds)
            usage = [{"processes": [asdict(p) for p in meter.read()]} for meter in meters]
            for node in nodes:
                node.check()
            rates = [len(PAIR) * stop_generator(client) for client in clients]
    except BenchError as error:
        return {"trouble": f"{error}"}
    cores = {
        name: [cores_of(one, name) for one in usage]
        for name in ("ros.node.node", "realtime.process")
    }
    return {"found_s": found, "quiet": quiet, "busy": busy, "cores": cores, "targets": rates}


def same_names(network: Network, folder: Path) -> str:
    """Return the result of starting a second cell with the same names on another host."""
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
                    return f"neither active nor rejected within {START_TIMEOUT:g} s"
                time.sleep(0.1)
            if second.poll() is None:
                return "it starts, and both cells answer"
            return f"it is rejected: {log.read_text('utf-8').strip().splitlines()[-1]}"
        finally:
            second.terminate()
            second.wait()


def lines(figures: dict[str, dict[str, Any]]) -> str:
    """Return the results as a Markdown table."""
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
        ("", "ROS process of each cell [cores]", "loop of each cell [cores]", "targets [1/s]",
         "discovery by a client [s]", "network, no clients [kB/s]",
         "network, with targets [kB/s] (packets/s)"),
        rows,
    )  # fmt: skip


def main() -> int:
    """Measure every arrangement and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--seconds", type=duration, default=10.0, help="duration of each measurement"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # closes all contexts
    figures = {}
    with Network(*HOSTS) as network, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for how, cells in ARRANGEMENTS.items():
            sys.stderr.write(f"measuring {how}\n")
            figures[how] = measure(network, cells, options.seconds, folder)
        sys.stderr.write("starting a second cell with the same names on another host\n")
        second = same_names(network, folder)
    remove_leftovers()
    sys.stdout.write(f"{lines(figures)}\n\nA second cell with the same names: {second}\n")
    if options.json:
        results = {"load": os.getloadavg(), "figures": figures, "same_names": second}
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
