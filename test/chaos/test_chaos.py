# SPDX-License-Identifier: Apache-2.0
"""Short form of `make chaos`, and detection of faults by its watcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import wait_until
from requirements import needs_pylibfranka

if find_spec("rclpy") is None or find_spec("controller_manager_msgs") is None:
    pytest.skip("needs rclpy", allow_module_level=True)

CHAOS = Path(__file__).resolve().parents[2] / "benchmarks" / "chaos"
pytestmark = [pytest.mark.sim, pytest.mark.slow, pytest.mark.inline]

PUBLISHER = """
import time
import rclpy
from sensor_msgs.msg import JointState
rclpy.init()
node = rclpy.create_node("liar")
publisher = node.create_publisher(JointState, "/arm/joint_states", 10)
while not publisher.get_subscription_count():
    time.sleep(0.01)
message = JointState(position=[0.0] * 7)
for index in range(10_000):
    # Current time, then 1 s ahead, then 1 s behind.
    stamp = time.time() + (0.0, 1.0, -1.0)[index % 3]
    message.header.stamp.sec, message.header.stamp.nanosec = int(stamp), int(stamp % 1 * 1e9)
    message.position[0] = 0.1 * (index % 2)
    publisher.publish(message)
    time.sleep(0.01)
"""


class Watcher:
    """Watcher, started as a campaign starts it."""

    def __init__(self):
        self.word = f"test_{os.getpid()}"
        self.process = subprocess.Popen(
            [sys.executable, str(CHAOS / "watcher.py"), f"MULTIPANDA_CHAOS={self.word}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.process.stdout.readline()

    def ask(self, request, **arguments):
        self.process.stdin.write(json.dumps({"do": request, **arguments}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def watcher():
    made = Watcher()
    yield made
    made.process.stdin.close()
    made.process.wait(10.0)
    made.process.stdout.close()


@pytest.mark.long
@pytest.mark.timeout(300)
@needs_pylibfranka
def test_short_campaign_reports_no_failure():
    done = subprocess.run(
        [sys.executable, str(CHAOS / "run.py"), "--seed", "7", "--flood", "1", "--faults", "4",
         "--inputs", "60"],
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]


def test_watcher_detects_orphan_process(watcher):
    orphan = subprocess.Popen(
        ["/bin/sleep", "60"], env=os.environ | {"MULTIPANDA_CHAOS": watcher.word}
    )
    try:
        wait_until(lambda: watcher.ask("processes"), 5.0)
        [found] = watcher.ask("processes")
        assert found["pid"] == orphan.pid
        assert "sleep 60" in found["what"]
    finally:
        orphan.kill()
        orphan.wait()
    wait_until(lambda: not watcher.ask("processes"), 5.0)


def test_watcher_detects_motion_and_wrong_stamps(watcher):
    liar = subprocess.Popen([sys.executable, "-c", PUBLISHER])
    try:
        topics, sources = {"arm": "/arm/joint_states"}, {"arm": [liar.pid]}
        watcher.ask("arms", topics=topics, sources=sources)
        wait_until(lambda: watcher.ask("seen")["arm"][0] > 20, 20.0)
        watcher.ask("mark")
        wait_until(lambda: watcher.ask("moved")["arm"] > 0.05, 5.0)
        text = " ".join(watcher.ask("breaches"))
        assert "ahead of now" in text
        assert "before the last one" in text
        assert not watcher.ask("memory")
    finally:
        liar.kill()
        liar.wait()


def started_by(campaign):
    """Return the running processes of a campaign and their descendants."""
    word = f"MULTIPANDA_CHAOS=chaos_{campaign}".encode()

    def ours(pid):
        try:
            return word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if ours(pid)]


@pytest.mark.long
def test_interrupted_campaign_left_node_and_robots_running():
    """rclpy handled the signal, and the answer to another request was read as the list."""
    campaign = subprocess.Popen(
        [sys.executable, str(CHAOS / "run.py"), "--faults", "1", "--inputs", "0"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),  # Background process.
    )  # fmt: skip
    try:
        wait_until(lambda: started_by(campaign.pid), 15.0)
        campaign.send_signal(signal.SIGINT)
        assert campaign.wait(40.0) != 0
        assert not started_by(campaign.pid)
    finally:
        campaign.kill()
        campaign.wait()


@pytest.mark.long
def test_killed_campaign_left_node_and_loop_running():
    """Campaign that a timeout kills before its own cleanup."""
    run = subprocess.Popen(
        [sys.executable, str(CHAOS / "run.py"), "--faults", "0", "--inputs", "1000"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: len(started_by(run.pid)) > 1, 15.0)
        run.kill()
        run.wait(10.0)
        wait_until(lambda: not started_by(run.pid), 30.0)
    finally:
        run.kill()
        run.wait()


def campaign(*options):
    done = subprocess.run(
        [sys.executable, str(CHAOS / "run.py"), *map(str, options)],
        capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    return done.returncode, done.stdout


def record(file, done, broke):
    ledger = {"thrown": {"kicks": 3}, "refused": {"kicks": 1}, "spoiled": {}, "broke": broke,
              "times": {"stop": [0.002]}}  # fmt: skip
    file.write_text(json.dumps({"done": done, "ledger": ledger}))
    return file


@pytest.mark.long
def test_continued_campaign_skips_recorded_parts(tmp_path):
    parts = ["seed 7, faults of robots 0: 1", "seed 7, kills 0: 1"]
    code, reported = campaign("--faults", 2, "--inputs", 0, "--seed", 7, "--record",
                          record(tmp_path / "record.json", parts, {}))  # fmt: skip
    assert code == 0, reported
    assert "| kicks | 3 | 1 |  | 0 |" in reported
    assert "SIG" not in reported  # The continued campaign injects nothing.


def test_merged_campaigns_keep_all_failures(tmp_path):
    files = [
        record(tmp_path / "one.json", [], {}),
        record(tmp_path / "other.json", [], {"kicks": ["it fell"]}),
    ]
    code, reported = campaign("--merge", *files)
    assert code == 1
    assert "| kicks | 6 | 2 |  | 1 |" in reported
    assert "kicks: it fell" in reported
    assert "| `/stop` without other load | 2 | 2.0 |" in reported
