# SPDX-License-Identifier: Apache-2.0
"""Run the node for long, with targets and switches, and see whether anything grows.

Two simulated arms follow small circles that another process streams at 100 Hz; laws are switched
now and then. Once a second the memory, descriptors and threads of each process of the node are
read from /proc, and what they have in /dev/shm. Anonymous memory is judged: what is shared with
other programs depends on what else runs.

    .venv/bin/python benchmarks/soak.py --minutes 30 --png soak.png
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from parts.options import duration

ROOT = Path(__file__).resolve().parents[1]
CELL = ROOT / "config" / "dual_sim.yaml"
ALLOWED = 2.0  # growth of a process's memory after the warm-up [MiB]
WARM_UP = 0.2  # of the time
COLUMNS = ("memory [MiB]", "resident [MiB]", "descriptors", "threads", "shared [MiB]")

USER = """
import sys, time
import numpy as np
import rclpy
from controller_manager_msgs.srv import ListControllers, SwitchController
from geometry_msgs.msg import PoseStamped

rclpy.init()
node = rclpy.create_node("soak_user")
arms, boxes, publishers = ("left", "right"), {}, {}
for arm in arms:
    boxes[arm] = []
    node.create_subscription(PoseStamped, f"/{arm}/current_pose", boxes[arm].append, 1)
    publishers[arm] = node.create_publisher(PoseStamped, f"/{arm}/target_pose", 1)
switch = node.create_client(SwitchController, "/controller_manager/switch_controller")
lister = node.create_client(ListControllers, "/controller_manager/list_controllers")
while not all(boxes.values()) or not switch.service_is_ready():
    rclpy.spin_once(node, timeout_sec=0.1)
home = {arm: boxes[arm][0] for arm in arms}
laws = [[f"{arm}/{law}" for arm in arms]
        for law in ("joint_impedance_controller", "cartesian_impedance_controller")]
begun, ticks = time.monotonic(), 0
while True:
    ticks += 1
    now = ticks * 0.01
    while time.monotonic() - begun < now:
        rclpy.spin_once(node, timeout_sec=max(0.0, begun + now - time.monotonic()))
    for arm in arms:
        boxes[arm].clear()
        message = PoseStamped(pose=home[arm].pose)
        message.header.frame_id = home[arm].header.frame_id
        z = home[arm].pose.position.z
        message.pose.position.z = z + 0.02 * (1.0 - np.cos(now))
        publishers[arm].publish(message)
        message.pose.position.z = z
    if ticks % 3000 == 0:
        for names in laws:
            switch.call_async(SwitchController.Request(activate_controllers=names, strictness=4))
    if ticks % 100 == 0:
        lister.call_async(ListControllers.Request())
"""


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(other for child in children for other in family(int(child)))]


def sample(pid: int) -> list[float]:
    """Return the figures of a process, in the order of COLUMNS."""
    folder = Path(f"/proc/{pid}")
    rollup = (folder / "smaps_rollup").read_text()
    sizes = {key: int(kib) / 1024 for key, kib in re.findall(r"(\w+):\s+(\d+) kB", rollup)}
    names = set(re.findall(r"/dev/shm/\S+", (folder / "maps").read_text()))
    shared = sum(os.stat(name).st_size for name in names if os.path.exists(name)) / 2**20
    descriptors = len(os.listdir(folder / "fd"))
    threads = len(os.listdir(folder / "task"))
    return [sizes["Anonymous"], sizes["Rss"], descriptors, threads, shared]


def name_of(pid: int) -> str:
    """Return the module that a process runs."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return next((word for word in words if word.startswith("multipanda_py.")), words[0])


def growth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much figures of (n, columns) are larger at the end than after the warm-up."""
    kept = values[int(WARM_UP * len(values)) :]
    tenth = max(len(kept) // 10, 1)
    found: NDArray[np.float64] = np.median(kept[-tenth:], 0) - np.median(kept[:tenth], 0)
    return found


def soak(minutes: float) -> tuple[dict[str, list[list[float]]], str]:
    """Run the node; return its figures by process and second, and what went wrong."""
    figures: dict[str, list[list[float]]] = {}
    environment = os.environ | {
        "ROS_DOMAIN_ID": str(1 + os.getpid() % 100), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    with tempfile.TemporaryFile("w+") as log:
        node = subprocess.Popen(
            [sys.executable, "-P", "-m", "multipanda_py.ros.node", "--ros-args", "--params-file",
             str(CELL), "-p", f"cell.name:=soak_{os.getpid()}"],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        user = subprocess.Popen([sys.executable, "-c", USER], env=environment)
        trouble = ""
        try:
            for second in range(round(60 * minutes)):
                time.sleep(1.0)
                if node.poll() is not None or user.poll() is not None:
                    trouble = f"ended after {second} s: {node.poll()}, user {user.poll()}"
                    break
                for pid in family(node.pid) if second > 10 else []:
                    with contextlib.suppress(OSError):  # it may end just now
                        figures.setdefault(name_of(pid), []).append(sample(pid))
        finally:
            user.kill()
            node.send_signal(signal.SIGINT)
            code = node.wait(20.0)
            user.wait()
        if code:
            log.seek(0)
            trouble += f"; exit code {code}: {log.read()[-2000:]}"
    return figures, trouble


def plot(figures: dict[str, list[list[float]]], file: Path) -> None:
    """Draw memory over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(8, 6))
    for name, rows in figures.items():
        values = np.array(rows)
        minutes = np.arange(len(values)) / 60
        upper.plot(minutes, values[:, 0], label=name)
        lower.plot(minutes, values[:, 2], label=f"{name}: descriptors")
        lower.plot(minutes, values[:, 3], "--", label=f"{name}: threads")
    upper.set_ylabel("anonymous memory [MiB]")
    lower.set_xlabel("time [min]")
    upper.legend()
    lower.legend(fontsize="small")
    plt.savefig(file, dpi=120)


def main() -> int:
    """Soak, print the table, and return 1 if anything has grown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=duration, default=30.0)
    parser.add_argument("--png", type=Path, help="draw it")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    figures, trouble = soak(options.minutes)
    grown = bool(trouble) or not figures
    print("| process | figure | after the warm-up | at the end | largest | growth |")
    print("|---|---|---|---|---|---|")
    for name, rows in figures.items():
        values = np.array(rows)
        more = growth(values)
        last = np.median(values[-max(len(values) // 10, 1) :], 0)
        for column, title in enumerate(COLUMNS):
            first, largest = last[column] - more[column], values[:, column].max()
            print(f"| {name} | {title} | {first:.2f} | {last[column]:.2f} | {largest:.2f} "
                  f"| {more[column]:+.2f} |")  # fmt: skip
        grown |= bool(more[0] > ALLOWED or (more[2:4] > 0).any() or more[4] > ALLOWED)
    if options.json:
        options.json.write_text(json.dumps(figures))
    if options.png and figures:
        plot(figures, options.png)
    print(trouble or ("something has grown" if grown else "flat"))
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
