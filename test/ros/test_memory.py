# SPDX-License-Identifier: Apache-2.0
"""Memory growth of state publishing."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest
from claims import claim_domain

MEASURE = """
import ctypes, gc, sys
kept = []
import pinocchio as pin
import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.topics.publishers import StatePublishers
from multipanda_py.testing import simple_cell

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo
rclpy.init()
node, listener = rclpy.create_node("memory"), rclpy.create_node("listener")
kinds = {"joint_states": JointState, "arm/joint_states": JointState,
         "arm/current_pose": PoseStamped, "arm/current_twist": TwistStamped,
         "arm/external_wrench": WrenchStamped}
with simple_cell(arms={"arm": {}}) as cell:
    publishers = StatePublishers(node, cell, NodeClock(node.get_clock()))
    for topic, kind in kinds.items():
        listener.create_subscription(kind, topic, print, 1)  # never spun; only creates demand
    while any(node.count_subscribers(topic) < 1 for topic in kinds):
        pass
    [timer] = node.timers

    def in_use_after(count):
        for _ in range(count):
            cell.step(1)
            timer.callback()
            LEAK
        gc.collect()
        return libc.mallinfo2().uordblks, sys.getallocatedblocks()

    marks = [in_use_after(1000) for _ in range(4)]
    # A leak grows in every part; memory of the middleware's threads fluctuates.
    for kind in range(2):
        values = [mark[kind] for mark in marks]
        print(min(after - before for before, after in zip(values, values[1:])) / 1000)
"""
pytestmark = [
    pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33"),
    pytest.mark.node,
]


def growth_per_call(leak="pass"):
    """Return the growth per call of allocated bytes and of Python's memory blocks."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.replace("LEAK", leak)],
        capture_output=True, text=True, check=False, timeout=100,
        env=os.environ | {"ROS_DOMAIN_ID": str(claim_domain())},  # without other nodes
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return map(float, done.stdout.split())


def test_publishing_states_does_not_leak_memory():
    """A leak of 80 bytes per pose exceeded a gigabyte per day.

    The measure is allocated bytes, as resident pages fluctuate.
    """
    size, blocks = growth_per_call()
    assert size < 8.0
    assert blocks < 0.05


@pytest.mark.slow
def test_leak_of_eighty_bytes_per_call_is_detected():
    size, blocks = growth_per_call("pin.Quaternion(np.eye(3)); kept.append(object())")
    assert 70.0 < size < 200.0
    assert blocks > 0.9
