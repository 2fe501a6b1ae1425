# SPDX-License-Identifier: Apache-2.0
"""Node that corrects simulated joint states by a residual network to match the robot.

Run by ``multipanda residual node`` as ``python -m multipanda_py.ros.node.residual_node FILE
PREFIX``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.runtime import CorrectedStates, indices_of
from multipanda_py.robots.residual.weights import TrainedResidual, load_residual
from multipanda_py.ros.node.qos import DATA_QOS, STATE_QOS

STATES_QOS = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
"""QoS profile of the input. The network needs every state, hence the queue."""
MAX_LOGGED_REASONS = 20
"""Maximum number of different reasons that are logged."""
MAX_EQUAL_STAMPS = 20
"""Number of states with the same stamp after which a warning is logged."""


class ResidualNode:
    """Publisher of corrected joint states and of the confidence of the correction.

    Topics: input ``joint_states``, outputs ``corrected/joint_states`` and ``residual/confidence``.
    Unknown joints pass unchanged. Incomplete messages are dropped, and each reason is logged once.

    Thread: executor.
    """

    def __init__(self, node: Any, trained: TrainedResidual, prefix: str) -> None:
        self._node, self._prefix = node, prefix
        self._joints, self._states = trained.joints, CorrectedStates(trained)
        self._names: list[str] = []
        self._indices: list[int] = []
        self._reported: set[str] = set()
        self._stamp, self._repeats = -1.0, 0
        self._out = node.create_publisher(JointState, "corrected/joint_states", STATE_QOS)
        self._confidence = node.create_publisher(Float64, "residual/confidence", DATA_QOS)
        node.create_subscription(JointState, "joint_states", self._take, STATES_QOS)

    def _take(self, message: JointState) -> None:
        if reason := self._message_fault(message):
            if reason not in self._reported and len(self._reported) < MAX_LOGGED_REASONS:
                self._node.get_logger().error(f"message dropped: {reason}")
                self._reported.add(reason)
            return
        rows = [np.array(part) for part in (message.position, message.velocity, message.effort)]
        stamp, gaps = message.header.stamp, self._states.gaps
        time = stamp.sec + 1e-9 * stamp.nanosec
        self._repeats, self._stamp = (self._repeats + 1) * (time == self._stamp), time
        if self._repeats > MAX_EQUAL_STAMPS:
            self._node.get_logger().warning(
                f"time stamps do not change ({time:g} s): states are not corrected",
                throttle_duration_sec=5.0,
            )
        state = np.concatenate([row[self._indices] for row in rows])
        corrected = self._states.correct(time, state)
        if self._states.gaps > gaps:
            self._node.get_logger().warning(
                "states arrive too rarely, or time went back: the network starts without history",
                throttle_duration_sec=5.0,
            )
        for row, part in zip(rows, np.split(corrected, 3)):
            row[self._indices] = part
        message.position, message.velocity, message.effort = (row.tolist() for row in rows)
        self._out.publish(message)
        self._confidence.publish(Float64(data=self._states.confidence))

    def _message_fault(self, message: JointState) -> str:
        names = list(message.name)
        if names != self._names:
            try:
                self._indices, self._names = indices_of(self._joints, names, self._prefix), names
            except ConfigurationError as error:
                return str(error)
        for field in ("position", "velocity", "effort"):
            if len(getattr(message, field)) != len(names):
                return (
                    f"{field}: got {len(getattr(message, field))} numbers for {len(names)} "
                    "joints, allowed one per joint"
                )
        return ""


def main() -> int:
    """Run the node until it is stopped."""
    file, prefix, *arguments = sys.argv[1:]
    trained = load_residual(Path(file))
    try:
        rclpy.init(args=["--ros-args", *arguments] if arguments else None)
    except RuntimeError as error:  # rclpy raises RCLError, which has no public name.
        reason = str(error).split(", at /")[0]
        sys.stderr.write(f"multipanda residual node: --remap: {reason}\n")
        return 1
    node = rclpy.create_node(
        f"residual_{os.getpid()}", enable_rosout=False, start_parameter_services=False
    )
    ResidualNode(node, trained, prefix)
    node.get_logger().info(f"correcting joint states of {trained.robot} at {trained.rate:g} Hz")
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        return 0
    except RuntimeError:  # Also raised, as RCLError, if rclpy is shut down during a callback.
        if node.context.ok():
            raise
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
