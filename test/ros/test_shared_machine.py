# SPDX-License-Identifier: Apache-2.0
"""The node on a shared machine: clock, shared memory and discovery."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from pathlib import Path

import pytest
from cell_names import LEFT_JOINTS
from diagnostic_msgs.msg import DiagnosticStatus
from processes import TIMEOUT_SCALE
from rclpy.time import Time
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from multipanda_py.realtime.system.dds import SEGMENT_FOLDER

pytestmark = pytest.mark.node

SEGMENT = re.compile(r"/dev/shm/(fast(?:dds|rtps)_[0-9a-f]{16})$", re.MULTILINE)


def segments_of(pid):
    return set(SEGMENT.findall(Path(f"/proc/{pid}/maps").read_text()))


@pytest.mark.long
def test_targets_are_rejected_until_clock_arrives(start, client):
    """Targets of any age were accepted before, as stamped in 1970."""
    node = start("use_sim_time:=true", remap=["__ns:=/timeless"]).wait_for("is active")
    status = lambda: client.diagnosis(f"{node.name}/left")[1]  # noqa: E731
    status()
    target = JointState(name=LEFT_JOINTS, position=[0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])

    def refused():
        return int(status()["rejected targets"]) > 0

    client.stream("/timeless/left/target_joint", target, refused, "refusal")
    assert "/clock" in status()["last rejection"]
    assert "use_sim_time" in node.log

    seconds = 1000

    def accepted():
        nonlocal seconds
        seconds += 1
        client.publish("/clock", Clock(clock=target.header.stamp.__class__(sec=seconds)))
        values = status()
        accepted_now = int(values["target messages"]) - int(values["rejected targets"])
        return accepted_now > 0

    client.stream("/timeless/left/target_joint", target, accepted, "an accepted target")
    level = client.diagnosis(f"{node.name}/left")[0].level
    assert level == DiagnosticStatus.OK


def test_invalid_use_sim_time_ended_node_with_traceback(start):
    node = start("use_sim_time:=maybe")
    assert node.process.wait(20.0 * TIMEOUT_SCALE) == 1
    assert "[FATAL]" in node.log
    assert "'use_sim_time' to 'maybe'" in node.log
    assert "Traceback" not in node.log


@pytest.fixture
def on_clock(start, client):
    """A node with the time of /clock, before the first message on /clock."""
    node = start("use_sim_time:=true", remap=["__ns:=/timeless"]).wait_for("is active")
    return node, lambda: client.diagnosis(node.name)


def tick(client, seconds):
    client.publish("/clock", Clock(clock=Time(seconds=seconds).to_msg()))


@pytest.mark.slow
def test_states_have_no_zero_stamps_and_stopped_clock_is_reported(on_clock, client):
    node, status = on_clock
    newest = client.listen(JointState, "/timeless/joint_states")

    def summary(text, level):
        return lambda: text in status()[0].message and status()[0].level == level

    nothing = (
        "no message has arrived on /clock; states are not published, and targets are rejected"
    )
    client.until(summary(nothing, DiagnosticStatus.ERROR), what=nothing)
    assert status()[1]["time"].endswith(" /clock")
    assert newest() is None

    seconds, stamps = 1000, []

    def ticking():
        nonlocal seconds
        seconds += 1
        tick(client, seconds)
        if newest() is not None:
            stamps.append(Time.from_msg(newest().header.stamp).nanoseconds)
        return len(stamps) > 20 and status()[1]["time"] == "/clock"

    client.until(ticking, what="states stamped by /clock")
    assert min(stamps) > 1000e9
    assert max(stamps) <= seconds * 1e9
    assert stamps == sorted(stamps)

    target = JointState(name=LEFT_JOINTS, position=[0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
    stands = "/clock has not changed for"
    client.until(summary(stands, DiagnosticStatus.WARN), what=stands)
    target.header.stamp = Time(seconds=seconds).to_msg()  # current by the stopped clock
    values = lambda: client.diagnosis(f"{node.name}/left")[1]  # noqa: E731
    client.stream(
        "/timeless/left/target_joint", target, lambda: stands in values()["last rejection"], stands
    )
    assert stands in node.log
    client.until(lambda: ticking() and stands not in status()[0].message, what="advancing time")
    assert "/clock continues" in node.log


def is_free(name):
    """Return whether a segment exists without a live owner."""
    try:
        with (SEGMENT_FOLDER / f"{name}_el").open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


@pytest.mark.long
def test_next_start_frees_shared_memory_of_killed_node(start):
    usual = {"FASTDDS_DEFAULT_PROFILES_FILE": "", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    node = start(environment=usual).wait_for("is active")
    mapped = segments_of(node.process.pid)  # its own and those of its peers
    if not mapped:
        pytest.skip("this middleware has no segments of that kind")
    assert node.end(signal.SIGKILL) == -signal.SIGKILL
    left = {name for name in mapped if is_free(name)}
    assert left, "segments removed by another process"
    for name in left:
        os.utime(SEGMENT_FOLDER / f"{name}_el", (time.time() - 60.0,) * 2)
    start(environment=usual).wait_for("is active")
    assert not [name for name in left if (SEGMENT_FOLDER / name).exists()]
    # segments of this live process
    assert all((SEGMENT_FOLDER / name).exists() for name in mapped - left)
