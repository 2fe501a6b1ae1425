# SPDX-License-Identifier: Apache-2.0
"""The script that makes the environment leaves what is not its own alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(not (ROOT / "tools/make_env.py").exists(), reason="no tools beside the tests")
def test_a_linked_environment_of_another_checkout_was_emptied(tmp_path):
    """Worktrees share one by a link: whoever worked with it had none."""
    (checkout := tmp_path / "checkout").mkdir()
    for name in ("setup.py", "setup.cfg", "package.xml"):
        shutil.copy(ROOT / name, checkout)
    shutil.copytree(ROOT / "tools", checkout / "tools")
    (shared := tmp_path / "shared").mkdir()
    for name in ("pyvenv.cfg", "thing"):
        (shared / name).touch()
    (checkout / ".venv").symlink_to(shared)
    done = subprocess.run(
        [sys.executable, checkout / "tools/make_env.py"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"is a link to {shared}" in done.stderr
    assert {path.name for path in shared.iterdir()} == {"pyvenv.cfg", "thing"}
