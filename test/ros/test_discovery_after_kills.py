# SPDX-License-Identifier: Apache-2.0
"""Discovery by new clients after others were killed during discovery."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import TIMEOUT_SCALE, let_pass

from multipanda_py.realtime.system.dds import PROFILE_VARIABLE

pytestmark = [pytest.mark.clock, pytest.mark.node]

LOOPBACK = Path(__file__).resolve().parents[2] / "config" / "fastdds_loopback.xml"
NEWCOMER = """
import sys, time
import rclpy
rclpy.init()
node = rclpy.create_node("newcomer")
print("begins", flush=True)
topics, deadline = 0, time.monotonic() + float(sys.argv[1])
while topics < int(sys.argv[2]) and time.monotonic() < deadline:
    topics = len(node.get_topic_names_and_types())
    time.sleep(0.02)
print(topics, flush=True)
"""


@pytest.fixture
def usual(tmp_path):
    """A Fast DDS profile that announces and requests types, as by default."""
    text = LOOPBACK.read_text()
    begin, end = text.index("<propertiesPolicy>"), text.index("<userTransports>")
    file = tmp_path / "usual.xml"
    file.write_text(text[:begin] + text[end:])
    return file


@pytest.mark.long
def test_killed_clients_hid_most_topics_from_later_clients(start, usual):
    """With the default profile, each later client discovered only 2 topics of 41."""
    start().wait_for("is active")

    def start_client(*arguments):
        return subprocess.Popen(
            [sys.executable, "-c", NEWCOMER, *map(str, arguments)],
            env={**os.environ, PROFILE_VARIABLE: str(usual)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    for wait in (0.2, 0.3, 0.4, 0.5):
        killed = [start_client(10.0, 10**6) for _ in range(4)]
        assert {one.stdout.readline() for one in killed} == {"begins\n"}
        let_pass(wait)  # for their type requests
        for one in killed:
            one.kill()
            one.communicate()
    out, _ = start_client(10.0 * TIMEOUT_SCALE, 40).communicate(timeout=40.0 * TIMEOUT_SCALE)
    assert int(out.split()[-1]) >= 40
