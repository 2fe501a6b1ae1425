# SPDX-License-Identifier: Apache-2.0
"""Cached package folders of tests: built once, and rebuilt after a reported failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
if not TOOLS.is_dir():
    pytest.skip("no tools beside the tests", allow_module_level=True)
sys.path.append(str(TOOLS))
from kept_folder import is_made, kept_folder, make_once  # noqa: E402

pytestmark = pytest.mark.inline


@pytest.fixture
def requirements(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "requirements.txt"
    file.write_text("one==1\n")
    return file


def test_folder_is_rebuilt_only_for_changed_requirements(requirements):
    folder = kept_folder("packages", requirements)
    command = ["/bin/sh", "-c", f"mkdir -p {folder}; echo again >>{folder}/log"]
    for _ in range(2):
        assert make_once(folder, [command]) == ""
    assert is_made(folder)
    assert (folder / "log").read_text() == "again\n"
    requirements.write_text("one==2\n")
    assert not is_made(kept_folder("packages", requirements))


def test_incomplete_folder_is_rebuilt_and_failure_reported(requirements):
    folder = kept_folder("packages", requirements)
    half = ["/bin/sh", "-c", f"mkdir -p {folder}; touch {folder}/half"]
    assert make_once(
        folder, [half, ["/bin/sh", "-c", "echo a >&2; echo no index >&2; exit 3"]]
    ) == ("no index")
    assert not is_made(folder)
    assert make_once(folder, [["/bin/sh", "-c", f"mkdir {folder}"]]) == ""
    assert is_made(folder)
    assert not (folder / "half").exists()
