# SPDX-License-Identifier: Apache-2.0
"""Lateness of a loop due to the panel, update rate of pages, and delay of drags.

.venv/bin/python benchmarks/panel.py                         # four arms in real time, one minute
.venv/bin/python benchmarks/panel.py --rounds 5 --seconds 20
.venv/bin/python benchmarks/panel.py --node                  # also as a client of a node

Rounds without a panel alternate with rounds in which a page in another process drags all arms up
and down. Needs the extra ``panel``.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "test" / "helpers"))
from panel_page import PanelPage, until  # noqa: E402

from multipanda_py.apps.panel import CellPanel  # noqa: E402
from multipanda_py.cell import Cell  # noqa: E402
from multipanda_py.config.cell_file import CellConfig  # noqa: E402
from multipanda_py.realtime.cycle_record import RecordReader  # noqa: E402
from multipanda_py.realtime.running_cell import find_running  # noqa: E402
from multipanda_py.realtime.system.scheduling import other_cpus  # noqa: E402

CONTROLLET = "cartesian_impedance_controller"
BROWSER_PERIOD = 0.05
"""Time between two messages of a viser page during a drag [s]."""
SWING, PERIOD = 0.03, 2.0
"""Amplitude [m] and period [s] of the vertical motion of the tools."""
STEP = 0.03
"""Length of a drag whose delay is measured [m]."""
MOVED = (1e-5, 1e-4)
"""Distances that count as motion [m]. The controllet alone reaches them after 41 and 67 ms."""


def run_page(address: str, pipe: Any) -> None:
    """Run a page that executes the requests of a pipe."""
    page = PanelPage(address)
    until(lambda: page.find("Take command"), "connection of the page")
    page.use("Take command")
    pipe.send("ready")
    while (requested := pipe.recv())[0] != "end":
        if requested[0] == "swing":
            pipe.send(_swing(page, *requested[1:]))
        else:
            _, arm, position, wxyz = requested
            page.received.clear()
            pipe.send(time.monotonic())
            page.drag(arm, position, wxyz)
            until(lambda arm=arm: _times(page, f"{arm}_"), "motion at the page")
            pipe.send(_times(page, f"{arm}_")[0])
            page.let_go(arm)
    page.close()


def _swing(page: PanelPage, tools: dict[str, Any], seconds: float) -> dict[str, float]:
    """Drag all arms up and down; return the update rate of each arm at the page [Hz]."""
    page.received.clear()
    begin = time.monotonic()
    while (elapsed := time.monotonic() - begin) < seconds:
        up = SWING * math.sin(2.0 * math.pi * elapsed / PERIOD)
        for arm, (position, wxyz) in tools.items():
            page.drag(arm, (*position[:2], position[2] + up), wxyz)
        time.sleep(BROWSER_PERIOD)
    for arm in tools:
        page.let_go(arm)
    rates = {}
    for arm in tools:
        updates = np.unique(np.round(_times(page, f"{arm}_"), 3))
        rates[arm] = int((np.diff(updates) > 0.01).sum()) / seconds
    return rates


def _times(page: PanelPage, arm: str) -> list[float]:
    return [
        when for kind, name, when in list(page.received)
        if kind in ("SetPositionMessage", "SetOrientationMessage") and f"/cell/{arm}" in name
    ]  # fmt: skip


class Records:
    """Reader of the cycle records of a cell, or of the cell of a node on this machine."""

    def __init__(self, cell: Any) -> None:
        if isinstance(cell, Cell):
            self.take = cell.follow_records().take
            return
        plan, memory = find_running(cell.config.cell.name)
        fd = os.open(memory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            ring, _ = plan.records.open(fd, [arm.name for arm in plan.arms], plan.laws)
        finally:
            os.close(fd)  # the memory stays mapped
        self.take = RecordReader(ring).take


class Lateness:
    """Lateness of cycle starts, collected before the ring overwrites the records."""

    def __init__(self, cell: Any) -> None:
        self._follower = Records(cell)
        self._late: list[Any] = []
        self._last = time.monotonic()

    def read(self) -> None:
        """Read the new records if the last reading was 0.5 s ago."""
        if (now := time.monotonic()) > self._last + 0.5:
            self._last = now
            rows = self._follower.take()
            self._late.append((rows["wake_ns"] - rows["deadline_ns"]) * 1e-3)

    def percentiles(self) -> tuple[float, float]:
        """Return 50th and 99th percentile [us]."""
        low, high = np.percentile(np.concatenate(self._late), [50, 99])
        return float(low), float(high)


def update_until(panel: CellPanel, pipe: Any, late: Lateness | None = None) -> Any:
    """Update the page until its process answers; return the answer."""
    while not pipe.poll():
        panel.session.cell.check()
        panel.work()
        if late is not None:
            late.read()
        panel.wait()
    return pipe.recv()


def tools_in_world(cell: Any) -> dict[str, Any]:
    """Return position [m] and quaternion w x y z of each tool in the world, by arm."""
    found = {}
    for arm in cell.arms:
        pose = cell.frames.world_from(cell.frames.base_of(arm)) @ cell.pose(arm)
        found[arm] = pose.position.tolist(), np.roll(pose.quaternion_xyzw, 1).tolist()
    return found


def drag_to_motion(cell: Any, panel: CellPanel, pipe: Any, arm: str) -> list[float]:
    """Return times from the first message of a drag to tool motions and to their display [s]."""
    end_time = time.monotonic() + 2.0  # time to come to rest
    while time.monotonic() < end_time:
        panel.session.cell.check()
        panel.work()
        panel.wait()
    (position, wxyz), height = tools_in_world(cell)[arm], cell.pose(arm).position[2]
    side = -1.0 if height > 0.45 else 1.0
    follower = Records(cell)
    pipe.send(("step", arm, (*position[:2], position[2] + side * STEP), wxyz))
    sent = update_until(panel, pipe)
    displayed = update_until(panel, pipe)
    end_time = time.monotonic() + 0.15
    while time.monotonic() < end_time:
        panel.session.cell.check()
        panel.work()
        panel.wait()
    rows = follower.take()
    tool = rows["arms"]["position_ee_in_base"][:, list(cell.arms).index(arm), 2]
    times = rows["wake_ns"] * 1e-9 - sent
    moved = [
        float(times[(np.abs(tool - height) > distance) & (times > 0.0)][0]) for distance in MOVED
    ]
    return [*moved, displayed - sent]


@contextlib.contextmanager
def running(config: CellConfig, file: str, as_node: bool) -> Iterator[Any]:
    """Run a cell, or a node with a client; activate a controllet with pose targets on all arms."""
    laws = [f"{arm}/{CONTROLLET}" for arm in config.arms]
    if not as_node:
        with Cell(config) as cell:
            cell.switch(laws, strictness="force_auto", timeout=5.0)
            yield cell
        return
    from multipanda_py.ros.client.panel_cell import NodeCell

    command = [
        sys.executable,
        "-m",
        "multipanda_py.ros.node.node",
        "--ros-args",
        "--params-file",
        file,
    ]
    node = subprocess.Popen([*command, "-p", f"cell.name:={config.cell.name}"])
    try:
        with NodeCell() as cell:
            switch = cell.request_switch(laws, strictness="force_auto", timeout=5.0)
            while not switch.poll():
                time.sleep(0.01)
            yield cell
    finally:
        node.terminate()
        node.wait()


def measured(config: CellConfig, options: argparse.Namespace, as_node: bool) -> None:
    """Measure the panel of a cell or of a node, and print the results."""
    spawn = multiprocessing.get_context("spawn")
    with running(config, options.cell, as_node) as cell:
        os.sched_setaffinity(0, other_cpus(config.realtime))
        found: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
        rates: list[float] = []
        drags: list[list[float]] = []
        work = 0.0
        for number in range(options.rounds):
            late = Lateness(cell)
            end_time = time.monotonic() + options.seconds
            while time.monotonic() < end_time:
                late.read()
                time.sleep(0.05)
            found["without"].append(late.percentiles())
            pipe, end = spawn.Pipe()
            with CellPanel(cell, port=0) as panel:
                viewer = spawn.Process(target=run_page, args=(panel.address, end))
                viewer.start()
                update_until(panel, pipe)
                late, before = Lateness(cell), time.thread_time()
                pipe.send(("swing", tools_in_world(cell), options.seconds))
                rates += update_until(panel, pipe, late).values()
                work += (time.thread_time() - before) / options.seconds / options.rounds
                found["with"].append(late.percentiles())
                drags += [
                    drag_to_motion(cell, panel, pipe, cell.arms[0])
                    for _ in range(options.drags if number == options.rounds - 1 else 0)
                ]
                pipe.send(("end",))
                viewer.join()
    print("\nas a client of a node" if as_node else "\nwith an own cell")
    for name, rounds in found.items():
        each = "; ".join(f"{low:.0f}, {high:.0f}" for low, high in rounds)
        print(f"lateness p50, p99 {name} panel [us], for each round: {each}")
    print(f"updates of an arm at the page: {min(rates):.1f} to {max(rates):.1f} Hz")
    print(f"the panel's thread: {100.0 * work:.0f} % of a core")
    tool = [f"the tool has moved {1e3 * distance:g} mm" for distance in MOVED]
    for event, times in zip((*tool, "the page shows it"), zip(*drags)):
        low, high = np.percentile(times, [50, 95])
        print(f"drag until {event}: median {low * 1e3:.1f} ms, p95 {high * 1e3:.1f} ms")
    sys.stdout.flush()


def main() -> int:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cell", default=str(ROOT / "config" / "quad_sim.yaml"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="duration of each round")
    parser.add_argument("--drags", type=int, default=20)
    parser.add_argument(
        "--node", action="store_true", help="also measure the panel as a client of a node"
    )
    options = parser.parse_args()
    data = CellConfig.from_yaml(options.cell).model_dump()
    data["cell"]["name"] = f"panel_{os.getpid()}"
    config = CellConfig.from_dict(data)
    cpus = os.sched_getaffinity(0)
    for as_node in (False, True) if options.node else (False,):
        os.sched_setaffinity(0, cpus)
        measured(config, options, as_node)
    return 0


if __name__ == "__main__":
    sys.exit(main())
