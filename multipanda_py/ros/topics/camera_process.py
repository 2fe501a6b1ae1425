# SPDX-License-Identifier: Apache-2.0
"""Start the process that sends pictures of a cell's scene, and end it."""

from __future__ import annotations

import contextlib
import json
import subprocess

from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.realtime.system.child_process import end_with_parent, ended, module_command

END = 5.0
"""For the process to end [s]."""


class SceneCameras:
    """The cameras of a cell file, drawn by a process of its own; none without any.

    Args:
        node: Of the cell.
        cell: The started cell.

    Attributes:
        process: Process that draws; None if there is none.

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
            start_new_session=True,  # Ctrl-C is for the owner
        )  # fmt: skip
        told = {
            "cell": json.loads(cell.config.model_dump_json()),
            "use_sim_time": bool(node.get_parameter("use_sim_time").value),
        }
        with contextlib.suppress(BrokenPipeError):  # it says itself why it could not start
            if process.stdin is not None:
                process.stdin.write(json.dumps(told).encode() + b"\n")
                process.stdin.flush()

    def look(self) -> None:
        """Say once if the process was killed; the cell goes on."""
        if self.process is None or self.process.poll() is None:
            return
        if self.process.returncode:
            self._logger.warning(
                f"no pictures of the scene any more: their process ended by "
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
        ended(process, END)
