# SPDX-License-Identifier: Apache-2.0
"""Files that a recorder writes one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.logs.chunk import ChunkMaker
from multipanda_py.logs.events_topic import EventMessage
from multipanda_py.logs.mcap_file import McapFile
from multipanda_py.logs.plan import CellPlan
from multipanda_py.logs.topics import Rows, topics_of

_SECOND = 1_000_000_000


class FileSink:
    """Write everything to a file, and go on in another one when it is large.

    Args:
        plan: The cell.
        dtype: Of its rows.
        path: Of the first file; the next ones are ``NAME_001.mcap`` and so on.
        split: Bytes after which a new one begins; 0: never.

    Attributes:
        files: Those begun so far.
        rows: Written so far.
        size: Bytes written so far, of files that are finished.

    Raises:
        OSError: If a file cannot be written, here and in all methods.
    """

    def __init__(
        self, plan: CellPlan, dtype: np.dtype[np.void], path: Path, split: int = 0
    ) -> None:
        self._plan, self._path, self._split = plan, path, split
        self._topics = topics_of(plan, dtype)
        self._maker = ChunkMaker(self._topics)
        self._file: McapFile | None = None
        self.files: list[Path] = []
        self.rows = self.size = 0

    def add(
        self, rows: Rows, times: NDArray[np.int64], events: Sequence[EventMessage] = ()
    ) -> None:
        """Write some rows as a chunk; see :meth:`.ChunkMaker.make`."""
        if not len(rows):
            return
        file = self.begin(int(times[0]))
        file.add(self._maker.make(rows, times, events))
        self.rows += len(rows)
        if self._split and file.size >= self._split:
            self.finish({})

    def finish(self, how_it_went: dict[str, str]) -> None:
        """End the file that is being written, if any."""
        file, self._file = self._file, None
        if file is not None:
            file.finish({**how_it_went, "rows": f"{self.rows}"})
            self.size += file.size

    def give_up(self) -> None:
        """Leave the file as it is: its disk takes no more."""
        file, self._file = self._file, None
        if file is not None:
            file.give_up()

    def begin(self, time: int) -> McapFile:
        """Return the file that is being written, begun if there is none.

        Args:
            time: Since the epoch [ns].
        """
        if self._file is not None:
            return self._file
        number = len(self.files)
        path = self._path
        if number:
            path = path.with_name(f"{path.stem}_{number:03d}{path.suffix}")
        about = {**self._plan.about, "begin": utc(time).isoformat(), "part": f"{number}"}
        self._file = McapFile(path, self._topics, self._plan.attachments, about, time)
        self.files.append(path)
        return self._file


def utc(time: int) -> datetime:
    """Return a time since the epoch [ns]."""
    return datetime.fromtimestamp(time / _SECOND, timezone.utc)
