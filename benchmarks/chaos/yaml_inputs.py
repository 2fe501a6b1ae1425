# SPDX-License-Identifier: Apache-2.0
"""Cell files with something changed, for `multipanda check` and for the node itself."""

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
PER_FILE = 0.5  # longest time to check one, on a busy machine [s]
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


def change(text: str, places: list[float], value: Any, how: str) -> str:
    """Return a cell file with some values replaced, left out or renamed."""
    data = yaml.safe_load(text)
    for place in places:
        paths = _paths(data["/**"]["ros__parameters"])
        if not paths:
            break
        path = paths[int(place * len(paths))]
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


def scramble(text: str, places: list[float], piece: str, how: str) -> str:
    """Return a cell file with its text cut, doubled, or with something in between."""
    for place in places:
        at = int(place * len(text))
        if how == "insert":
            text = text[:at] + piece + text[at:]
        elif how == "cut":
            text = text[:at] + text[at + 20 :]
        elif how == "double":
            lines = text.splitlines(keepends=True) or [""]
            line = int(place * len(lines))
            text = "".join([*lines[:line], lines[line], *lines[line:]])
        else:
            text = text[:at] + chr(33 + int(place * 1e6) % 94) + text[at + 1 :]
    return text


PLACES = st.lists(st.floats(0.0, 0.999), min_size=1, max_size=3)
TEXT = st.sampled_from([file.read_text(encoding="utf-8") for file in FILES])
INPUTS = st.one_of(
    st.builds(change, TEXT, PLACES, VALUES, st.sampled_from(["replace", "remove", "rename"])),
    st.builds(change, TEXT, PLACES, VALUES, st.just("replace")),
    st.builds(scramble, TEXT, PLACES, PIECES, st.sampled_from(["insert", "cut", "double", "x"])),
)


class CellFiles:
    """Throw cell files at the command that checks them, and some at the node."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage, self.ledger, self.number = stage, stage.ledger, number
        self._dice = random.Random(number)
        self.good: list[Path] = []
        self.bad: list[Path] = []

    def check(self, count: int) -> None:
        """Expect a line about every file, no trace, and an end in time."""
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
        begun = time.monotonic()
        program = Program(self.stage, "check", "multipanda_py.apps.cli", "check", *map(str, files))
        limit = 20.0 + PER_FILE * len(files)
        code = program.ended(limit)
        self.ledger.expect(code in (0, 1), kind, f"exit code {code} after {limit:g} s: "
                           f"{program.log[-800:]}")  # fmt: skip
        self.ledger.times["check of a cell file"].append((time.monotonic() - begun) / len(files))
        log = program.log
        good = [file for file in files if f"{file}: ok" in log]
        bad = [file for file in files if file not in good]
        unsaid = [file for file in bad if not re.search(rf"^{re.escape(str(file))}", log, re.M)]
        for file in unsaid:
            self.ledger.fail(kind, f"nothing is said of {file.read_text('utf-8', 'replace')}")
        self.ledger.throw(kind, len(files), len(bad))
        self.good += good
        self.bad += bad
        self.stage.judge(kind, program)

    def start(self, count: int) -> None:
        """Expect of the node what the command says: it starts, or names what is wrong."""
        for files, starts in ((self.good, True), (self.bad, False)):
            for file in self._dice.sample(files, min(len(files), count // 2)):
                self._start(file, starts)

    def _start(self, file: Path, starts: bool) -> None:
        kind = "cell files to the node"
        if starts and "franka" in file.read_text(encoding="utf-8", errors="replace"):
            return  # there are no such robots
        self.ledger.throw(kind, 1, not starts)
        node = self.stage.node(file, "realtime.priority:=0")
        wait(lambda: "is active" in node.log or not node.runs, 40.0)
        active = "is active" in node.log
        node.send(2)
        code = node.ended()
        text = file.read_text(encoding="utf-8", errors="replace")
        shown = active if starts else "FATAL" in node.log and code == 1
        self.ledger.expect(shown, kind, f"checked as {'good' if starts else 'bad'}, code {code}: "
                           f"{node.log[-600:]}\n{text}")  # fmt: skip
        self.stage.nothing_left(kind)
        self.stage.judge(kind, node)
