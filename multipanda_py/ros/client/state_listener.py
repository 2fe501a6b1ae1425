# SPDX-License-Identifier: Apache-2.0
"""Node that writes the arm states of a cell to standard output.

Run by ``multipanda shadow --topics`` as ``python -m multipanda_py.ros.client.state_listener
NAMESPACE ARM ...``. Every state is one line of JSON, until standard input ends. The cell may run
on another machine. The process that computes the twins uses no ROS.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from typing import Any

import rclpy
from geometry_msgs.msg import WrenchStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

from multipanda_py.realtime.system.dds import announce_without_types

SENSOR_QOS = QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT)
"""QoS profile of sensor data: a lost message is not repeated."""


class ArmListener:
    """Subscriptions to joints and wrench of an arm; writes both as one line if stamps agree.

    Args:
        node: Node that subscribes.
        namespace: Namespace of the cell, with a slash at its end.
        arm: Name of the arm.
    """

    def __init__(self, node: Any, namespace: str, arm: str) -> None:
        self._arm = arm
        self._joints: JointState | None = None
        self._wrench: WrenchStamped | None = None
        for kind, name, take in (
            (JointState, "joint_states", self._take_joints),
            (WrenchStamped, "external_wrench", self._take_wrench),
        ):
            node.create_subscription(kind, f"{namespace}{arm}/{name}", take, SENSOR_QOS)

    def _take_joints(self, message: JointState) -> None:
        self._joints = message
        self._log()

    def _take_wrench(self, message: WrenchStamped) -> None:
        self._wrench = message
        self._log()

    def _log(self) -> None:
        joints, wrench = self._joints, self._wrench
        if joints is None or wrench is None or joints.header.stamp != wrench.header.stamp:
            return
        self._joints = self._wrench = None
        stamp, force, torque = joints.header.stamp, wrench.wrench.force, wrench.wrench.torque
        message = {
            "arm": self._arm, "time": stamp.sec + 1e-9 * stamp.nanosec,
            "joints": list(joints.name), "q": list(joints.position),
            "dq": list(joints.velocity), "tau": list(joints.effort),
            "wrench": [force.x, force.y, force.z, torque.x, torque.y, torque.z],
        }  # fmt: skip
        sys.stdout.write(f"{json.dumps(message)}\n")
        sys.stdout.flush()


def main() -> int:
    """Write states until standard input ends or the reader has exited."""
    namespace, *arms = sys.argv[1:]
    root = namespace.strip("/")
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(
        f"shadow_listener_{os.getpid()}", enable_rosout=False, start_parameter_services=False
    )
    for arm in arms:
        ArmListener(node, f"/{root}/" if root else "/", arm)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    with contextlib.suppress(BrokenPipeError):
        while not select.select([0], [], [], 0.0)[0] or os.read(0, 4096):
            executor.spin_once(timeout_sec=0.1)
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
