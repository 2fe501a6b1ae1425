# SPDX-License-Identifier: Apache-2.0
"""Script that makes the environment: links, background builds and failures."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import is_running, wait_until
from repository import ROOT

pytestmark = pytest.mark.inline

needs_tools = pytest.mark.skipif(
    not (ROOT / "tools/make_env.py").exists(), reason="no tools beside the tests"
)


@needs_tools
def test_linked_environment_of_other_checkout_was_emptied(tmp_path):
    """Worktrees share an environment by a link."""
    (checkout := tmp_path / "checkout").mkdir()
    for name in ("setup.py", "setup.cfg", "package.xml"):
        shutil.copy(ROOT / name, checkout)
    shutil.copytree(ROOT / "tools", checkout / "tools")
    (shared := tmp_path / "shared").mkdir()
    for name in ("pyvenv.cfg", "package"):
        (shared / name).touch()
    (checkout / ".venv").symlink_to(shared)
    done = subprocess.run(
        [sys.executable, checkout / "tools/make_env.py"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"{shared}" in done.stderr
    assert {path.name for path in shared.iterdir()} == {"pyvenv.cfg", "package"}


@needs_tools
def test_ros2_launch_found_no_files_in_linked_folders(tmp_path):
    """Files are linked instead of folders; links of older versions are replaced."""
    make_env = runpy.run_path(str(ROOT / "tools/make_env.py"))
    share = tmp_path / "share/multipanda_py"
    share.mkdir(parents=True)
    (share / "launch").symlink_to(ROOT / "launch")
    (share / "gone.yaml").symlink_to(tmp_path / "nothing")
    for _ in range(2):  # a second run changes nothing
        make_env["link_into"](tmp_path)
        found = {
            str(Path(folder, name).relative_to(share))
            for folder, _, names in os.walk(share)
            for name in names
        }
        assert {"package.xml", "launch/sim.launch.py", "config/quad_sim.yaml"} < found
        assert not any("pycache" in name or name == "gone.yaml" for name in found)
    assert (share / "launch/sim.launch.py").resolve() == ROOT / "launch/sim.launch.py"
    assert (tmp_path / "lib/multipanda_py/multimode_controller").is_symlink()


@needs_tools
def test_failed_installation_left_background_build_running(tmp_path):
    """Children of the build end too."""
    make_env = runpy.run_path(str(ROOT / "tools/make_env.py"))
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! > {pids}; echo $$ >> {pids}; wait"
    building = make_env["Running"](["sh", "-c", script], dict(os.environ), tmp_path / "log")
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    building.stop()
    wait_until(lambda: not any(map(is_running, map(int, pids.read_text().split()))))
    assert "$ sh -c" in (tmp_path / "log").read_text()


@needs_tools
def test_failed_command_is_reported_with_end_of_log(tmp_path, capsys):
    make_env = runpy.run_path(str(ROOT / "tools/make_env.py"))
    log = tmp_path / "log"
    log.write_text("of before\n")
    with pytest.raises(SystemExit):
        make_env["Running"](["sh", "-c", "echo why; exit 3"], dict(os.environ), log).finish()
    reported = capsys.readouterr().err
    assert "why\n" in reported
    assert "failed (3)" in reported
    assert "of before" not in reported
