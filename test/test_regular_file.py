# SPDX-License-Identifier: Apache-2.0
"""Files named by a client or a command line that are not regular or too large."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from multipanda_py.cell.tasks import TaskFile
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import load
from multipanda_py.exceptions import ConfigurationError, FileRejected, MultipandaError
from multipanda_py.files import (
    MAX_DEPTH,
    MAX_DESCRIPTION_SIZE,
    MAX_NODES,
    MAX_TEXT_SIZE,
    fault_of,
    read_plain,
    read_text,
)
from multipanda_py.identification.monitor.band import Band
from multipanda_py.identification.validation.record import load_run
from multipanda_py.realtime.recording.log_reader import read as read_log
from multipanda_py.robots.extra_data import read_extra
from multipanda_py.robots.importing.source import read_mesh, tree_of
from multipanda_py.robots.read_mjcf import read_mjcf
from multipanda_py.robots.read_urdf import read_urdf
from multipanda_py.robots.residual.weights import load_residual

pytestmark = pytest.mark.inline

READERS: list[Callable[[Path], Any]] = [
    read_text, read_plain, CellConfig.from_yaml, TaskFile.from_yaml, Band.from_yaml, read_extra,
    read_urdf, read_mjcf, tree_of, load_residual, load_run,
    lambda path: read_mesh(path, [1.0, 1.0, 1.0]),
]  # fmt: skip
SUFFIXES = (".csv", ".parquet", ".mcap", ".db3")
SECRET = "hunter2"


@pytest.fixture
def bounded() -> Iterator[None]:
    """Limit time and memory of a test, so that a blocked reader fails."""

    def give_up(*_: object) -> None:
        raise TimeoutError("a file was waited for")

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 29), before[1]))
    old = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("kind", ["fifo", "device", "link", "sparse", "folder"])
@pytest.mark.parametrize("read", READERS)
def test_non_regular_or_endless_file_blocked_reader(
    bounded: None, tmp_path: Path, read: Callable[[Path], Any], kind: str
) -> None:
    path = tmp_path / "file"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    if kind == "sparse" and read is load_run:
        return  # recordings have a larger size limit
    with pytest.raises((MultipandaError, OSError)) as found:
        read(path)
    assert not isinstance(found.value, TimeoutError)
    assert "Error" not in str(found.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_fifo_as_log_blocked_reader(bounded: None, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log{suffix}"
    os.mkfifo(path)
    with pytest.raises(MultipandaError, match="regular"):
        read_log(path)


def test_file_of_unknown_size_is_bounded_while_reading(tmp_path: Path) -> None:
    assert Path("/proc/self/maps").stat().st_size == 0
    with pytest.raises(FileRejected, match="larger"):
        read_text("/proc/self/maps", 10)
    (tmp_path / "fits").write_text("x" * MAX_TEXT_SIZE)
    assert len(read_text(tmp_path / "fits")) == MAX_TEXT_SIZE
    (tmp_path / "over").write_text("x" * (MAX_TEXT_SIZE + 1))
    with pytest.raises(FileRejected, match="larger"):
        read_text(tmp_path / "over")
    assert read_text(tmp_path / "over", MAX_DESCRIPTION_SIZE)


@pytest.mark.parametrize(
    "text",
    [
        f"key: {SECRET}: {SECRET}",
        f"- a\n{SECRET}: b",
        f"a: !{SECRET} b",
        f"a: !<it's{SECRET}'s> b",
        f"a: *{SECRET}",
        f"{SECRET}: 1\n{SECRET}: 2",
        f"a: 'x\n{SECRET}",
        f"a: &{SECRET}",
        f"a: !!int {SECRET}",
        f"a: !!timestamp {SECRET}",
        f"a: !!binary {SECRET}é",
        f'a: "\\{SECRET}"',
        f"%{SECRET} 1\n---\na",
        f"a:\t{SECRET}\n\tb: c\n",
        f"{SECRET}\x00",
        f"{SECRET}\n{SECRET}",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}: : {SECRET}\n",
    ],
)
@pytest.mark.parametrize("read", [CellConfig.from_yaml, read_plain])
def test_error_message_repeated_file_content(
    tmp_path: Path, read: Callable[[Path], Any], text: str
) -> None:
    path = tmp_path / "private"
    path.write_text(text)
    try:
        read(path)
        reported = ""
    except ConfigurationError as error:
        reported = str(error)
    assert SECRET not in reported
    assert len(reported) < len(str(path)) + 150


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "{a: " * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1),
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
        "- x\n" * (MAX_NODES + 1),
        "- " * 3000,
    ],
)
def test_yaml_of_excessive_depth_or_aliases_is_rejected(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as found:
        load(text)
    assert len(fault_of(found.value)) < 120


def test_yaml_scalar_of_many_digits_took_quadratic_time(bounded: None) -> None:
    word = "1" * 900_000 + "x"
    assert load(word) == word
