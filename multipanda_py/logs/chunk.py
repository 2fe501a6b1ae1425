# SPDX-License-Identifier: Apache-2.0
"""Rows as a chunk of an MCAP file, made by numpy instead of message by message.

A second of two arms is thirty thousand messages, which would cost a library that writes them one
by one a tenth of a core. Their records (opcode, length, channel, sequence, two times, then the
message itself) are laid out once like the messages in them (:mod:`multipanda_py.logs.cdr`).
Everything else of a file is written by the ``mcap`` library.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.extras import needed
from multipanda_py.logs.cdr import copies
from multipanda_py.logs.events_topic import EventMessage
from multipanda_py.logs.topics import Rows, Topic

_MESSAGE, _MESSAGE_INDEX, _CHUNK = 0x05, 0x07, 0x06
_MESSAGE_HEAD = np.dtype([("op", "u1"), ("length", "<u8"), ("channel", "<u2"), ("sequence", "<u4"),
                  ("log_time", "<u8"), ("publish_time", "<u8")])  # fmt: skip
_BEFORE_CONTENT = 9  # opcode and length, which count neither
_INDEX = np.dtype([("log_time", "<u8"), ("offset", "<u8")])
_CONTENT = "content"
_LEVEL = 1  # of zstd: higher ones take much more time, and noise does not get smaller


@dataclass
class Chunk:
    """A chunk as it stands in a file, with the indexes of its messages behind it.

    Attributes:
        data: The bytes of all of it.
        chunk_length: How many of them are the chunk itself.
        index_offsets: Where the index of each channel begins in them, by its number.
        counts: Messages, by channel.
        begin: Time of the first row, since the epoch [ns].
        end: Of the last.
        size: Of the messages.
        compressed: Of the same, compressed.
        rows: How many.
    """

    data: bytes
    chunk_length: int
    begin: int
    end: int
    size: int
    compressed: int
    rows: int
    index_offsets: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class ChunkMaker:
    """Make chunks of rows.

    Args:
        topics: Their numbers in a file are their places here, from 1.

    Raises:
        LogError: If the compression is not installed.
    """

    def __init__(self, topics: Sequence[Topic]) -> None:
        self._compress = needed("zstandard").ZstdCompressor(level=_LEVEL).compress
        self._topics = topics
        self._records: list[tuple[np.dtype[Any], bytes]] = []
        for number, topic in enumerate(topics, start=1):
            heads = _fields(_MESSAGE_HEAD).values()
            size = _MESSAGE_HEAD.itemsize + len(topic.layout.template)
            record = np.dtype(
                {
                    "names": [_CONTENT, *_fields(_MESSAGE_HEAD)],
                    "formats": [topic.layout.dtype, *(kind for kind, _ in heads)],
                    "offsets": [_MESSAGE_HEAD.itemsize, *(at for _, at in heads)],
                    "itemsize": size,
                }
            )
            self._records.append((record, _head(size, number) + topic.layout.template))

    def make(
        self, rows: Rows, times: NDArray[np.int64], events: Sequence[EventMessage] = ()
    ) -> Chunk:
        """Return the chunk of some rows.

        Args:
            rows: (n,), at least one.
            times: Of each, since the epoch, (n,) [ns].
            events: What happened meanwhile.
        """
        blocks: list[bytes] = []
        indexes: list[tuple[int, NDArray[np.void]]] = []
        size = 0
        for number, (topic, (record, template)) in enumerate(
            zip(self._topics, self._records), start=1
        ):
            chosen = None if topic.chosen is None else topic.chosen(rows)
            if chosen is None or chosen.all():
                some, when = rows, times
            else:
                some, when = rows[chosen], times[chosen]
            if not len(some):
                continue
            block = _messages(topic, record, template, some, when)
            index = np.empty(len(some), _INDEX)
            index["log_time"] = when
            index["offset"] = size + record.itemsize * np.arange(len(some))
            indexes.append((number, index))
            blocks.append(block)
            size += len(block)
        if events:
            number = len(self._topics) + 1
            index = np.empty(len(events), _INDEX)
            for k, event in enumerate(events):
                length = _MESSAGE_HEAD.itemsize + len(event.data)
                head = _head(length, number, event.time)
                index[k] = event.time, size
                blocks += [head, event.data]
                size += length
            indexes.append((number, index))
        return self._put_together(b"".join(blocks), indexes, times)

    def _put_together(
        self,
        messages: bytes,
        indexes: list[tuple[int, NDArray[np.void]]],
        times: NDArray[np.int64],
    ) -> Chunk:
        compressed = self._compress(messages)
        begin, end = int(times[0]), int(times[-1])
        content = struct.pack("<QQQII", begin, end, len(messages), zlib.crc32(messages), 4)
        content += b"zstd" + struct.pack("<Q", len(compressed)) + compressed
        data = [struct.pack("<BQ", _CHUNK, len(content)), content]
        length = at = _BEFORE_CONTENT + len(content)
        chunk = Chunk(b"", length, begin, end, len(messages), len(compressed), len(times))
        for number, index in indexes:
            raw = index.tobytes()
            data += [struct.pack("<BQHI", _MESSAGE_INDEX, 6 + len(raw), number, len(raw)), raw]
            chunk.index_offsets[number], chunk.counts[number] = at, len(index)
            at += _BEFORE_CONTENT + 6 + len(raw)
        chunk.data = b"".join(data)
        return chunk


def _messages(
    topic: Topic,
    record: np.dtype[Any],
    template: bytes,
    rows: Rows,
    times: NDArray[np.int64],
) -> bytes:
    made = copies(template, record, len(rows))
    made["log_time"] = made["publish_time"] = times
    content = made[_CONTENT]
    if topic.is_stamped:
        content["sec"], content["nanosec"] = np.divmod(times, 1_000_000_000)
    for name, values in topic.columns(rows).items():
        content[name] = values
    return made.tobytes()


def _head(size: int, channel: int, time: int = 0) -> bytes:
    """Return what stands before a message whose record has so many bytes in all."""
    return struct.pack("<BQHIQQ", _MESSAGE, size - _BEFORE_CONTENT, channel, 0, time, time)


def _fields(dtype: np.dtype[Any]) -> dict[str, tuple[np.dtype[Any], int]]:
    """Return type and offset of every field."""
    return {name: (kind[0], int(kind[1])) for name, kind in (dtype.fields or {}).items()}
