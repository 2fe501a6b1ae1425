# SPDX-License-Identifier: Apache-2.0
"""Changed cell files for `multipanda check` and for the node."""

from __future__ import annotations

import copy
import random
import re
import time
from pathlib import Path
from typing import Any

import yaml
from draw import NUMBERS, TEXTS, draw
from hypothesis import strategies as st
from stage import HERE, ROOT, Program, Stage, wait

FILES = [*sorted((ROOT / "config").glob("*.yaml")), HERE / "cell.yaml"]
CHUNK = 200
TIMEOUT_PER_FILE = 0.5  # of the check on a busy machine [s]
VALUES = st.one_of(
    NUMBERS, TEXTS, st.integers(), st.booleans(), st.none(), st.lists(NUMBERS, max_size=8),
    st.just({}), st.just([[1.0]]), st.just({"a": {"b": 1}}), st.integers(10**300, 10**320),
    st.lists(TEXTS, max_size=3), st.sampled_from(["fr3", "mujoco", "franka", "off", "1e3", "yes"]),
)  # fmt: skip
PIECES = st.sampled_from(
    ["&a ", "*a", "!!python/object:os.system ", "!!binary x", "\t", ": ", "- ", "{", "]", "# ",
     "\x00", "\xff", "\ufeff", "%YAML 9", "---\n", "...\n", "? ", "<<: ", "'", '"', "0x", "1e999",
     ".nan", "~", "\u202e", "|", ">", "," * 50, "[" * 900]
)  # fmt: skip


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(
        data, list) else ()  # fmt: skip
    for key, value in items:
        found += _paths(value, (*path, key))
    return found


def change(text: str, positions: list[float], value: Any, how: str) -> str:
    """Return a cell file with some values replaced or removed, or keys renamed."""
    data = yaml.safe_load(text)
    for position in positions:
        paths = _paths(data["/**"]["ros__parameters"])
        if not paths:
            break
        path = paths[int(position * len(paths))]
        parent = data["/**"]["ros__parameters"]
        for key in path[:-1]:
            parent = parent[key]
        if how == "replace":
            parent[path[-1]] = copy.deepcopy(value)
        elif how == "remove" or isinstance(parent, list):
            del parent[path[-1]]
        else:
            parent[str(value)[:300]] = parent.pop(path[-1])
    return str(yaml.safe_dump(data, allow_unicode=True))


def scramble(text: str, positions: list[float], piece: str, how: str) -> str:
    """Return a cell file with text inserted, removed, repeated or replaced."""
    for position in positions:
        at = int(position * len(text))
        if how == "insert":
            text = text[:at] + piece + text[at:]
        elif how == "cut":
            text = text[:at] + text[at + 20 :]
        elif how == "double":
            lines = text.splitlines(keepends=True) or [""]
            line = int(position * len(lines))
            text = "".join([*lines[:line], lines[line], *lines[line:]])
        else:
            text = text[:at] + chr(33 + int(position * 1e6) % 94) + text[at + 1 :]
    return text


POSITIONS = st.lists(st.floats(0.0, 0.999), min_size=1, max_size=3)
TEXT = st.sampled_from([file.read_text(encoding="utf-8") for file in FILES])
INPUTS = st.one_of(
    st.builds(change, TEXT, POSITIONS, VALUES, st.sampled_from(["replace", "remove", "rename"])),
    st.builds(change, TEXT, POSITIONS, VALUES, st.just("replace")),
    st.builds(
        scramble, TEXT, POSITIONS, PIECES, st.sampled_from(["insert", "cut", "double", "x"])
    ),
)


class CellFiles:
    """Changed cell files for `multipanda check`, and some of them for the node."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage, self.ledger, self.number = stage, stage.ledger, number
        self._rng = random.Random(number)
        self.valid: list[Path] = []
        self.invalid: list[Path] = []

    def check(self, count: int) -> None:
        """Check that the command prints a line per file, no traceback, and ends in time."""
        kind = "cell files to `multipanda check`"
        for begin in range(0, count, CHUNK):
            self.number += 1
            folder = self.stage.folder / f"cells_{self.number}"
            folder.mkdir()
            files = []
            for index, text in enumerate(draw(INPUTS, min(CHUNK, count - begin), self.number)):
                files.append(folder / f"{index}.yaml")
                files[-1].write_bytes(text.encode("utf-8", errors="surrogatepass"))
            self._check(kind, files)
        self.stage.nothing_left(kind)

    def _check(self, kind: str, files: list[Path]) -> None:
        started = time.monotonic()
        program = Program(self.stage, "check", "multipanda_py.apps.cli", "check", *map(str, files))
        limit = 20.0 + TIMEOUT_PER_FILE * len(files)
        code = program.ended(limit)
        self.ledger.expect(code in (0, 1), kind, f"exit code {code} after {limit:g} s: "
                           f"{program.log[-800:]}")  # fmt: skip
        self.ledger.times["check of a cell file"].append((time.monotonic() - started) / len(files))
        log = program.log
        valid = [file for file in files if f"{file}: ok" in log]
        invalid = [file for file in files if file not in valid]
        missing = [
            file for file in invalid if not re.search(rf"^{re.escape(str(file))}", log, re.M)
        ]
        for file in missing:
            self.ledger.fail(kind, f"no line for {file.read_text('utf-8', 'replace')}")
        self.ledger.count(kind, len(files), len(invalid))
        self.valid += valid
        self.invalid += invalid
        self.stage.judge(kind, program)

    def start(self, count: int) -> None:
        """Check that the node starts with valid files and reports errors in invalid ones."""
        for files, starts in ((self.valid, True), (self.invalid, False)):
            for file in self._rng.sample(files, min(len(files), count // 2)):
                self._start(file, starts)

    def _start(self, file: Path, starts: bool) -> None:
        kind = "cell files to the node"
        if starts and "franka" in file.read_text(encoding="utf-8", errors="replace"):
            return  # no such robots exist
        self.ledger.count(kind, 1, not starts)
        node = self.stage.node(file, "realtime.priority:=0")
        wait(lambda: "is active" in node.log or not node.runs, 40.0)
        active = "is active" in node.log
        node.send(2)
        code = node.ended()
        text = file.read_text(encoding="utf-8", errors="replace")
        as_expected = active if starts else "FATAL" in node.log and code == 1
        checked = "valid" if starts else "invalid"
        self.ledger.expect(
            as_expected,
            kind,
            f"checked as {checked}, code {code}: {node.log[-600:]}\n{text}",
        )
        self.stage.nothing_left(kind)
        self.stage.judge(kind, node)
