# SPDX-License-Identifier: Apache-2.0
"""Read what a cell has recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LogError, MultipandaError
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.logs.events_topic import EVENTS
from multipanda_py.logs.from_records import ArmFacts, arm_log_of_records
from multipanda_py.logs.log import Log, Mark
from multipanda_py.logs.marks import marks_of, read_event
from multipanda_py.logs.mcap_blocks import McapContent, read_blocks, topics_in
from multipanda_py.logs.plan import CELL_FILE
from multipanda_py.logs.topics import CYCLES, rows_topic
from multipanda_py.loop.row import ARM_FIELDS

_KINDS = {"float64": "<f8", "int64": "<i8"}
_LINE = re.compile(r"(?P<kind>float64|int64)(\[(?P<count>\d+)\])? (?P<name>\w+)")
_BEFORE = 4  # encapsulation of a message
_OWN_NAMES = {field.name.lower(): field for field in ARM_FIELDS}


def is_ours(path: Path) -> bool:
    """Return whether an MCAP file was recorded by a cell."""
    return CYCLES in topics_in(path)


def read_mcap(path: Path) -> Log:
    """Read a recording: whole, or of a recorder that was killed.

    Raises:
        LogError: If it cannot be read, is damaged, or has no row.
    """
    content = read_blocks(path)
    if CYCLES not in content.messages:
        raise LogError(f"{path}: nothing was recorded in it")
    try:
        return _log(content, path)
    except MultipandaError:
        raise
    except Exception as error:  # of any bytes that are not what was written
        what = f"{type(error).__name__}: {error}"
        raise LogError(f"{path}: is damaged, or of another version: {what}") from error


def _log(content: McapContent, path: Path) -> Log:
    cycles = _records(content, CYCLES)
    facts = [ArmFacts(**arm) for arm in json.loads(content.about["arms"])]
    laws = tuple(json.loads(content.about["laws"]))
    arms: dict[str, ArmLog] = {}
    for fact in facts:
        records = _shaped(_records(content, rows_topic(fact.name)))
        arms[fact.name] = arm_log_of_records(records, cycles, fact, laws)
    about = {key: text for key, text in content.about.items() if key not in ("arms", "laws")}
    if not content.is_whole:
        about["torn"] = "its recorder was killed, or is still at work"
    cell = content.attachments.get(CELL_FILE, b"").decode()
    return Log(arms, (path,), about, cell, (*marks_of(arms), *_events(content, cycles)))


def _events(content: McapContent, cycles: NDArray[np.void]) -> list[Mark]:
    """Return the loop's reports with their robot time."""
    if EVENTS not in content.messages:
        return []
    logged = np.concatenate(content.times[CYCLES])[: len(cycles)]
    found = []
    for block, times in zip(content.messages[EVENTS], content.times[EVENTS]):
        for message, time in zip(block, times):
            when = float(np.interp(time - logged[0], logged - logged[0], cycles["time"]))
            found.append(read_event(message.tobytes(), when))
    return found


def _records(content: McapContent, topic: str) -> NDArray[np.void]:
    """Return the messages of a topic that are records, by the definition in the file."""
    fields: list[Any] = []
    for line in content.schemas[topic][1].splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        count = match["count"]
        fields.append((match["name"], _KINDS[match["kind"]], (int(count),) if count else ()))
    record = np.dtype(fields)
    whole = np.dtype({"names": ["x"], "formats": [record], "offsets": [_BEFORE],
                      "itemsize": _BEFORE + record.itemsize})  # fmt: skip
    found: NDArray[np.void] = content.array(topic, whole)["x"]
    return found


def _shaped(records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """Return the fields of an arm by the names and in the shapes of rows."""
    joints = records.dtype["q"].shape[0]
    found = {}
    for name in records.dtype.names or ():
        values = np.ascontiguousarray(records[name])
        field = _OWN_NAMES.get(name)
        if field is None:  # of another version
            found[name] = values
            continue
        shape = [joints if size == "joints" else size for size in field.shape]
        shape = [-1 if isinstance(size, str) else size for size in shape]
        found[field.name] = values.reshape(len(values), *shape) if field.shape else values
    return found
