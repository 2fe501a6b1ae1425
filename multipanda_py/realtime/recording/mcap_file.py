# SPDX-License-Identifier: Apache-2.0
"""Write MCAP files of cycle records, split by size."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.recording.log import EVENTS_TOPIC, EventMessage
from multipanda_py.realtime.recording.mcap_chunks import Chunk, ChunkMaker
from multipanda_py.realtime.recording.topics import CellPlan, Rows, Topic, topics_of
from multipanda_py.registry import VERSION, needed

_MAGIC = b"\x89MCAP0\r\n"


class McapFile:
    """Writer of an MCAP file in chunks. A chunk is readable as soon as it is written.

    The index of the chunks is written at the end. This package can also read a file without it;
    other tools need ``mcap recover`` first.

    Args:
        path: Path of the file, in an existing folder.
        topics: Topics in the order of :class:`.ChunkMaker`, without the topic of events, which is
            added at the end.
        attachments: Texts to attach, by file name.
        about: Metadata of the file.
        begin: Time of the first record, since the epoch [ns].

    Attributes:
        size: Number of bytes written so far.

    Raises:
        OSError: If the file cannot be written. All methods can raise it.
        LogError: If ``mcap`` is not installed.
    """

    def __init__(
        self,
        path: Path,
        topics: Sequence[Topic],
        attachments: Mapping[str, str],
        about: Mapping[str, str],
        begin: int,
    ) -> None:
        self._records = records = needed("mcap.records")
        self._builder = needed("mcap.data_stream").RecordBuilder()
        self._opcodes = needed("mcap.opcode").Opcode
        self.path, self.size = path, 0
        self._indexes: list[Any] = []
        self._counts: Counter[int] = Counter()
        self._times: list[int] = []
        self._attached: list[Any] = []
        self._about: list[Any] = []
        self._schemas, self._channels = [], []
        numbers: dict[str, int] = {}
        channels = [(topic.name, topic.layout.schema, topic.definition) for topic in topics]
        for number, (name, schema, text) in enumerate([*channels, EVENTS_TOPIC], start=1):
            if schema not in numbers:
                numbers[schema] = len(numbers) + 1
                self._schemas.append(
                    records.Schema(
                        id=numbers[schema], data=text.encode(), encoding="ros2msg", name=schema
                    )
                )
            self._channels.append(
                records.Channel(
                    id=number,
                    topic=name,
                    message_encoding="cdr",
                    metadata={},
                    schema_id=numbers[schema],
                )
            )
        # Only this user may read the log, because it shows how people work with the robot.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._stream = os.fdopen(os.open(path, flags, 0o600), "wb")
        with contextlib.suppress(PermissionError):  # Another user may own the file.
            os.fchmod(self._stream.fileno(), 0o600)  # An overwritten file keeps its old mode.
        self._put(_MAGIC)
        self._write(records.Header("ros2", f"multipanda_py {VERSION}"))
        self._write(*self._schemas, *self._channels)
        for file, content in attachments.items():
            self._attach(file, content, begin)
        self.write_metadata("multipanda_py", about)
        self._stream.flush()

    def add(self, chunk: Chunk) -> None:
        """Write a chunk and flush it, so that it survives a crash of this process."""
        start = self.size
        self._put(chunk.data)
        self._stream.flush()
        self._indexes.append(
            self._records.ChunkIndex(
                chunk_start_offset=start,
                chunk_length=chunk.chunk_length,
                compression="zstd",
                compressed_size=chunk.compressed,
                message_index_length=len(chunk.data) - chunk.chunk_length,
                message_index_offsets={k: start + at for k, at in chunk.index_offsets.items()},
                message_start_time=chunk.start_time,
                message_end_time=chunk.end,
                uncompressed_size=chunk.size,
            )
        )
        self._counts.update(chunk.counts)
        self._times += [chunk.start_time, chunk.end]

    def write_metadata(self, name: str, fields: Mapping[str, str]) -> None:
        """Write a metadata record."""
        record = self._records.Metadata(name=name, metadata=dict(fields))
        start = self.size
        self._write(record)
        self._about.append(self._records.MetadataIndex(start, self.size - start, name))

    def finish(self, end_metadata: Mapping[str, str] | None = None) -> Path:
        """Write the index of the chunks and close the file; return its path.

        Args:
            end_metadata: Metadata that are known only at the end, such as the number of lost
                records.
        """
        records = self._records
        if end_metadata:
            self.write_metadata("end", end_metadata)
        self._write(records.DataEnd(0))
        start = self.size
        times = self._times or [0]
        statistics = records.Statistics(
            attachment_count=len(self._attached),
            channel_count=len(self._channels),
            channel_message_counts=dict(self._counts),
            chunk_count=len(self._indexes),
            message_count=sum(self._counts.values()),
            message_end_time=max(times),
            message_start_time=min(times),
            metadata_count=len(self._about),
            schema_count=len(self._schemas),
        )
        codes = self._opcodes
        groups = (
            (codes.SCHEMA, self._schemas), (codes.CHANNEL, self._channels),
            (codes.STATISTICS, [statistics]), (codes.CHUNK_INDEX, self._indexes),
            (codes.ATTACHMENT_INDEX, self._attached), (codes.METADATA_INDEX, self._about),
        )  # fmt: skip
        offsets = []
        for code, group in groups:
            at = self.size
            self._write(*group)
            if group:
                offsets.append(records.SummaryOffset(code, at, self.size - at))
        offsets_at = self.size
        self._write(*offsets)
        self._write(records.Footer(start, offsets_at, 0))
        self._put(_MAGIC)
        self._stream.close()
        return self.path

    def give_up(self) -> None:
        """Close the file without the index of its chunks, after a write error."""
        with contextlib.suppress(OSError):  # A full disk raises the same error again.
            self._stream.close()

    def _attach(self, name: str, text: str, time: int) -> None:
        data, media = text.encode(), "text/plain"
        start = self.size
        self._write(self._records.Attachment(time, time, name, media, data))
        self._attached.append(
            self._records.AttachmentIndex(
                offset=start, length=self.size - start, create_time=time, log_time=time,
                data_size=len(data), name=name, media_type=media,
            )
        )  # fmt: skip

    def _write(self, *records: Any) -> None:
        for record in records:
            record.write(self._builder)
        self._put(self._builder.end())

    def _put(self, data: bytes) -> None:
        self._stream.write(data)
        self.size += len(data)


_NS_PER_SECOND = 1_000_000_000


class FileSink:
    """Writer of all cycle records to MCAP files. A new file begins at the size ``split``.

    Args:
        plan: Description of the cell.
        dtype: Type of a cycle record.
        path: Path of the first file; the next ones are ``NAME_001.mcap`` and so on.
        split: Size after which a new file begins [bytes]; 0 means never.

    Attributes:
        files: Paths of the files so far.
        rows: Number of records written so far.
        size: Size of the finished files [bytes].

    Raises:
        OSError: If a file cannot be written. All methods can raise it.
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
        """Write cycle records as a chunk to the current file.

        Args:
            rows: Cycle records in order, (n,).
            times: Time of each record since the epoch, (n,) [ns].
            events: Events of the loop during these records.
        """
        if not len(rows):
            return
        file = self.open_file(int(times[0]))
        file.add(self._maker.make(rows, times, events))
        self.rows += len(rows)
        if self._split and file.size >= self._split:
            self.finish({})

    def finish(self, end_metadata: dict[str, str]) -> None:
        """Complete and close an open file.

        Args:
            end_metadata: Metadata that are known only at the end, such as the number of lost
                records.
        """
        file, self._file = self._file, None
        if file is not None:
            file.finish({**end_metadata, "rows": f"{self.rows}"})
            self.size += file.size

    def give_up(self) -> None:
        """Close an open file without an index of its chunks, after a write error."""
        file, self._file = self._file, None
        if file is not None:
            file.give_up()

    def open_file(self, time: int) -> McapFile:
        """Return the current file, which is created if no file is open.

        Args:
            time: Time of the first record, since the epoch [ns].
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
    """Convert a time since the epoch [ns] to a date in UTC."""
    return datetime.fromtimestamp(time / _NS_PER_SECOND, timezone.utc)
