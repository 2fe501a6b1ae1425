# SPDX-License-Identifier: Apache-2.0
"""What the panel costs the loop, how often pages see arms move, and how soon a drag moves one.

.venv/bin/python benchmarks/panel.py                         # four arms in real time, a minute
.venv/bin/python benchmarks/panel.py --rounds 5 --seconds 20
.venv/bin/python benchmarks/panel.py --node                  # and then of a node, as its client

Rounds without a panel take turns with rounds in which a page, in a process of its own, drags all
arms up and down. Needs the extra ``panel``.
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

LAW = "cartesian_impedance_controller"
BROWSER_PERIOD = 0.05
"""Between two words of viser's page in a drag [s]."""
SWING, TURN_TIME = 0.03, 2.0
"""How far the tools go up and down [m], and how long that takes [s]."""
STEP = 0.03
"""Of a drag whose beginning is timed [m]."""
MOVED = (1e-5, 1e-4)
"""What counts as motion [m]: a law that smooths its target needs 41 and 67 ms for it by itself."""


def look_on(address: str, pipe: Any) -> None:
    """Be a page: do what is asked for through the pipe."""
    page = PanelPage(address)
    until(lambda: page.find("Take command"), "the page is there")
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
            until(lambda arm=arm: _times(page, f"{arm}_"), "the page sees it move")
            pipe.send(_times(page, f"{arm}_")[0])
            page.let_go(arm)
    page.close()


def _swing(page: PanelPage, places: dict[str, Any], seconds: float) -> dict[str, float]:
    """Drag all arms up and down; return how often a page was told of each [Hz]."""
    page.received.clear()
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        up = SWING * math.sin(2.0 * math.pi * passed / TURN_TIME)
        for arm, (position, wxyz) in places.items():
            page.drag(arm, (*position[:2], position[2] + up), wxyz)
        time.sleep(BROWSER_PERIOD)
    for arm in places:
        page.let_go(arm)
    rates = {}
    for arm in places:
        pictures = np.unique(np.round(_times(page, f"{arm}_"), 3))
        rates[arm] = int((np.diff(pictures) > 0.01).sum()) / seconds
    return rates


def _times(page: PanelPage, arm: str) -> list[float]:
    return [
        when for kind, name, when in list(page.received)
        if kind in ("SetPositionMessage", "SetOrientationMessage") and f"/cell/{arm}" in name
    ]  # fmt: skip


class Rows:
    """What a cell of this machine records, by its own handle or beside that of a node."""

    def __init__(self, cell: Any) -> None:
        if isinstance(cell, Cell):
            self.take = cell.follow_records().take
            return
        plan, memory = find_running(cell.config.cell.name)
        fd = os.open(memory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            ring, _ = plan.records.open(fd, [arm.name for arm in plan.arms], plan.laws)
        finally:
            os.close(fd)  # the mapping stays
        self.take = RecordReader(ring).take


class Lateness:
    """Collects how late cycles begin, before the ring forgets them."""

    def __init__(self, cell: Any) -> None:
        self._follower = Rows(cell)
        self._late: list[Any] = []
        self._last = time.monotonic()

    def look(self) -> None:
        """Take what has come, twice a second."""
        if (now := time.monotonic()) > self._last + 0.5:
            self._last = now
            rows = self._follower.take()
            self._late.append((rows["wake_ns"] - rows["deadline_ns"]) * 1e-3)

    def percentiles(self) -> tuple[float, float]:
        """Return p50 and p99 [us]."""
        low, high = np.percentile(np.concatenate(self._late), [50, 99])
        return float(low), float(high)


def work_until(panel: CellPanel, pipe: Any, late: Lateness | None = None) -> Any:
    """Keep the page up to date until the viewer has answered; return its answer."""
    while not pipe.poll():
        panel.session.cell.check()
        panel.work()
        if late is not None:
            late.look()
        panel.wait()
    return pipe.recv()


def places_in_world(cell: Any) -> dict[str, Any]:
    """Return where every tool is, and how it is turned: position and w x y z."""
    found = {}
    for arm in cell.arms:
        pose = cell.frames.world_from(cell.frames.base_of(arm)) @ cell.pose(arm)
        found[arm] = pose.position.tolist(), np.roll(pose.quaternion_xyzw, 1).tolist()
    return found


def drag_to_motion(cell: Any, panel: CellPanel, pipe: Any, arm: str) -> list[float]:
    """Return the time from a drag's first word to motion of the tool, and to its picture [s]."""
    ends = time.monotonic() + 2.0  # until it rests
    while time.monotonic() < ends:
        panel.session.cell.check()
        panel.work()
        panel.wait()
    (position, wxyz), height = places_in_world(cell)[arm], cell.pose(arm).position[2]
    side = -1.0 if height > 0.45 else 1.0
    follower = Rows(cell)
    pipe.send(("step", arm, (*position[:2], position[2] + side * STEP), wxyz))
    sent = work_until(panel, pipe)
    reported = work_until(panel, pipe)
    ends = time.monotonic() + 0.15
    while time.monotonic() < ends:
        panel.session.cell.check()
        panel.work()
        panel.wait()
    rows = follower.take()
    tool = rows["arms"]["position_ee_in_base"][:, list(cell.arms).index(arm), 2]
    times = rows["wake_ns"] * 1e-9 - sent
    moved = [float(times[(np.abs(tool - height) > far) & (times > 0.0)][0]) for far in MOVED]
    return [*moved, reported - sent]


@contextlib.contextmanager
def running(config: CellConfig, file: str, as_node: bool) -> Iterator[Any]:
    """Run a cell, or a node and be its client; with a law that takes poses on every arm."""
    laws = [f"{arm}/{LAW}" for arm in config.arms]
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
    """Measure one kind of panel, and write what was found."""
    spawn = multiprocessing.get_context("spawn")
    with running(config, options.cell, as_node) as cell:
        os.sched_setaffinity(0, other_cpus(config.realtime))
        found: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
        rates: list[float] = []
        drags: list[list[float]] = []
        work = 0.0
        for number in range(options.rounds):
            late = Lateness(cell)
            ends = time.monotonic() + options.seconds
            while time.monotonic() < ends:
                late.look()
                time.sleep(0.05)
            found["without"].append(late.percentiles())
            pipe, end = spawn.Pipe()
            with CellPanel(cell, port=0) as panel:
                viewer = spawn.Process(target=look_on, args=(panel.address, end))
                viewer.start()
                work_until(panel, pipe)
                late, before = Lateness(cell), time.thread_time()
                pipe.send(("swing", places_in_world(cell), options.seconds))
                rates += work_until(panel, pipe, late).values()
                work += (time.thread_time() - before) / options.seconds / options.rounds
                found["with"].append(late.percentiles())
                drags += [
                    drag_to_motion(cell, panel, pipe, cell.arms[0])
                    for _ in range(options.drags if number == options.rounds - 1 else 0)
                ]
                pipe.send(("end",))
                viewer.join()
    print("\nas a client of a node" if as_node else "\non a cell of its own")
    for name, rounds in found.items():
        each = "; ".join(f"{low:.0f}, {high:.0f}" for low, high in rounds)
        print(f"lateness p50, p99 {name} panel [us], by round: {each}")
    print(f"pictures of an arm at the page: {min(rates):.1f} to {max(rates):.1f} Hz")
    print(f"the panel's thread: {100.0 * work:.0f} % of a core")
    tool = [f"the tool has moved {1e3 * far:g} mm" for far in MOVED]
    for what, times in zip((*tool, "the page sees it"), zip(*drags)):
        low, high = np.percentile(times, [50, 95])
        print(f"drag until {what}: median {low * 1e3:.1f} ms, p95 {high * 1e3:.1f} ms")
    sys.stdout.flush()


def main() -> int:
    """Measure, and write a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cell", default=str(ROOT / "config" / "quad_sim.yaml"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of every round")
    parser.add_argument("--drags", type=int, default=20)
    parser.add_argument(
        "--node", action="store_true", help="also as a client of a node, which is run beside it"
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
