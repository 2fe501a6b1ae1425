# SPDX-License-Identifier: Apache-2.0
"""``multipanda residual node`` with the states of a third-party simulator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from residual_weights import write_residual
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.residual.runtime import CorrectedStates
from multipanda_py.robots.residual.weights import load_residual

pytestmark = pytest.mark.node
ROBOT = ArmDescription("arm").robot
NAMES = [f"sim_fr3_joint{number}" for number in range(1, 8)] + ["sim_fr3_finger"]


@pytest.fixture
def node(tmp_path):
    """Start the command; yield the weights' file and the process."""
    file = tmp_path / "residual.npz"
    write_residual(file, ROBOT)
    command = [sys.executable, "-m", "multipanda_py.apps.cli", "residual", "node", str(file)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--remap", "joint_states:=sim/joint_states"], stdout=log,
            stderr=subprocess.STDOUT, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        yield file, process, tmp_path / "log"
        process.kill()
        process.wait()


def message(number):
    """Return a state of a 100 Hz stream: all joints and a finger."""
    time = number / 100.0
    reported = JointState(name=NAMES)
    reported.header.stamp.sec, reported.header.stamp.nanosec = divmod(round(time * 1e9), 10**9)
    q = np.array([*ROBOT.ready, 0.0]) + 0.1 * np.sin(time + np.arange(8))
    reported.position, reported.velocity, reported.effort = q.tolist(), [0.1] * 8, [0.5] * 8
    return reported


@pytest.mark.long
@pytest.mark.clock
def test_states_are_corrected_with_confidence(client, node):
    file, process, log = node
    out = client.listen(JointState, "/corrected/joint_states")
    confidence = client.listen(Float64, "/residual/confidence")
    client.stream("/sim/joint_states", message(0), lambda: out() is not None, "a node")
    states = CorrectedStates(load_residual(file))
    states.correct(0.0, rows(message(0))[:, :7].ravel())
    for number in range(1, 160):
        reported = message(number)
        client.publish("/sim/joint_states", reported)
        client.until(
            lambda reported=reported: out().header.stamp == reported.header.stamp,
            5.0,
            "a corrected state",
        )
        expected = states.correct(number / 100.0, rows(reported)[:, :7].ravel())
        assert rows(out())[:, :7].ravel() == pytest.approx(expected, abs=1e-9), number
        assert rows(out())[:, 7] == pytest.approx(rows(reported)[:, 7])  # fingers pass unchanged
    client.until(lambda: confidence().data == 1.0, 5.0, "trust")
    without = message(160)
    without.effort = []
    client.publish("/sim/joint_states", without)
    client.until(lambda: "effort: got 0 numbers" in log.read_text(), 5.0, "a reason")
    for _ in range(30):
        client.publish("/sim/joint_states", message(161))
    client.until(lambda: "time stamps do not change (1.61 s)" in log.read_text(), 5.0, "a warning")
    process.send_signal(signal.SIGINT)
    assert process.wait(10.0) == 0
    assert "Traceback" not in log.read_text()


def test_invalid_remapping_ended_in_traceback_of_rclpy(tmp_path):
    write_residual(tmp_path / "residual.npz", ROBOT)
    command = [sys.executable, "-m", "multipanda_py.apps.cli", "residual", "node"]
    done = subprocess.run(
        [*command, str(tmp_path / "residual.npz"), "--remap", "joint_states"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "multipanda residual node: --remap: " in done.stderr
    assert "Traceback" not in done.stderr


def rows(reported):
    """Return positions, velocities and torques of a message, (3, 8)."""
    return np.array([reported.position, reported.velocity, reported.effort])
