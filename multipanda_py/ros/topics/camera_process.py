# SPDX-License-Identifier: Apache-2.0
"""Process that publishes images of a cell's scene: start and stop."""

from __future__ import annotations

import contextlib
import json
import subprocess

from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.realtime.system.child_process import end_with_parent, ended, module_command

END_TIMEOUT = 5.0
"""Timeout for the end of the process [s]."""


class SceneCameras:
    """Cameras of a cell file, rendered by a separate process if there are any.

    Args:
        node: Node of the cell.
        cell: Started cell.

    Attributes:
        process: Process that renders; None without cameras.

    Thread: the main one, which keeps the processes that it starts alive.
    """

    def __init__(self, node: Node, cell: Cell) -> None:
        self._logger = node.get_logger()
        self.process: subprocess.Popen[bytes] | None = None
        if not cell.config.cameras:
            return
        fd = cell.mailbox_fd
        process = self.process = subprocess.Popen(
            module_command("multipanda_py.ros.topics.camera_node", str(fd), node.get_namespace()),
            stdin=subprocess.PIPE, pass_fds=(fd,), preexec_fn=end_with_parent,
            start_new_session=True,  # The owner handles Ctrl-C.
        )  # fmt: skip
        options = {
            "cell": json.loads(cell.config.model_dump_json()),
            "use_sim_time": bool(node.get_parameter("use_sim_time").value),
        }
        # A process that has ended reports the reason itself.
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.write(json.dumps(options).encode() + b"\n")
                process.stdin.flush()

    def check(self) -> None:
        """Warn once if the process was killed; the cell continues."""
        if self.process is None or self.process.poll() is None:
            return
        if self.process.returncode:
            self._logger.warning(
                f"images of the scene have stopped: their process ended with "
                f"{self.process.returncode}"
            )
        self.process = None

    def close(self) -> None:
        """End the process; safe to call twice."""
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.close()
        ended(process, END_TIMEOUT)
