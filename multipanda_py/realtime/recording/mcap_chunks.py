# SPDX-License-Identifier: Apache-2.0
"""Write and read chunks of MCAP files, which are compressed blocks of messages.

The reader needs no index, so that it can also read incomplete files.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LogError, MultipandaError
from multipanda_py.files import open_regular
from multipanda_py.realtime.recording.log import EventMessage
from multipanda_py.realtime.recording.messages import copies
from multipanda_py.realtime.recording.topics import Rows, Topic
from multipanda_py.registry import needed

_MESSAGE, _MESSAGE_INDEX, _CHUNK = 0x05, 0x07, 0x06  # Opcodes of MCAP records.
_MESSAGE_HEAD = np.dtype([("op", "u1"), ("length", "<u8"), ("channel", "<u2"), ("sequence", "<u4"),
                  ("log_time", "<u8"), ("publish_time", "<u8")])  # fmt: skip
_RECORD_HEAD_SIZE = 9  # Size of opcode and length at the beginning of a record [bytes].
_INDEX = np.dtype([("log_time", "<u8"), ("offset", "<u8")])
_CONTENT = "content"
# Compression level of zstd. Higher levels take much longer, and hardly reduce the size.
_COMPRESSION_LEVEL = 1


@dataclass
class Chunk:
    """Chunk of an MCAP file, with the message indexes that follow it in the file.

    Attributes:
        data: Bytes of the chunk and of its message indexes.
        chunk_length: Number of bytes of the chunk without message indexes.
        index_offsets: Offset of the message index of each channel in ``data`` [bytes], by channel
            number.
        counts: Number of messages of each channel, by channel number.
        start_time: Time of the first cycle record, since the epoch [ns].
        end: Time of the last cycle record, since the epoch [ns].
        size: Size of the messages before compression [bytes].
        compressed: Size of the messages after compression [bytes].
        rows: Number of cycle records.
    """

    data: bytes
    chunk_length: int
    start_time: int
    end: int
    size: int
    compressed: int
    rows: int
    index_offsets: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class ChunkMaker:
    """Encoder that makes chunks of MCAP messages from cycle records.

    Args:
        topics: Topics of the messages. The channel number of a topic is its index plus 1.

    Raises:
        LogError: If the compression library is not installed.
    """

    def __init__(self, topics: Sequence[Topic]) -> None:
        self._compress = needed("zstandard").ZstdCompressor(level=_COMPRESSION_LEVEL).compress
        self._topics = topics
        self._records: list[tuple[np.dtype[Any], bytes]] = []
        for number, topic in enumerate(topics, start=1):
            heads = _type_and_offset_by_field(_MESSAGE_HEAD).values()
            size = _MESSAGE_HEAD.itemsize + len(topic.layout.template)
            record = np.dtype(
                {
                    "names": [_CONTENT, *_type_and_offset_by_field(_MESSAGE_HEAD)],
                    "formats": [topic.layout.dtype, *(kind for kind, _ in heads)],
                    "offsets": [_MESSAGE_HEAD.itemsize, *(at for _, at in heads)],
                    "itemsize": size,
                }
            )
            self._records.append((record, _message_head(size, number) + topic.layout.template))

    def make(
        self, rows: Rows, times: NDArray[np.int64], events: Sequence[EventMessage] = ()
    ) -> Chunk:
        """Encode cycle records and events as one chunk.

        Args:
            rows: Cycle records, (n,), n >= 1.
            times: Time of each record since the epoch, (n,) [ns].
            events: Events of the loop during these records.
        """
        blocks: list[bytes] = []
        indexes: list[tuple[int, NDArray[np.void]]] = []
        size = 0
        for number, (topic, (record, template)) in enumerate(
            zip(self._topics, self._records), start=1
        ):
            chosen = None if topic.chosen is None else topic.chosen(rows)
            if chosen is None or chosen.all():
                some, time = rows, times
            else:
                some, time = rows[chosen], times[chosen]
            if not len(some):
                continue
            block = _messages(topic, record, template, some, time)
            index = np.empty(len(some), _INDEX)
            index["log_time"] = time
            index["offset"] = size + record.itemsize * np.arange(len(some))
            indexes.append((number, index))
            blocks.append(block)
            size += len(block)
        if events:
            number = len(self._topics) + 1
            index = np.empty(len(events), _INDEX)
            for k, event in enumerate(events):
                length = _MESSAGE_HEAD.itemsize + len(event.data)
                head = _message_head(length, number, event.time)
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
        start, end = int(times[0]), int(times[-1])
        content = struct.pack("<QQQII", start, end, len(messages), zlib.crc32(messages), 4)
        content += b"zstd" + struct.pack("<Q", len(compressed)) + compressed
        data = [struct.pack("<BQ", _CHUNK, len(content)), content]
        length = at = _RECORD_HEAD_SIZE + len(content)
        chunk = Chunk(b"", length, start, end, len(messages), len(compressed), len(times))
        for number, index in indexes:
            raw = index.tobytes()
            data += [struct.pack("<BQHI", _MESSAGE_INDEX, 6 + len(raw), number, len(raw)), raw]
            chunk.index_offsets[number], chunk.counts[number] = at, len(index)
            at += _RECORD_HEAD_SIZE + 6 + len(raw)
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


def _message_head(message_size: int, channel: int, time: int = 0) -> bytes:
    # ``message_size`` includes this head [bytes], ``time`` is since the epoch [ns].
    return struct.pack(
        "<BQHIQQ", _MESSAGE, message_size - _RECORD_HEAD_SIZE, channel, 0, time, time
    )


def _type_and_offset_by_field(dtype: np.dtype[Any]) -> dict[str, tuple[np.dtype[Any], int]]:
    return {name: (kind[0], int(kind[1])) for name, kind in (dtype.fields or {}).items()}


_MAGIC = b"\x89MCAP0\r\n"
# Opcodes of MCAP records.
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _METADATA, _ATTACHMENT = 2, 3, 4, 5, 6, 12, 9
# Size of the header of a message record: opcode, length, channel, sequence, two times [bytes].
_HEAD_SIZE = 31


@dataclass
class McapContent:
    """Content of an MCAP file.

    Attributes:
        schemas: Name and definition of the message type of each topic, by topic.
        messages: Messages of each topic, by topic: a list of arrays (n, bytes), each with n
            messages of equal size.
        times: Log times of these messages since the epoch [ns], by topic: one array (n,) per array
            of messages.
        about: Entries of all metadata records, by name.
        attachments: Attachments by name.
        is_whole: True if the file is complete, False if its recorder was killed or still runs.
    """

    schemas: dict[str, tuple[str, str]] = field(default_factory=dict)
    messages: dict[str, list[NDArray[np.uint8]]] = field(default_factory=dict)
    times: dict[str, list[NDArray[np.int64]]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    attachments: dict[str, bytes] = field(default_factory=dict)
    is_whole: bool = False

    def array(self, topic: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return all messages of a topic as records of type ``dtype``, (n,)."""
        blocks = [np.ascontiguousarray(block).view(dtype)[:, 0] for block in self.messages[topic]]
        return np.concatenate(blocks)


def topics_in(path: Path) -> dict[str, str]:
    """Return the message type of each topic that a file declares before its first message.

    Raises:
        LogError: If it is not an MCAP file.
    """
    content = McapContent()
    with open_regular(path) as file:
        for code, _ in _chunks_of_file(file, path, content, stop_opcode=_CHUNK):
            if code == _CHUNK:
                break
    return {topic: name for topic, (name, _) in content.schemas.items()}


def read_blocks(path: Path) -> McapContent:
    """Read an MCAP file completely; a truncated record at its end is ignored.

    Raises:
        LogError: If it is not an MCAP file, or is damaged.
        OSError: If it cannot be read.
    """
    content = McapContent()
    topics: dict[int, str] = {}
    with open_regular(path) as file:
        for code, data in _chunks_of_file(file, path, content, topics):
            if code != _CHUNK:
                continue
            raw = _decompressed_messages(data, path)
            for number, times, block in _blocks(raw):
                if number not in topics:
                    raise LogError(f"{path}: is damaged: messages of an unknown channel {number}")
                content.messages.setdefault(topics[number], []).append(block)
                content.times.setdefault(topics[number], []).append(times)
    return content


def _chunks_of_file(
    file: BinaryIO,
    path: Path,
    content: McapContent,
    topics: dict[int, str] | None = None,
    stop_opcode: int = 0,
) -> Iterator[tuple[int, bytes]]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise LogError(f"{path}: is not an MCAP file")
    end = os.fstat(file.fileno()).st_size
    schemas: dict[int, Any] = {}
    while len(head := file.read(9)) == 9:
        code, length = struct.unpack("<BQ", head)
        if length > end - file.tell():  # The record is truncated, or its length is damaged.
            return
        if code == _FOOTER:
            content.is_whole = True
            return
        if code not in (_SCHEMA, _CHANNEL, _CHUNK, _METADATA, _ATTACHMENT):
            file.seek(length, 1)
            continue
        if code == stop_opcode:  # Its data are not read.
            yield code, b""
            return
        data = file.read(length)
        if len(data) < length:  # The file was truncated during reading.
            return
        if code == _CHUNK:
            yield code, data
            continue
        try:
            _add_record(code, data, content, schemas, topics)
        except MultipandaError:
            raise
        except Exception as error:  # The library may raise any error for damaged bytes.
            raise LogError(f"{path}: is damaged: record {code}: {error}") from error


def _add_record(
    code: int,
    data: bytes,
    content: McapContent,
    schemas: dict[int, Any],
    topics: dict[int, str] | None,
) -> None:
    records = needed("mcap.records")
    if code == _SCHEMA:
        schema = records.Schema.read(_stream(data))
        schemas[schema.id] = schema
    elif code == _CHANNEL:
        channel = records.Channel.read(_stream(data))
        result = schemas.get(channel.schema_id)
        text = (result.name, result.data.decode()) if result else ("", "")
        content.schemas[channel.topic] = text
        if topics is not None:
            topics[channel.id] = channel.topic
    elif code == _METADATA:
        content.about.update(records.Metadata.read(_stream(data)).metadata)
    else:
        attachment = records.Attachment.read(_stream(data))
        content.attachments[attachment.name] = attachment.data


def _stream(data: bytes) -> Any:
    return needed("mcap.data_stream").ReadDataStream(BytesIO(data))


def _decompressed_messages(data: bytes, path: Path) -> bytes:
    try:
        chunk = needed("mcap.records").Chunk.read(_stream(data))
        raw = _decompressed(chunk)
    except MultipandaError:
        raise
    except Exception as error:  # Each compression library raises its own error classes.
        raise LogError(f"{path}: a chunk is damaged: {error}") from error
    if chunk.uncompressed_crc and zlib.crc32(raw) != chunk.uncompressed_crc:
        raise LogError(f"{path}: a chunk is damaged: its checksum is wrong")
    return raw


def _decompressed(chunk: Any) -> bytes:
    if chunk.compression == "zstd":
        library = needed("zstandard")
        raw = library.ZstdDecompressor().decompress(
            chunk.data, max_output_size=chunk.uncompressed_size
        )
        return bytes(raw)
    if chunk.compression == "lz4":
        return bytes(needed("lz4.frame").decompress(chunk.data))
    return bytes(chunk.data)


def _blocks(raw: bytes) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.uint8]]]:
    """Yield channel, times (n,) [ns] and data (n, bytes) of blocks of messages of equal size."""
    at = 0
    while at + _HEAD_SIZE <= len(raw):
        code, length, number = struct.unpack_from("<BQH", raw, at)
        size = length + 9
        # Schemas and channels in chunks are skipped, because the file also has them before.
        if code != _MESSAGE:
            at += size
            continue
        max_value = (len(raw) - at) // size
        bytes_ = np.frombuffer(raw, np.uint8, max_value * size, at).reshape(max_value, size)
        same = (bytes_[:, :11] == bytes_[0, :11]).all(axis=1)
        count = max_value if same.all() else int(np.argmin(same))
        block = bytes_[:count]
        times = np.ascontiguousarray(block[:, 15:23]).view("<i8")[:, 0]
        yield number, times, block[:, _HEAD_SIZE:]
        at += count * size
