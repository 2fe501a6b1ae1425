# SPDX-License-Identifier: Apache-2.0
"""The node on a machine that others use too: its clock, its memory, who finds it."""

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
def test_targets_without_a_clock_are_refused_until_there_is_one(start, client):
    """They were taken as from 1970 before, whatever their age."""
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

    def taken():
        nonlocal seconds
        seconds += 1
        client.publish("/clock", Clock(clock=target.header.stamp.__class__(sec=seconds)))
        values = status()
        taken_now = int(values["target messages"]) - int(values["rejected targets"])
        return taken_now > 0

    client.stream("/timeless/left/target_joint", target, taken, "a target that is taken")
    level = client.diagnosis(f"{node.name}/left")[0].level
    assert level == DiagnosticStatus.OK


def test_a_time_that_is_neither_ended_the_node_by_a_traceback(start):
    node = start("use_sim_time:=maybe")
    assert node.process.wait(20.0 * TIMEOUT_SCALE) == 1
    assert "[FATAL]" in node.log
    assert "'use_sim_time' to 'maybe'" in node.log
    assert "Traceback" not in node.log


@pytest.fixture
def on_clock(start, client):
    """A node that takes its time from /clock, which nobody has published yet."""
    node = start("use_sim_time:=true", remap=["__ns:=/timeless"]).wait_for("is active")
    return node, lambda: client.diagnosis(node.name)


def tick(client, seconds):
    client.publish("/clock", Clock(clock=Time(seconds=seconds).to_msg()))


@pytest.mark.slow
def test_states_are_not_stamped_zero_and_a_clock_that_stops_is_said(on_clock, client):
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
    target.header.stamp = Time(seconds=seconds).to_msg()  # as of now, by a clock that has stopped
    values = lambda: client.diagnosis(f"{node.name}/left")[1]  # noqa: E731
    client.stream(
        "/timeless/left/target_joint", target, lambda: stands in values()["last rejection"], stands
    )
    assert stands in node.log
    client.until(lambda: ticking() and stands not in status()[0].message, what="time goes on")
    assert "/clock continues" in node.log


def is_free(name):
    """Return whether a segment is there and no living process holds it."""
    try:
        with (SEGMENT_FOLDER / f"{name}_el").open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


@pytest.mark.long
def test_memory_that_a_killed_node_leaves_is_freed_by_the_next_start(start):
    usual = {"FASTDDS_DEFAULT_PROFILES_FILE": "", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    node = start(environment=usual).wait_for("is active")
    mapped = segments_of(node.process.pid)  # its own, and those of whom it talks with
    if not mapped:
        pytest.skip("this middleware has no segments of that kind")
    assert node.end(signal.SIGKILL) == -signal.SIGKILL
    left = {name for name in mapped if is_free(name)}
    assert left, "somebody else cleans up now"
    for name in left:
        os.utime(SEGMENT_FOLDER / f"{name}_el", (time.time() - 60.0,) * 2)
    start(environment=usual).wait_for("is active")
    assert not [name for name in left if (SEGMENT_FOLDER / name).exists()]
    # of this process, which lives
    assert all((SEGMENT_FOLDER / name).exists() for name in mapped - left)
