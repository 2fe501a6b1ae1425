# SPDX-License-Identifier: Apache-2.0
"""The rows of a cell that runs, as logs, piece by piece."""

from __future__ import annotations

import json
import os
from pathlib import Path

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.logs.from_rows import arm_facts, arm_logs
from multipanda_py.logs.plan import CELL_FILE, CellPlan
from multipanda_py.logs.running import find_running
from multipanda_py.loop.row_reader import RowReader


class LiveRows:
    """Read along with a cell of this user on this machine; its loop does not notice.

    Args:
        name: Of the cell; empty for the only one that runs.

    Attributes:
        plan: What the cell says of itself.
        config: The cell as it runs.

    Raises:
        LoopError: If none runs, or there are several and none is named.
        UnknownName: If there is none of this name.

    Thread: one at a time.
    """

    def __init__(self, name: str = "") -> None:
        self.plan: CellPlan
        self._memory: Path
        self.plan, self._memory = find_running(name)
        self.config = CellConfig.from_dict(json.loads(self.plan.attachments[CELL_FILE]))
        fd = os.open(self._memory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            ring, _ = self.plan.place.open(
                fd, [arm.name for arm in self.plan.arms], self.plan.laws
            )
        finally:
            os.close(fd)  # the mapping stays
        self._reader = RowReader(ring)
        self._facts = arm_facts(self.config)

    @property
    def is_there(self) -> bool:
        """Whether the cell has not ended."""
        return self._memory.exists()

    @property
    def dropped(self) -> int:
        """Rows that this process had no time for."""
        return self._reader.dropped

    def take(self) -> dict[str, ArmLog]:
        """Return what the arms did since the last call, by name; empty if that is nothing."""
        rows = self._reader.take()
        return arm_logs(rows, self._facts, self.plan.laws) if len(rows) else {}
