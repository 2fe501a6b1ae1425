# SPDX-License-Identifier: Apache-2.0
"""Read a log of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from multipanda_py.exceptions import LogError, UnknownName
from multipanda_py.files.regular_file import MAX_RECORDING, check_regular
from multipanda_py.logs.log import Log, joined_logs
from multipanda_py.logs.read_bag import BAGS, read_bag
from multipanda_py.logs.read_mcap import is_ours, read_mcap
from multipanda_py.logs.read_table import TABLES, read_table
from multipanda_py.robots import MODELS

Paths = str | Path | Sequence[str | Path]


def read(paths: Paths, robot: str | None = None) -> Log:
    """Read a log, or several of one experiment as one data set.

    Args:
        paths: A recording of a cell (``.mcap``), or a folder of them; a rosbag2 with joint states
            (``.db3``, ``.mcap``, or its folder); a table (``.csv``, ``.parquet``) with named
            columns. Several are taken in the order given.
        robot: Name of the arm's model where the log does not say, such as ``fer``.

    Raises:
        LogError: If one cannot be read, in a sentence.
        UnknownName: If there is no such robot.
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    if not files:
        raise LogError("no log to read: got none, allowed one or more files")
    if robot is not None and robot not in MODELS:
        raise UnknownName("robot", robot, list(MODELS))
    return joined_logs([_read_one(Path(path), robot) for path in files])


def _read_one(path: Path, robot: str | None) -> Log:
    if path.is_dir() and not (path / "metadata.yaml").exists():
        parts = sorted(path.glob("*.mcap"))
        if not parts:
            raise LogError(f"{path}: no log in this folder, allowed .mcap")
        return joined_logs([_read_one(part, robot) for part in parts])
    if not path.exists():
        raise LogError(f"{path}: there is no such file")
    suffix = path.suffix.lower()
    try:
        if not path.is_dir():
            check_regular(path, MAX_RECORDING)
        if suffix in TABLES:
            return read_table(path, robot)
        if suffix == ".mcap" and is_ours(path):
            return read_mcap(path)
        if suffix in BAGS or path.is_dir():
            return read_bag(path, robot)
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from error
    got, allowed = suffix or "file without suffix", ", ".join(dict.fromkeys((*TABLES, *BAGS)))
    raise LogError(f"{path}: got a {got}, allowed {allowed}")
