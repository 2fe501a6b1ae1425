# SPDX-License-Identifier: Apache-2.0
"""Commands of README and guides that use ROS 2, one by one, with the clients of users.

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
"""Page whose client commands are run after those of the others."""
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
"""Answer to each command; one process runs them in the order of the pages."""
BEFORE = {"ros2 param set /left/franka": ["service call /stop std_srvs/srv/Trigger"]}
"""Requests that the text demands before a command: an arm takes its load at rest only."""
NODE = ("ros2 launch", "ros2 run", ".venv/bin/multimode_controller")
"""Starts a node."""
OTHERS = (".venv/bin/python examples/05", ".venv/bin/python examples/02")
"""Run by the last test here, and with the other examples."""


def commands(*pages):
    """Return shell lines, and commands within the text, of some pages, as one line each."""
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
    """Return what of the tables a command is, or an empty string."""
    known = (*ANSWERS, *NODE, *OTHERS)
    return next((key for key in known if line.startswith(key)), "")


def is_a_part(line):
    """Return whether it is the name of a command only."""
    return line in ("ros2 control", "ros2 param dump", "multimode_controller")


def test_every_command_of_the_readme_has_a_run():
    found = [line for line in commands() if not is_a_part(line)]
    assert len(found) > 15, found
    assert not [line for line in found if not key_of(line)]
    used = {key_of(line) for line in found}
    assert set(ANSWERS) <= used, "a run for a command that no page has"


@pytest.mark.clock
def test_what_the_readme_calls_is_answered(cell, client, outside):
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
def test_what_the_readme_starts_becomes_active(line, outside, tmp_path):
    tools = ROOT / "tools" / "make_env.py"
    if not tools.exists():
        pytest.skip("no tools beside the tests")
    runpy.run_path(str(tools))["link_into"](tmp_path / "prefix")
    words, log = line.removeprefix("ros2 ").split(), tmp_path / "log"
    domain = claim_domain()  # the shared node has the names
    with log.open("wb") as output:
        it = outside.beside(*words, prefixes=[tmp_path / "prefix"], stdout=output, cwd=ROOT,
                            domain=domain, start_new_session=True)  # fmt: skip
    try:
        wait_until(
            lambda: "is active" in log.read_text() or it.poll() is not None, 30.0, log.read_text
        )
        assert "is active" in log.read_text(), log.read_text()
        left = descendants(it.pid)
        os.killpg(it.pid, signal.SIGINT)  # as a terminal does: ros2 run hands nothing on
        wait_until(lambda: not any(map(is_running, left)), 15.0, log.read_text)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(it.pid, signal.SIGKILL)
        it.wait()


@pytest.mark.long
@pytest.mark.clock
def test_the_client_of_who_has_no_ros2_does_what_it_is_told(fresh_node):
    """In the order of the pages; a reflex and its end are for simulated robots."""
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
