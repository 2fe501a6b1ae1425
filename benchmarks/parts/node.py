# SPDX-License-Identifier: Apache-2.0
"""Node in a separate process, and a client of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import rclpy
from controller_manager_msgs.srv import SwitchController
from diagnostic_msgs.msg import DiagnosticArray

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parents[1] / "config" / "dual_sim.yaml"


class Node:
    """Node process with a ROS client.

    Args:
        file: Cell file.
        overrides: Values of parameters in it, each as ``name:=value``.
    """

    def __init__(self, file: Path = CONFIG, *overrides: str) -> None:
        self.begin, self.file = time.monotonic(), file
        values = [f"cell.name:=benchmark_{os.getpid()}", *overrides]
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "multipanda_py.ros.node.node", "--ros-args"),
                *("--params-file", str(file)),
                *(part for value in values for part in ("-p", value)),
            ],
            stderr=subprocess.DEVNULL,
        )
        self.client = rclpy.create_node("benchmark_client")
        self.switcher = self.client.create_client(
            SwitchController, "controller_manager/switch_controller"
        )
        self.diagnostics: list[DiagnosticArray] = []
        self.client.create_subscription(
            DiagnosticArray, "/diagnostics", self.diagnostics.append, 10
        )
        if not self.switcher.wait_for_service(timeout_sec=60.0):
            raise TimeoutError("the node did not start within 60 s")
        self.start_to_active = time.monotonic() - self.begin
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        loops = [int(pid) for pid in children.read_text().split()]
        self.loop = next(
            pid
            for pid in loops
            if b"realtime.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        self.fd = self._find_shared_memory()

    def _find_shared_memory(self) -> str:
        for entry in Path(f"/proc/{self.loop}/fd").iterdir():
            if "memfd:multipanda" in str(os.readlink(entry)):
                return str(entry)
        raise FileNotFoundError("the loop has no shared memory of the cell")

    def close(self) -> None:
        """End the node."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)
        self.client.destroy_node()


class Rows:
    """Reader of the cycle records in the shared memory of the loop."""

    def __init__(self, node: Node) -> None:
        from multipanda_py.config.cell_file import CellConfig
        from multipanda_py.realtime.running_cell import RecordFollower

        self._follower = RecordFollower(CellConfig.from_yaml(node.file), node.fd)
        self._follower.take()

    @property
    def count(self) -> int:
        """Number of cycles so far."""
        return self._follower.position + self._follower.waiting

    def take(self, since: int) -> np.ndarray:  # type: ignore[type-arg]
        """Return copies of the cycle records from index ``since`` on."""
        self._follower.position = since
        return self._follower.take()
