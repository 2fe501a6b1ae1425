# SPDX-License-Identifier: Apache-2.0
"""Child processes: import path, closed streams, and killed owners."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from long_form import every_nth

import multipanda_py
from multipanda_py.realtime.system.child_process import ended, module_command
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline


PACKAGE = Path(multipanda_py.__file__).parent
FOREIGN = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\nraise SystemExit(7)"
NAMES = ("pydantic", "numpy", "json", "runpy", "mujoco", "rclpy")


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """Enter a directory with files named like modules that the package imports."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(FOREIGN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.sim
def test_loop_does_not_import_pydantic_from_current_directory(trap):
    cell = simple_cell(placement="process", name=f"trap_{trap.name}"[:40].lower())
    try:
        cell.start()
        cell.wait(lambda: cell.statistics().cycles > 5, 10.0)
    finally:
        cell.close()
    assert not list(trap.glob("*.ran"))


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 12)])
def test_child_ignores_current_directory_and_keeps_pythonpath(trap, monkeypatch, version):
    package = trap / "workspace" / "talker"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "say.py").write_text(
        "import json, runpy, sys\nfrom talker import other\n"
        "if __name__ == '__main__':\n    print(json.dumps([sys.argv[1:], other.__name__]))\n"
    )
    (package / "other.py").touch()
    (package / "json.py").write_text(FOREIGN)  # the folder of the module is ignored, too
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    if version >= (3, 11) > sys.version_info:
        pytest.skip("this Python has no -P")
    done = subprocess.run(
        module_command("talker.say", "one", "--two=2", version=version),
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.stdout == '[["one", "--two=2"], "talker.other"]\n', done.stderr
    assert not list(trap.rglob("*.ran"))


def test_all_processes_of_package_use_module_command():
    starts = {
        file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py")
        if re.search(r"sys\.executable", file.read_text(encoding="utf-8"))
    }  # fmt: skip
    # The benchmark in C++ is run as a file and imports from its own folder.
    assert starts == {"realtime/system/child_process.py", "apps/bench/run.py"}


def test_process_is_killed_after_timeout_or_returns_its_code():
    stubborn = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e3)"])
    assert ended(stubborn, 0.05) == -signal.SIGKILL
    willing = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    assert ended(willing, 60.0) == 3


PROGRAM = """
import os, sys
from multipanda_py.realtime.system.signals import end_at_once
end_at_once("program")
print("lost", file=sys.stderr)
with open(sys.argv[1], "w") as file:
    print(file.fileno(), sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno(), file=file)
    os.write(2, b"what a library says")
"""


@pytest.mark.parametrize("closed", [[2], [1, 2], [0, 1, 2]])
def test_node_without_standard_error_ended_without_message(closed, tmp_path):
    """The executor of rclpy raised, and files opened later received the output of libraries."""
    file = tmp_path / "file"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, file],
        preexec_fn=lambda: [os.close(number) for number in closed],
        timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    number, *streams = file.read_text().split()
    assert streams == ["0", "1", "2"]
    assert int(number) > 2


MODULES = [
    "realtime.process", "realtime.recording.process", "simulation.viewer",
    "ros.topics.camera_node",
]  # fmt: skip
ENDS = """
import sys, threading
from multipanda_py.realtime.system.child_process import lines
told = lines()
print(next(told).decode(), next(told).decode(), flush=True)
threading.Thread(target=next, args=(told, b""), daemon=True).start()
"""


@pytest.mark.parametrize("module", every_nth(4, MODULES))
@pytest.mark.parametrize("reported", [b"", b'{"cell": {'])
def test_process_with_owner_killed_at_start_left_traceback(module, reported):
    if module.startswith("ros."):
        pytest.importorskip("rclpy", reason="there is no ROS")
    done = subprocess.run(
        [sys.executable, "-m", f"multipanda_py.{module}", "9"],
        input=reported, capture_output=True, check=False, timeout=60.0,
    )  # fmt: skip
    assert done.returncode == 1
    assert b"Error" not in done.stderr, done.stderr.decode()


def test_process_waiting_for_owner_in_thread_ended_by_fatal_error():
    """A recorder with a full disk ended while a thread held the lock of standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(b"one\ntwo\nthr")
    process.stdin.flush()
    assert process.stdout.readline() == b"one two\n"
    assert process.wait(20.0) == 0
    assert process.stderr.read() == b""
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
