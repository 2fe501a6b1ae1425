# SPDX-License-Identifier: Apache-2.0
"""What publishing the states for a long time leaves behind."""

from __future__ import annotations

import subprocess
import sys

MEASURE = """
from pathlib import Path
import rclpy
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState
from multipanda_py.ros.clock import NodeClock
from multipanda_py.ros.publishers import StatePublishers
from multipanda_py.testing import simple_cell

rclpy.init()
node, listener = rclpy.create_node("memory"), rclpy.create_node("listener")
kinds = {"joint_states": JointState, "arm/joint_states": JointState,
         "arm/current_pose": PoseStamped, "arm/current_twist": TwistStamped,
         "arm/external_wrench": WrenchStamped}
with simple_cell(arms={"arm": {}}) as cell:
    publishers = StatePublishers(node, cell, NodeClock(node.get_clock()))
    for topic, kind in kinds.items():
        listener.create_subscription(kind, topic, print, 1)  # never served: only wanted
    while any(node.count_subscribers(topic) < 1 for topic in kinds):
        pass
    [timer] = node.timers

    def resident_after(count):
        for _ in range(count):
            cell.step(1)
            timer.callback()
        return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

    marks = [resident_after(9000), *(resident_after(COUNT) for _ in range(4))]
    # What leaks does so in every part; pages that the middleware takes come now and then.
    print(min(after - before for before, after in zip(marks, marks[1:])) / COUNT)
"""


def test_publishing_every_state_leaves_no_memory_behind() -> None:
    """80 bytes for every pose were more than a gigabyte a day."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.replace("COUNT", "2000")],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 4.0
