# SPDX-License-Identifier: Apache-2.0
"""Commands and code of doc/adding_an_arm.md, run in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from guides import TOOLS, blocks, check_style, write_files
from repository import ROOT

from multipanda_py.apps.cli import main

GUIDE = (ROOT / "doc" / "adding_an_arm.md").read_text()

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the examples and the files of the guide."""
    root = tmp_path_factory.mktemp("guide")
    (root / "examples").symlink_to(ROOT / "examples")
    (root / "my_arm").mkdir()
    write_files(GUIDE, root)
    return root


@pytest.fixture(scope="module")
def commanded(folder: Path) -> Path:
    """Folder after the commands of the guide."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in "".join(blocks(GUIDE, "sh")).splitlines():
            program, *arguments = line.split()
            assert program == "multipanda"
            code = main(arguments)
            assert code == 0 or arguments[0] == "render", line  # render needs OpenGL
    return folder


def test_guide_commands_write_arm_file(commanded: Path):
    assert (commanded / "my_arm" / "bench_arm.yaml").is_file()


@pytest.mark.slow
def test_guide_program_moves_arm(commanded: Path):
    done = subprocess.run(
        [sys.executable, "move.py"], cwd=commanded, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tool, joints = (float(text) for text in re.findall(r": ([0-9.e-]+) ", done.stdout))
    assert tool < 1.0
    assert joints < 0.005


@pytest.mark.slow
def test_guide_tests_pass(commanded: Path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_arm.py"],
        cwd=commanded, env={**os.environ, "PYTEST_ADDOPTS": ""},  # drops the selection of this run
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_guide_code_passes_repository_linters(folder: Path, tool: list[str]):
    check_style(folder, tool, ["move.py", "test_my_arm.py"], ignore="I001,ANN,T20,D")
