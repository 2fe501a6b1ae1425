# SPDX-License-Identifier: Apache-2.0
"""The handle of a cell: what notebooks, tests, the command line and ROS hold on to."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType

from multipanda_py.cell.grippers import CellGrippers
from multipanda_py.cell.pending_switch import PendingSwitch, SwitchResult
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.cell.switching import ControlletInfo
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import LoopError
from multipanda_py.loop.mailbox import Mailbox
from multipanda_py.loop.runner import HEARTBEAT_PERIOD, InlineRunner, ProcessRunner, ThreadRunner
from multipanda_py.machine.lock import CellLock
from multipanda_py.pose import Pose

__all__ = ["Cell", "ControlletInfo", "PendingSwitch", "Pose", "Strictness", "SwitchResult"]


class Cell(CellGrippers):
    """Own a cell: start its loop, ask things of it, and end it.

    Args:
        config: The checked cell file.

    Attributes:
        warnings: What the machine refused the loop at its start, in sentences.

    Example::

        with Cell.from_yaml("config/dual_sim.yaml") as cell:
            cell.switch(["left/cartesian_impedance_controller"], strictness="force_auto")
            cell.set_target("left", cell.pose("left"))
    """

    def __init__(self, config: CellConfig) -> None:
        super().__init__(config)
        self.warnings: list[str] = []
        self._file_lock: CellLock | None = None
        self._viewer: subprocess.Popen[bytes] | None = None

    @classmethod
    def from_yaml(cls, path: str | Path, *, placement: str | None = None) -> Cell:
        """Make a cell from its file, which is checked as a whole.

        Args:
            path: The cell file.
            placement: ``process``, ``thread`` or ``inline`` instead of the file's choice.

        Raises:
            ConfigurationError: With every fault of the file.
        """
        config = CellConfig.from_yaml(path)
        if placement is not None:
            data = config.model_dump()
            data["cell"]["placement"] = placement
            config = CellConfig.from_dict(data, str(path))
        return cls(config)

    def __enter__(self) -> Cell:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the loop, with the configured controllets active.

        Raises:
            CellBusy: If this cell is running already.
            LoopError: If the loop cannot start.
        """
        if self._runner is not None:
            raise LoopError("the cell is started already")
        placement = self.config.cell.placement
        if placement != "inline":
            self._file_lock = CellLock(self.config.cell.name)
        self._mailbox = Mailbox(self.config, self.specs)
        arguments = (self.config, self.specs, self._mailbox)
        if placement == "process" and self._file_lock is not None:
            self._runner = ProcessRunner(*arguments, inherited=[self._file_lock.fd])
        else:
            self._runner = (InlineRunner if placement == "inline" else ThreadRunner)(*arguments)
        self._closing = threading.Event()
        self._by_hand = False
        try:
            self.warnings = self._runner.start()
        except BaseException:
            self.close()
            raise
        self._started_ns = time.monotonic_ns()
        if placement != "inline":
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        self._connect_grippers()
        if self.config.cell.viewer:
            from multipanda_py.view.viewer import start_viewer

            self._viewer = start_viewer(self)

    def close(self) -> None:
        """End the loop and everything that belongs to it; safe to call twice."""
        if self._viewer is not None:
            from multipanda_py.view.viewer import stop_viewer

            stop_viewer(self._viewer)
            self._viewer = None
        self._close_grippers()
        if self._runner is not None:
            self._closing.set()
            self._runner.stop()
            self._runner = None
        if self._file_lock is not None:
            self._file_lock.release()
            self._file_lock = None
        if self._mailbox is not None:
            os.close(self._mailbox.fd)
            self._mailbox = None

    def beat_by_hand(self) -> None:
        """Leave the heartbeat to :meth:`beat`, so that the loop notices when nobody calls it."""
        self._by_hand = True

    def beat(self) -> None:
        """Show the loop that this process is alive."""
        if self._runner is not None:
            self._runner.beat()

    def _beat(self) -> None:
        runner = self._runner
        while runner is not None and not self._closing.wait(HEARTBEAT_PERIOD):
            if self._by_hand:
                return
            runner.beat()

    @property
    def loop_pid(self) -> int:
        """Process id of the loop, or of this process when it has none of its own."""
        return self._runner.pid if isinstance(self._runner, ProcessRunner) else os.getpid()

    def check(self) -> None:
        """Raise :class:`LoopError` if the loop is not running, and say why."""
        if self._runner is None:
            raise LoopError("the cell is not started")
        self._runner.check()
