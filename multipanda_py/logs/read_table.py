# SPDX-License-Identifier: Apache-2.0
"""Logs of other origin: tables with named columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LogError, MissingExtra, UnknownName
from multipanda_py.extras import needed
from multipanda_py.files.regular_file import MAX_RECORDING, check_regular
from multipanda_py.logs.arm_log import JOINT_COLUMNS, ArmLog
from multipanda_py.logs.log import Log
from multipanda_py.robots import MODELS

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet")
_TIMES = ("time", "t", "timestamp", "robot_time")
_NAMES = {
    "q": "q", "position": "q", "pos": "q",
    "dq": "dq", "qd": "dq", "velocity": "dq", "vel": "dq",
    "tau": "tau", "tau_j": "tau", "effort": "tau", "torque": "tau",
    "tau_commanded": "tau_commanded", "tau_j_d": "tau_commanded", "tau_d": "tau_commanded",
}  # fmt: skip
"""Names of columns that others use, by the name here."""
_JOINTED = re.compile(r"(?P<name>.*?[A-Za-z])[_\[]?(?P<number>\d+)\]?$")


def read_table(path: Path, robot: str | None = None) -> Log:
    """Read a CSV or Parquet file: ``time`` [s], ``q1`` ... ``qj``, ``dq1`` ..., ``tau1`` ...

    Columns may be in any order and are told by their names; ``position``, ``velocity`` and
    ``effort`` are understood too, and joints may be counted from 0. A column ``arm`` tells several
    arms apart. Other columns with numbers come in by their own names.

    Args:
        path: The file.
        robot: Name of the model, or None.

    Raises:
        LogError: If it has no such columns or no samples, is torn, or its time goes back.
        UnknownName: If there is no such robot.
    """
    table = table_of(path)
    if "arm" not in table.columns:
        return Log({path.stem: _arm_of_table(table, path.stem, path, robot)}, (path,))
    parts = {str(name): part for name, part in table.groupby("arm", sort=False)}
    return Log(
        {name: _arm_of_table(part, name, path, robot) for name, part in parts.items()}, (path,)
    )


def table_of(path: Path) -> pd.DataFrame:
    """Return a CSV or Parquet file as it is.

    Raises:
        LogError: If it cannot be read as a table.
        MissingExtra: If a library that reads it is not installed.
    """
    library = needed("pandas")
    try:
        check_regular(path, MAX_RECORDING)
        if path.suffix.lower() == ".parquet":
            needed("pyarrow")
            return library.read_parquet(path)
        return library.read_csv(path, skipinitialspace=True)
    except (LogError, MissingExtra):
        raise
    except Exception as error:  # each library below has errors of its own
        raise LogError(f"{path}: cannot be read as a table: {error}") from error


def _arm_of_table(table: pd.DataFrame, name: str, path: Path, robot: str | None) -> ArmLog:
    names = {str(column).strip(): column for column in table.columns}
    if not len(table):
        raise LogError(f"{path}: a log without a sample")
    clock = next((names[key] for key in names if key.lower() in _TIMES), None)
    if clock is None:
        raise LogError(f"{path}: no column with the time, allowed 'time' [s]; got {_list(names)}")
    groups, alone = _grouped(names, path)
    if "q" not in groups:
        raise LogError(f"{path}: no joint positions, allowed q1, q2 ... [rad]; got {_list(names)}")
    found = {key: _numbers(table, columns, path) for key, columns in groups.items()}
    found |= {
        key: np.asarray(table[column]) for key, column in alone.items()
        if column != clock and np.issubdtype(table[column].dtype, np.number)
    }  # fmt: skip
    joints = found["q"].shape[1]
    for key in JOINT_COLUMNS:
        if key in found and found[key].shape[1] != joints:
            raise LogError(f"{path}: {found[key].shape[1]} columns {key}, {joints} of q")
    found["time"] = _numbers(table, [clock], path)[:, 0]
    names_of_joints = _joint_names(robot, joints, path)
    return ArmLog(name, robot, names_of_joints, found["time"], found["q"]).with_columns(found)


def _grouped(names: dict[str, Any], path: Path) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return the columns that are numbered, by what they are and in their order, and others.

    Raises:
        LogError: If there are two of one joint, or none of one between others.
    """
    numbered: dict[str, dict[int, Any]] = {}
    alone: dict[str, Any] = {}
    for text, column in names.items():
        match = _JOINTED.match(text)
        if match is None:
            alone[text] = column
            continue
        name = match["name"].rstrip("_")
        of_name = numbered.setdefault(_NAMES.get(name.lower(), name), {})
        if (other := of_name.setdefault(int(match["number"]), column)) is not column:
            raise LogError(f"{path}: columns {other} and {text} are of one joint, allowed one")
    for text in alone:
        first, dot, _ = text.rpartition(".")  # what pandas makes of a name that is there again
        if dot and first in names and _JOINTED.match(first):
            raise LogError(f"{path}: column {first} is there twice, allowed once")
    for name in (key for key in JOINT_COLUMNS if key in numbered):
        there = sorted(numbered[name])
        lacking = sorted(set(range(there[0], there[-1])) - set(there))
        if lacking or there[0] > 1:
            number = lacking[0] if lacking else 1
            raise LogError(f"{path}: no column of joint {number} of {name}, only {_list(there)}")
    groups = {name: [found[k] for k in sorted(found)] for name, found in numbered.items()}
    return groups, alone


def _numbers(table: pd.DataFrame, columns: list[Any], path: Path) -> NDArray[np.float64]:
    try:
        return np.ascontiguousarray(table[columns].to_numpy(dtype=np.float64))
    except (ValueError, TypeError) as error:
        raise LogError(f"{path}: columns {_list(columns)} are no numbers: {error}") from error


def _joint_names(robot: str | None, joints: int, path: Path) -> tuple[str, ...]:
    if robot is None:
        return tuple(f"joint{k}" for k in range(1, joints + 1))
    if robot not in MODELS:
        raise UnknownName("robot", robot, list(MODELS))
    names = tuple(joint.name for joint in MODELS[robot].joints)
    if len(names) != joints:
        raise LogError(f"{path}: {joints} joints, {robot} has {len(names)}")
    return names


def _list(names: Any) -> str:
    text = ", ".join(map(str, names))
    return text if len(text) < 200 else f"{text[:200]} ..."
