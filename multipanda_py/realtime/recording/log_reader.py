# SPDX-License-Identifier: Apache-2.0
"""Read logs of every supported format: MCAP recordings, ROS 2 bags, CSV and Parquet tables."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import LogError, MissingExtra, MultipandaError, UnknownName
from multipanda_py.files import MAX_RECORDING_SIZE, check_regular
from multipanda_py.realtime.cycle_record import ARM_FIELDS
from multipanda_py.realtime.recording.arm_log import (
    JOINT_COLUMNS,
    ArmFacts,
    ArmLog,
    arm_facts,
    arm_log_of_records,
    arm_logs,
)
from multipanda_py.realtime.recording.log import (
    EVENTS_TOPIC_NAME,
    Log,
    Mark,
    joined_logs,
    marks_of,
    read_event,
)
from multipanda_py.realtime.recording.mcap_chunks import McapContent, read_blocks, topics_in
from multipanda_py.realtime.recording.topics import CELL_FILE, CYCLES_TOPIC, rows_topic
from multipanda_py.registry import needed
from multipanda_py.robots import MODELS

if TYPE_CHECKING:
    import pandas as pd


TABLE_SUFFIXES = (".csv", ".parquet")
_TIME_COLUMNS = ("time", "t", "timestamp", "robot_time")
_COLUMN_NAMES = {
    "q": "q", "position": "q", "pos": "q",
    "dq": "dq", "qd": "dq", "velocity": "dq", "vel": "dq",
    "tau": "tau", "tau_j": "tau", "effort": "tau", "torque": "tau",
    "tau_commanded": "tau_commanded", "tau_j_d": "tau_commanded", "tau_d": "tau_commanded",
}  # fmt: skip
"""Column names of other tools, with their names in this package."""
_JOINTED = re.compile(r"(?P<name>.*?[A-Za-z])[_\[]?(?P<number>\d+)\]?$")


def read_table(path: Path, robot: str | None = None) -> Log:
    """Read a CSV or Parquet file with columns ``time`` [s], ``q1`` ..., ``dq1`` ..., ``tau1`` ....

    Only ``time`` and ``q`` are required. ``q``, ``dq`` and ``tau`` may also be named ``position``,
    ``velocity`` and ``effort``, and joint numbers may begin at 0. In a file of several arms, the
    column ``arm`` contains the name of the arm. Other numeric columns keep their names.

    Args:
        path: Path of the file.
        robot: Name of the robot model; None if it is unknown.

    Raises:
        LogError: If columns or samples are missing, the file is truncated, or time decreases.
        UnknownName: If the robot model does not exist.
    """
    table = table_of(path)
    if "arm" not in table.columns:
        return Log({path.stem: _arm_of_table(table, path.stem, path, robot)}, (path,))
    parts = {str(name): part for name, part in table.groupby("arm", sort=False)}
    return Log(
        {name: _arm_of_table(part, name, path, robot) for name, part in parts.items()}, (path,)
    )


def table_of(path: Path) -> pd.DataFrame:
    """Return a CSV or Parquet file as a table, unchanged.

    Raises:
        LogError: If it cannot be read as a table.
        MissingExtra: If the library for the format is not installed.
    """
    library = needed("pandas")
    try:
        check_regular(path, MAX_RECORDING_SIZE)
        if path.suffix.lower() == ".parquet":
            needed("pyarrow")
            return library.read_parquet(path)
        return library.read_csv(path, skipinitialspace=True)
    except (LogError, MissingExtra):
        raise
    except Exception as error:  # Each library raises its own error classes.
        raise LogError(f"{path}: cannot be read as a table: {error}") from error


def _arm_of_table(table: pd.DataFrame, name: str, path: Path, robot: str | None) -> ArmLog:
    names = {str(column).strip(): column for column in table.columns}
    if not len(table):
        raise LogError(f"{path}: the log has no samples")
    clock = next((names[key] for key in names if key.lower() in _TIME_COLUMNS), None)
    if clock is None:
        raise LogError(f"{path}: column 'time' [s] is missing; got {_list(names)}")
    groups, alone = _columns_by_quantity(names, path)
    if "q" not in groups:
        raise LogError(f"{path}: joint positions q1, q2 ... [rad] are missing; got {_list(names)}")
    result = {key: _numbers(table, columns, path) for key, columns in groups.items()}
    result |= {
        key: np.asarray(table[column]) for key, column in alone.items()
        if column != clock and np.issubdtype(table[column].dtype, np.number)
    }  # fmt: skip
    joints = result["q"].shape[1]
    for key in JOINT_COLUMNS:
        if key in result and result[key].shape[1] != joints:
            raise LogError(
                f"{path}: got {result[key].shape[1]} columns of {key}, but {joints} of q. Each "
                "quantity needs one column per joint"
            )
    result["time"] = _numbers(table, [clock], path)[:, 0]
    names_of_joints = _joint_names(robot, joints, path)
    return ArmLog(name, robot, names_of_joints, result["time"], result["q"]).with_columns(result)


def _columns_by_quantity(
    columns_by_text: dict[str, Any], path: Path
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    numbered: dict[str, dict[int, Any]] = {}  # Column labels by quantity and joint number.
    alone: dict[str, Any] = {}
    for text, column in columns_by_text.items():
        match = _JOINTED.match(text)
        if match is None:
            alone[text] = column
            continue
        name = match["name"].rstrip("_")
        of_name = numbered.setdefault(_COLUMN_NAMES.get(name.lower(), name), {})
        if (other := of_name.setdefault(int(match["number"]), column)) is not column:
            raise LogError(
                f"{path}: columns {other} and {text} belong to the same joint. Remove one"
            )
    for text in alone:
        first, dot, _ = text.rpartition(".")  # pandas appends ".1" to a duplicate name.
        if dot and first in columns_by_text and _JOINTED.match(first):
            raise LogError(f"{path}: column {first} exists twice. Remove one")
    for name in (key for key in JOINT_COLUMNS if key in numbered):
        there = sorted(numbered[name])
        lacking = sorted(set(range(there[0], there[-1])) - set(there))
        if lacking or there[0] > 1:
            number = lacking[0] if lacking else 1
            raise LogError(
                f"{path}: column of joint {number} of {name} is missing; there are columns of "
                f"joints {_list(there)}"
            )
    groups = {name: [result[k] for k in sorted(result)] for name, result in numbered.items()}
    return groups, alone


def _numbers(table: pd.DataFrame, columns: list[Any], path: Path) -> NDArray[np.float64]:
    try:
        return np.ascontiguousarray(table[columns].to_numpy(dtype=np.float64))
    except (ValueError, TypeError) as error:
        raise LogError(f"{path}: columns {_list(columns)} are not numeric: {error}") from error


def _joint_names(robot: str | None, joints: int, path: Path) -> tuple[str, ...]:
    if robot is None:
        return tuple(f"joint{k}" for k in range(1, joints + 1))
    if robot not in MODELS:
        raise UnknownName("robot", robot, list(MODELS))
    names = tuple(joint.name for joint in MODELS[robot].joints)
    if len(names) != joints:
        raise LogError(f"{path}: got {joints} joints, but {robot} has {len(names)}")
    return names


def _list(names: Any) -> str:
    text = ", ".join(map(str, names))
    return text if len(text) < 200 else f"{text[:200]} ..."


BAG_SUFFIXES = (".db3", ".mcap")
_JOINT_STATE = "sensor_msgs/msg/JointState"
_NAME = re.compile(r"(?P<prefix>.*?)_?(?P<joint>joint_?\d+)$")
_ROBOT_NAMES = {"panda": "fer"}
"""Robot names of other tools, with the names of the models in this package."""


def read_bag(path: Path, robot: str | None = None) -> Log:
    """Read the joint states of a ROS bag, one arm per topic.

    The name of the arm is the namespace of the topic.

    Args:
        path: Path of a ``.db3`` or ``.mcap`` file, or of the folder of a bag.
        robot: Name of the robot model; None to derive it from the joint names.

    Raises:
        LogError: If the bag cannot be read, or has no joint states.
    """
    highlevel, typesys = needed("rosbags.highlevel"), needed("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    try:
        with highlevel.AnyReader([path], default_typestore=store) as bag:
            connections = [c for c in bag.connections if c.msgtype == _JOINT_STATE]
            measured = [c for c in connections if c.topic.endswith("joint_states")] or connections
            samples: dict[str, list[Any]] = {c.topic: [] for c in measured}
            for connection, time, raw in bag.messages(connections=measured):
                message = bag.deserialize(raw, connection.msgtype)
                samples[connection.topic].append((time, message))
    except (LogError, MissingExtra):
        raise
    except Exception as error:  # rosbags raises other errors for each kind of bag.
        raise LogError(f"{path}: cannot be read as a bag: {error}") from error
    filled = {topic: result for topic, result in samples.items() if result}
    if not filled:
        raise LogError(f"{path}: the bag has no messages of type {_JOINT_STATE}")
    logs = [_arm_of_topic(topic, result, robot, path) for topic, result in filled.items()]
    return Log({log.arm: log for log in logs}, (path,))


def _arm_of_topic(topic: str, samples: list[Any], robot: str | None, path: Path) -> ArmLog:
    names = list(samples[0][1].name)
    matches = {name: _NAME.match(name) for name in names if "finger" not in name}
    chosen = [name for name, match in matches.items() if match] or list(matches)
    chosen.sort(key=lambda name: (len(name), name))
    at = [names.index(name) for name in chosen]
    first = matches[chosen[0]]
    prefix = first["prefix"].split("_")[-1] if first else ""
    result = robot or _ROBOT_NAMES.get(prefix, prefix if prefix in MODELS else None)
    joints = tuple(match["joint"] if (match := matches[name]) else name for name in chosen)
    stamps = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for _, m in samples])
    # If the stamps do not increase, for example because none is set, recording times replace them.
    if not (np.diff(stamps) > 0.0).all():
        written = np.array([time for time, _ in samples])
        logged = (written - written[0]) * 1e-9
        stamps = logged if (np.diff(logged) > 0.0).all() else stamps
    if any(list(m.name) != names for _, m in samples):
        raise LogError(f"{path}: the joint names of {topic} change between messages")

    def column(name: str) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        rows = [getattr(m, name) for _, m in samples]
        if any(len(row) != len(names) for row in rows):
            return None
        values = np.array(rows, dtype=np.float64)[:, at]
        return None if np.isnan(values).all() else np.ascontiguousarray(values)

    q = column("position")
    if q is None:
        raise LogError(f"{path}: {topic} has no positions")
    arm = topic.rpartition("/")[0].strip("/").replace("/", "_") or path.stem
    return ArmLog(arm, result, joints, stamps - stamps[0], q, column("velocity"), column("effort"))


_KINDS = {"float64": "<f8", "int64": "<i8"}
_LINE = re.compile(r"(?P<kind>float64|int64)(\[(?P<count>\d+)\])? (?P<name>\w+)")
_ENCAPSULATION_SIZE = 4  # Size of the CDR header before the data of a message [bytes].
_OWN_NAMES = {field.name.lower(): field for field in ARM_FIELDS}
FORMER_FIELDS = {
    "fingers": "finger_positions",
    "holds": "attached_object",
    "missed": "missed_cycles",
    "motor_load": "spring_torque",
    "objects": "object_poses",
    "present": "object_present",
    "sensed_ns": "state_cycle_ns",
    "target_squeeze": "target_internal_force",
    "tau_carried": "tau_weight",
    "tau_wanted": "tau_desired",
    "terms": "torque_terms",
    "terms_traced": "torque_terms_recorded",
}
"""Fields of cycle records in older recordings, with their present names."""


def is_ours(path: Path) -> bool:
    """Return True if an MCAP file is a recording of a cell of this package."""
    return CYCLES_TOPIC in topics_in(path)


def read_mcap(path: Path) -> Log:
    """Read a recording of a cell, even an incomplete one of a killed recorder.

    Raises:
        LogError: If it cannot be read, is damaged, or contains no cycle record.
    """
    content = read_blocks(path)
    if CYCLES_TOPIC not in content.messages:
        raise LogError(f"{path}: the recording contains no cycle records")
    try:
        return _log(content, path)
    except MultipandaError:
        raise
    except Exception as error:  # Damaged bytes may cause any error.
        description = f"{type(error).__name__}: {error}"
        raise LogError(f"{path}: is damaged, or of another version: {description}") from error


def _log(content: McapContent, path: Path) -> Log:
    cycles = _messages_as_records(content, CYCLES_TOPIC)
    facts = [ArmFacts(**arm) for arm in json.loads(content.about["arms"])]
    laws = tuple(json.loads(content.about["laws"]))
    arms: dict[str, ArmLog] = {}
    for fact in facts:
        records = _with_record_shapes(_messages_as_records(content, rows_topic(fact.name)))
        arms[fact.name] = arm_log_of_records(records, cycles, fact, laws)
    about = {key: text for key, text in content.about.items() if key not in ("arms", "laws")}
    if not content.is_whole:
        about["torn"] = "its recorder was killed, or is still running"
    cell = content.attachments.get(CELL_FILE, b"").decode()
    return Log(arms, (path,), about, cell, (*marks_of(arms), *_events(content, cycles)))


def _events(content: McapContent, cycles: NDArray[np.void]) -> list[Mark]:
    if EVENTS_TOPIC_NAME not in content.messages:
        return []
    logged = np.concatenate(content.times[CYCLES_TOPIC])[: len(cycles)]
    events = []
    for block, times in zip(content.messages[EVENTS_TOPIC_NAME], content.times[EVENTS_TOPIC_NAME]):
        for message, time in zip(block, times):
            stamp = float(np.interp(time - logged[0], logged - logged[0], cycles["time"]))
            events.append(read_event(message.tobytes(), stamp))
    return events


def _messages_as_records(content: McapContent, topic: str) -> NDArray[np.void]:
    fields: list[Any] = []
    for line in content.schemas[topic][1].splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        count = match["count"]
        name = FORMER_FIELDS.get(match["name"], match["name"])
        fields.append((name, _KINDS[match["kind"]], (int(count),) if count else ()))
    record = np.dtype(fields)
    whole = np.dtype({"names": ["x"], "formats": [record], "offsets": [_ENCAPSULATION_SIZE],
                      "itemsize": _ENCAPSULATION_SIZE + record.itemsize})  # fmt: skip
    records: NDArray[np.void] = content.array(topic, whole)["x"]
    return records


def _with_record_shapes(records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    # The file contains the fields as flat arrays with lower-case names.
    joints = records.dtype["q"].shape[0]
    result = {}
    for name in records.dtype.names or ():
        values = np.ascontiguousarray(records[name])
        field = _OWN_NAMES.get(name)
        if field is None:  # A field of another version has no known shape.
            result[name] = values
            continue
        shape = [joints if size == "joints" else size for size in field.shape]
        shape = [-1 if isinstance(size, str) else size for size in shape]
        result[field.name] = values.reshape(len(values), *shape) if field.shape else values
    return result


Paths = str | Path | Sequence[str | Path]


def read(paths: Paths, robot: str | None = None) -> Log:
    """Read one log, or several logs of one experiment as one data set.

    Supported formats:

    - ``.mcap``: recording of a cell. A folder of recordings counts as one log.
    - ``.db3``, ``.mcap`` or a folder with ``metadata.yaml``: ROS 2 bag with joint states.
    - ``.csv``, ``.parquet``: table with named columns.

    Args:
        paths: Paths of logs, joined in the given order.
        robot: Name of the robot model, such as ``fer``, for logs that do not contain it.

    Raises:
        LogError: If a log cannot be read.
        UnknownName: If the robot model does not exist.
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    if not files:
        raise LogError("got no log; name one or more files")
    if robot is not None and robot not in MODELS:
        raise UnknownName("robot", robot, list(MODELS))
    return joined_logs([_read_one(Path(path), robot) for path in files])


def _read_one(path: Path, robot: str | None) -> Log:
    if path.is_dir() and not (path / "metadata.yaml").exists():
        parts = sorted(path.glob("*.mcap"))
        if not parts:
            raise LogError(f"{path}: the folder has no .mcap file")
        return joined_logs([_read_one(part, robot) for part in parts])
    if not path.exists():
        raise LogError(f"{path}: there is no such file")
    suffix = path.suffix.lower()
    try:
        if not path.is_dir():
            check_regular(path, MAX_RECORDING_SIZE)
        if suffix in TABLE_SUFFIXES:
            return read_table(path, robot)
        if suffix == ".mcap" and is_ours(path):
            return read_mcap(path)
        if suffix in BAG_SUFFIXES or path.is_dir():
            return read_bag(path, robot)
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from error
    got, allowed = (
        suffix or "file without suffix",
        ", ".join(dict.fromkeys((*TABLE_SUFFIXES, *BAG_SUFFIXES))),
    )
    raise LogError(f"{path}: got a {got}, allowed {allowed}")


def log_of_rows(rows: NDArray[np.void], config: CellConfig) -> Log:
    """Convert cycle records of a cell to a log.

    Args:
        rows: Records in order, (n,), from :meth:`.Cell.records` or :class:`.RecordFollower`.
        config: Configuration of the cell.

    Raises:
        LogError: If there is no record.
    """
    laws = tuple(spec.name for spec in instance_specs(config))
    arms = arm_logs(rows, arm_facts(config), laws)
    return Log(arms, cell=config.model_dump_json(), marks=marks_of(arms))
