# SPDX-License-Identifier: Apache-2.0
"""Record the seconds around every fault."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.recording.log import EventMessage, fault_name
from multipanda_py.realtime.recording.mcap_file import FileSink, utc
from multipanda_py.realtime.recording.topics import CellPlan, Rows
from multipanda_py.realtime.system.child_process import log_line
from multipanda_py.registry import needed

if TYPE_CHECKING:
    from multipanda_py.config.sections import RecorderConfig


FAULT_LOGS_VARIABLE = "MULTIPANDA_FAULT_LOGS"
"""Environment variable. The value ``off`` disables fault recordings for all cell files."""


def fault_folder(settings: RecorderConfig, cell: str) -> Path:
    """Return the folder of a cell's fault recordings, which may not exist yet.

    By default it is in the state folder of the XDG Base Directory Specification.
    """
    if settings.folder:
        return Path(settings.folder).expanduser() / cell
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return home / "multipanda" / cell


def records_faults(settings: RecorderConfig) -> bool:
    """Return True unless cell file or :data:`FAULT_LOGS_VARIABLE` disables fault recordings."""
    return settings.faults and os.environ.get(FAULT_LOGS_VARIABLE, "").lower() not in (
        "off",
        "0",
        "false",
    )


_NS_PER_SECOND = 1_000_000_000


class FaultSink:
    """Recorder that keeps the last seconds in memory, and writes a file around every fault.

    Args:
        plan: Description of the cell.
        dtype: Type of a cycle record.
        folder: Folder of the files, created with the first file.
        keep: Maximum number of files; the oldest are deleted.
        before: Recorded time before a fault [s].
        after: Recorded time after a fault [s].

    Attributes:
        files: Paths of the files so far, in order.
    """

    def __init__(
        self,
        plan: CellPlan,
        dtype: np.dtype[np.void],
        folder: Path,
        keep: int,
        before: float,
        after: float,
    ) -> None:
        self._plan, self._dtype, self._folder, self._keep = plan, dtype, folder, keep
        self.after = after
        self._before, self._after = int(before * _NS_PER_SECOND), int(after * _NS_PER_SECOND)
        library = needed("zstandard")
        self._pack, self._unpack = library.ZstdCompressor(level=1), library.ZstdDecompressor()
        self._ring: deque[tuple[bytes, NDArray[np.int64], Sequence[EventMessage]]] = deque()
        self._faults = np.zeros(len(plan.arms), np.int64)
        self._sink: FileSink | None = None
        self._until = 0
        self._complained = False
        self.files: list[Path] = []

    def add(
        self, rows: Rows, times: NDArray[np.int64], events: Sequence[EventMessage] = ()
    ) -> None:
        """Store cycle records in memory, and write those around a fault to a file.

        Args:
            rows: Cycle records in order, (n,).
            times: Time of each record since the epoch, (n,) [ns].
            events: Events of the loop during these records.
        """
        if not len(rows):
            return
        fault = rows["arms"]["fault"]
        is_new = (fault != 0) & (np.concatenate([self._faults[None], fault[:-1]]) == 0)
        self._faults = fault[-1].copy()
        if self._sink is not None and times[0] >= self._until:
            self._end()
        at = np.argwhere(is_new)
        if len(at):
            first, arm = at[0].tolist()
            self._start(int(times[first]), self._plan.arms[arm].name, int(fault[first, arm]))
            self._until = int(times[at[-1][0]]) + self._after
        self._write(rows, times, events)
        self._ring.append((self._pack.compress(rows.tobytes()), times, events))
        while self._ring and self._ring[0][1][-1] < times[-1] - self._before:
            self._ring.popleft()

    def keep_now(self, reason: str) -> None:
        """Write the last seconds to a file without a fault, unless a file is open already.

        Args:
            reason: Reason in one word, which becomes part of the file name.
        """
        if self._ring and self._sink is None:
            self._start(int(self._ring[-1][1][-1]), "cell", reason)

    def finish(self, end_metadata: dict[str, str] | None = None) -> None:
        """Complete and close an open file.

        Args:
            end_metadata: Metadata that are known only at the end, such as the number of lost
                records.
        """
        self._end(end_metadata)

    def give_up(self) -> None:
        """Close an open file without an index of its chunks, after a write error."""
        if self._sink is not None:
            self._sink.give_up()
            self._sink = None

    def _start(self, time: int, arm: str, fault: int | str) -> None:
        if self._sink is not None:
            return  # A further fault extends the current file.
        kind = fault if isinstance(fault, str) else fault_name(fault).replace(" ", "_")
        stem = f"{self._plan.name}_{utc(time):%Y%m%dT%H%M%S}_{arm}_{kind}"
        path = self._folder / f"{stem}.mcap"
        number = 2
        while path.exists():
            path = self._folder / f"{stem}_{number}.mcap"
            number += 1
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sink = FileSink(self._plan, self._dtype, path)
            self._until = time + self._after
            for packed, times, events in self._ring:
                raw = self._unpack.decompress(packed)
                rows = np.frombuffer(raw, self._dtype)
                inside = times >= time - self._before
                self._sink.add(rows[inside], times[inside], events)
        except OSError as error:
            self._report_write_error(error)

    def _write(self, rows: Rows, times: NDArray[np.int64], events: Sequence[EventMessage]) -> None:
        if self._sink is None:
            return
        inside = times <= self._until
        try:
            self._sink.add(rows[inside], times[inside], events)
        except OSError as error:
            self._report_write_error(error)

    def _end(self, end_metadata: dict[str, str] | None = None) -> None:
        sink, self._sink = self._sink, None
        if sink is None:
            return
        try:
            sink.finish(end_metadata or {})
            for path in sink.files:
                self.files.append(path)
                log_line(f"multipanda recorder: recording of a fault: {path}")
            self._drop_old()
        except OSError as error:
            self._report_write_error(error)

    def _drop_old(self) -> None:
        result = sorted(
            self._folder.glob(f"{self._plan.name}_*.mcap"), key=lambda path: path.stat().st_mtime
        )
        for path in result[: max(0, len(result) - self._keep)]:
            path.unlink(missing_ok=True)

    def _report_write_error(self, error: OSError) -> None:
        self.give_up()
        if not self._complained:
            self._complained = True
            log_line(
                f"multipanda recorder: recordings of faults of cell {self._plan.name!r} cannot be "
                f"written to {self._folder}: {error.strerror or error}. Set recorder.folder of "
                "the cell file to a writable folder"
            )
