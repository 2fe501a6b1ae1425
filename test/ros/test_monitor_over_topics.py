# SPDX-License-Identifier: Apache-2.0
"""Digital-twin monitor over ROS topics, on one host and between two hosts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module

import numpy as np
import pytest
from processes import wait_until
from repository import DUAL_SIM, ROOT
from sensor_msgs.msg import JointState

from multipanda_py.apps.commands import monitor_live as heard_over_ros
from multipanda_py.apps.commands.monitor_live import RosInput
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import MonitorRejected
from multipanda_py.identification.monitor.cell_monitor import CellMonitor

pytestmark = [pytest.mark.sim, pytest.mark.clock, pytest.mark.node]
sys.path.append(str(ROOT / "benchmarks"))
network = import_module("parts.network")


@pytest.fixture
def listen():
    received = []

    def begin(*arguments):
        received.append(RosInput(*arguments))
        return received[-1]

    yield begin
    for one in received:
        one.close()


@pytest.mark.long
def test_monitor_tracks_cell_over_topics(cell, client, listen):
    config = CellConfig.from_yaml(DUAL_SIM)
    received, shadow, wrenches = listen("", config, ("left", "right")), CellMonitor(config), []

    def follow():
        logs = received.pop()
        if logs:
            shadow.follow(logs)
            wrenches.append(logs["left"].columns["wrench_ext_in_base"])
        return bool(shadow.last) and all(last.evaluated[-1] for last in shadow.last.values())

    wait_until(follow, 20.0, lambda: "a settled twin")
    for name, found in shadow.last.items():
        joints = client.newest(JointState, f"/{name}/joint_states")
        np.testing.assert_allclose(found.q[-1], joints.position, atol=5e-3)
        np.testing.assert_allclose(found.log.tau[-1], joints.effort, atol=0.2)
    assert len(wrenches) > 3
    assert shadow.mismatches() == []


def test_cell_without_messages_is_reported_with_hint(ros, listen, monkeypatch):
    monkeypatch.setattr(heard_over_ros, "FIRST_STATE_TIMEOUT", 0.2)
    received = listen("nowhere", CellConfig.from_yaml(DUAL_SIM), ("left",))
    with pytest.raises(MonitorRejected, match=r"/nowhere/left/joint_states .*ROS_DOMAIN_ID"):
        wait_until(lambda: received.pop(), 20.0, lambda: "a rejection")


@pytest.mark.long
@pytest.mark.skipif(bool(network.why_not()), reason="needs root and network namespaces")
def test_monitor_on_second_host_tracks_and_warns(tmp_path):
    """The second host also learns the band; then an arm leaves the learnt motion."""
    band, log = tmp_path / "band.yaml", tmp_path / "node.log"
    there = os.environ | {"ROS_DOMAIN_ID": "51", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
    line = [sys.executable, "-m", "multipanda_py.apps.cli", "monitor", "--topics"]
    line += ["--twin", str(DUAL_SIM)]
    with network.Network("first", "second") as hosts, log.open("wb") as output:
        node = subprocess.Popen(
            [*hosts.enter("first"), sys.executable, "-m", "multipanda_py.ros.node.node",
             "--ros-args", "--params-file", str(DUAL_SIM), "-p", "cell.name:=over_there"],
            env=there, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            wait_until(lambda: "is active" in log.read_text(), 60.0, log.read_text)
            learnt = subprocess.run(
                [*hosts.enter("second"), *line, "--learn", "--duration", "8", "-o", str(band)],
                env=there, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            sys.stderr.write(learnt.stdout)
            assert learnt.returncode == 0, learnt.stderr
            before, begun = hosts.sent("first"), time.monotonic()
            quiet = subprocess.run(
                [*hosts.enter("second"), *line, "--band", str(band), "--duration", "6"],
                env=there, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            sent = hosts.sent("first")[0] - before[0]
            sys.stderr.write(f"{sent / 1e3 / (time.monotonic() - begun):.0f} kB/s\n")
            assert quiet.returncode == 0, quiet.stdout + quiet.stderr
            assert "within the band throughout" in quiet.stdout
            watching = subprocess.Popen(
                [*hosts.enter("second"), *line, "--band", str(band), "--ros"],
                env=there, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            try:
                assert watching.stdout.readline().startswith("following left, right")
                talk = [sys.executable, str(ROOT / "examples/05_talk_to_the_node.py")]
                for words in (["switch", "dual_cartesian_impedance_controller"],
                              ["move", "left", "0", "0", "0.1"]):  # fmt: skip
                    subprocess.run(
                        [*hosts.enter("first"), *talk, *words], env=there, check=True, timeout=60
                    )
                echo = "import rclpy; from diagnostic_msgs.msg import DiagnosticArray as A"
                subprocess.run(
                    [*hosts.enter("first"), sys.executable, "-c", f"{echo}\n{AWAIT_WARNING}"],
                    env=there, check=True, timeout=60,
                )  # fmt: skip
            finally:
                watching.send_signal(signal.SIGINT)
                out, err = watching.communicate(timeout=60)
            assert watching.returncode == 1, out + err
            assert "warning: left: " in err
        finally:
            node.send_signal(signal.SIGINT)
            node.wait(60)


AWAIT_WARNING = """
rclpy.init()
node, found = rclpy.create_node("hear"), []
node.create_subscription(
    A, "/diagnostics",
    lambda m: found.extend(s for s in m.status if (s.name, s.level) == ("shadow: left", b"\\x01")),
    10)
while not found:
    rclpy.spin_once(node)
"""
"""Script that ends once the host of the cell receives the warning of the monitor."""
