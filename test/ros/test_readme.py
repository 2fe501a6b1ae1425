# SPDX-License-Identifier: Apache-2.0
"""ROS 2 commands of README and guides, each run with the clients of users.

A new command without a run here fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import signal
import subprocess
import sys

import pytest
from claims import claim_domain
from processes import descendants, is_running, wait_until
from repository import ROOT

pytestmark = pytest.mark.node

PAGES = ("README.md", "doc/quick_start.md", "doc/ros_guide.md")
WALK_THROUGH = "doc/bringup.md"
"""Page with client commands that run after those of the other pages."""
SPEAKS_ROS = re.compile(r"ros2 \w|\S*bin/python examples/0[25]|\S*multimode_controller")
ANSWERS = {
    "ros2 service call /controller_manager/list_controllers": "dual_cartesian_impedance",
    "ros2 service call /controller_manager/switch_controller": "ok=True",
    "ros2 service call /left/controller_manager/switch_controller": "ok=True",
    "ros2 control set_hardware_component_state left inactive": "Successfully set left to state",
    "ros2 control set_hardware_component_state left active": "Successfully set left to state",
    "ros2 param describe /left/cartesian_impedance_controller": "Description: ",
    "ros2 param set /left/cartesian_impedance_controller": "Set parameter successful",
    "ros2 param set /left/franka": "Set parameter successful",
    "ros2 service call /left/tare": "success=True",
    "ros2 service call /stop": "every arm holds",
}
"""Expected response to each command; one process runs them in page order."""
BEFORE = {"ros2 param set /left/franka": ["service call /stop std_srvs/srv/Trigger"]}
"""Requests that precede a command: a payload can be set only at rest."""
NODE = ("ros2 launch", "ros2 run", ".venv/bin/multimode_controller")
"""Commands that start a node."""
OTHERS = (".venv/bin/python examples/05", ".venv/bin/python examples/02")
"""Commands run by the last test here or with the other examples."""


def commands(*pages):
    """Return the shell lines and inline commands of pages, one line each."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages or PAGES)
    fences = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = (
        "".join(block for language, block in fences if not language)
        .replace("\\\n", " ")
        .splitlines()
    )
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += re.findall(r"`([^`]+)`", prose)
    found = [" ".join(line.partition("  #")[0].partition("   # ")[0].split()) for line in lines]
    return [line for line in dict.fromkeys(found) if SPEAKS_ROS.match(line)]


def key_of(line):
    """Return the table key of a command, or an empty string."""
    known = (*ANSWERS, *NODE, *OTHERS)
    return next((key for key in known if line.startswith(key)), "")


def is_a_part(line):
    """Return whether a line is only the name of a command."""
    return line in ("ros2 control", "ros2 param dump", "multimode_controller")


def test_every_readme_command_has_run():
    found = [line for line in commands() if not is_a_part(line)]
    assert len(found) > 15, found
    assert not [line for line in found if not key_of(line)]
    used = {key_of(line) for line in found}
    assert set(ANSWERS) <= used, "run of a command that no page contains"


@pytest.mark.clock
def test_readme_requests_are_answered(cell, client, outside):
    lines = [line for line in commands() if key_of(line) in ANSWERS]
    reported, requested = [], []
    for line in lines:
        requested += next((more for key, more in BEFORE.items() if line.startswith(key)), [])
        requested.append(line.removeprefix("ros2 "))
    reported = dict(zip(requested, outside.ros2(*requested, timeout=120.0)))
    try:
        for line in lines:
            assert ANSWERS[key_of(line)] in reported[line.removeprefix("ros2 ")], (line, reported)
    finally:
        outside.ros2("control set_hardware_component_state left active")


@pytest.mark.parametrize(
    "line", [line for line in commands() if line.startswith(("ros2 launch", "ros2 run"))]
)
def test_readme_start_command_reaches_active(line, outside, tmp_path):
    tools = ROOT / "tools" / "make_env.py"
    if not tools.exists():
        pytest.skip("needs the tools of the repository")
    runpy.run_path(str(tools))["link_into"](tmp_path / "prefix")
    words, log = line.removeprefix("ros2 ").split(), tmp_path / "log"
    domain = claim_domain()  # the shared node uses the default names
    with log.open("wb") as output:
        it = outside.beside(*words, prefixes=[tmp_path / "prefix"], stdout=output, cwd=ROOT,
                            domain=domain, start_new_session=True)  # fmt: skip
    try:
        wait_until(
            lambda: "is active" in log.read_text() or it.poll() is not None, 30.0, log.read_text
        )
        assert "is active" in log.read_text(), log.read_text()
        left = descendants(it.pid)
        os.killpg(it.pid, signal.SIGINT)  # as a terminal does; ros2 run forwards no signals
        wait_until(lambda: not any(map(is_running, left)), 15.0, log.read_text)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(it.pid, signal.SIGKILL)
        it.wait()


@pytest.mark.long
@pytest.mark.clock
def test_python_client_commands_succeed_without_ros2(fresh_node):
    """The commands run in page order; a reflex and its recovery need simulated robots."""
    lines = [
        line
        for line in commands(*PAGES, WALK_THROUGH)
        if line.startswith(".venv/bin/python examples/05")
    ]
    assert len(lines) >= 6, lines
    for line in lines:
        words = line.split()[1:]
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=90,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        is_refused = words[1:2] == ["recover"] and "no fault" in done.stdout
        assert done.returncode == 0 or is_refused, (line, done.stdout, done.stderr)
