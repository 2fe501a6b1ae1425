# SPDX-License-Identifier: Apache-2.0
"""Code blocks of the guides in ``doc/``, written to files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from repository import ROOT

TOOLS = [["ruff", "check"], ["ruff", "format", "--check"]]


def blocks(guide: str, language: str) -> list[str]:
    """Return the code blocks of a language in the text of a guide."""
    return re.findall(rf"^```{language}\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)


def write_files(guide: str, folder: Path) -> None:
    """Write blocks of Python and YAML to the files in their first lines."""
    for block in (*blocks(guide, "python"), *blocks(guide, "yaml")):
        (folder / block.split("\n", 1)[0].removeprefix("# ")).write_text(block)


def write_package(guide: str, folder: Path, name: str) -> None:
    """Write the files of a guide, and package metadata as pip does."""
    write_files(guide, folder)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(blocks(guide, "ini")))


def check_style(
    folder: Path,
    tool: Sequence[str],
    checked: Sequence[str],
    formatted: Sequence[str] = (),
    ignore: str = "I001",
) -> None:
    """Check files by the rules of this repository, with one of :data:`TOOLS`.

    Args:
        folder: Folder of the files.
        tool: Program and subcommand.
        checked: Names of the files for ``ruff check``.
        formatted: Names of the files for ``ruff format``, by default the same.
        ignore: Rules that do not apply to examples.
    """
    pytest.importorskip("ruff")
    line = ["--config", str(ROOT / "pyproject.toml"), "--ignore", ignore, *checked]
    if "format" in tool:
        line = ["--line-length", "99", *(formatted or checked)]
    done = subprocess.run(
        [sys.executable, "-m", *tool, *line], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
