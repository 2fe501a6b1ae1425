# SPDX-License-Identifier: Apache-2.0
"""``ros2 launch``, unmodified, on the launch files: what it starts, and what it leaves."""

from __future__ import annotations

import os
import runpy
import signal
from pathlib import Path

import pytest
from processes import descendants, is_running, wait_until

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "make_env.py"


class Launch:
    """A running ``ros2 launch``, of packages in a prefix as ``make env`` makes it."""

    def __init__(self, outside, folder, *arguments):
        self._log, self._seen = folder / "launch.log", set()
        runpy.run_path(str(TOOLS))["link_into"](folder / "prefix")
        with self._log.open("wb") as output:
            self.process = outside.beside(
                "launch", "multipanda_py", "sim.launch.py", *arguments,
                prefixes=[folder / "prefix"], stdout=output, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")

    def processes(self):
        """Return what it has started so far, also those that are nobody's children any more."""
        self._seen.update(descendants(self.process.pid))
        return self._seen

    def wait_for(self, text):
        """Wait until the log holds a text, or the launch has ended."""
        wait_until(
            lambda: text in self.log or self.process.poll() is not None, 20.0, lambda: self.log
        )
        assert text in self.log, self.log


@pytest.fixture
def launch(outside, tmp_path):
    """A function that launches; whatever is left of it is ended after the test."""
    if not TOOLS.exists():
        pytest.skip("no tools beside the tests")
    started = []

    def start(*arguments):
        started.append(Launch(outside, tmp_path, *arguments))
        return started[-1]

    yield start
    for one in started:
        for pid in filter(is_running, [one.process.pid, *one.processes()]):
            os.kill(pid, signal.SIGKILL)
        one.process.wait()


def test_rviz_that_is_not_installed_left_a_controller_behind(launch):
    it = launch("use_rviz:=true")
    wait_until(lambda: it.process.poll() is not None, 20.0, lambda: it.log)
    assert it.process.returncode != 0
    assert "the package rviz2 is not installed; nothing is started" in it.log
    assert "process started" not in it.log


def test_what_was_launched_ran_on_after_the_launch(launch, client):
    """Also: a cell by its bare name was not found, and robot_state_publisher is no must."""
    it = launch("config_file:=single_sim.yaml", "namespace:=launched")
    it.wait_for("is active")

    def sends_tf():
        found = client.node.get_publishers_info_by_topic("/tf")
        return "/launched" in {one.node_namespace for one in found}

    client.until(sends_tf, what="the node's own /tf")
    left = it.processes()
    assert len(left) >= 2, it.log  # the node and its loop
    it.process.kill()
    wait_until(lambda: not any(map(is_running, left)), 10.0, lambda: f"end of {left}: {it.log}")


def test_tf_is_left_to_robot_state_publisher_where_there_is_one(launch, client, tmp_path):
    program = tmp_path / "prefix" / "lib" / "robot_state_publisher" / "robot_state_publisher"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho takes over\nexec sleep 60\n")
    program.chmod(0o755)
    marker = tmp_path / "prefix/share/ament_index/resource_index/packages/robot_state_publisher"
    marker.parent.mkdir(parents=True)
    marker.touch()
    it = launch("config_file:=single_sim.yaml", "namespace:=with_publisher")
    it.wait_for("is active")
    it.wait_for("takes over")
    topic = "/with_publisher/joint_states"
    client.until(lambda: client.node.count_publishers(topic) == 1, what="the node")
    names = [info.node_namespace for info in client.node.get_publishers_info_by_topic("/tf")]
    assert "/with_publisher" not in names
