# SPDX-License-Identifier: Apache-2.0
"""Two processes of the digital-twin monitor that use ROS, because the monitor itself does not.

- ``python -m multipanda_py.ros.client.monitor_link states NAMESPACE ARM ...`` subscribes to arm
  states, possibly of a node on another machine. It writes each as one line of JSON to standard
  output. ``multipanda monitor --topics`` runs it.
- ``... diagnostics CELL NAMESPACE`` reads lines of JSON with the states of the twins and their
  deviations from the arms. It publishes both as topics. ``multipanda monitor --node --ros`` runs
  it.

Both end when standard input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import WrenchStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

from multipanda_py.realtime.system.child_process import input_is_open
from multipanda_py.realtime.system.dds import announce_without_types
from multipanda_py.ros.node.qos import DATA_QOS, STATE_QOS

SENSOR_QOS = QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT)
"""QoS profile of sensor data: a lost message is not repeated."""
PERIOD = 1.0
"""Period of ``/diagnostics`` while no value enters or leaves its tolerance band [s]."""


class ArmListener:
    """Subscriptions to joints and wrench of an arm, written to standard output as JSON.

    Each line combines the two messages with the same stamp.

    Args:
        namespace: Namespace of the cell, with a slash at its end.
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


def listen(namespace: str, *arms: str) -> None:
    """Write arm states to standard output until standard input ends or the reader has exited."""
    root = namespace.strip("/")
    node = rclpy.create_node(
        f"monitor_listener_{os.getpid()}", enable_rosout=False, start_parameter_services=False
    )
    for arm in arms:
        ArmListener(node, f"/{root}/" if root else "/", arm)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    with contextlib.suppress(BrokenPipeError):
        while input_is_open():
            executor.spin_once(timeout_sec=0.1)
    node.destroy_node()


def publish(cell: str, namespace: str) -> None:
    """Publish the twins' joint states and deviations from standard input, until it ends."""
    node = rclpy.create_node(
        f"twin_monitor_{cell.replace('/', '_')}",
        namespace=namespace.strip("/"), enable_rosout=False,
        start_parameter_services=False,
    )  # fmt: skip
    diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", DATA_QOS)
    states = node.create_publisher(JointState, "twin/joint_states", STATE_QOS)
    deadline, before = 0.0, ""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        states.publish(joint_state(message))
        outside = json.dumps([arm["outside"] for arm in message["arms"]])
        if message["time"] >= deadline or outside != before:
            deadline, before = message["time"] + PERIOD, outside
            diagnostics.publish(diagnosis(message))
    node.destroy_node()


def joint_state(response: dict[str, Any]) -> JointState:
    """Return the joint states of all twins as one message, with the joint names of the arms.

    Args:
        response: Decoded line of standard input: time, and joint state of each twin.
    """
    message = JointState()
    _stamp(message, response["time"])
    for arm in response["arms"]:
        message.name.extend(arm["joints"])
        message.position.extend(arm["q"])
        message.velocity.extend(arm["dq"])
        message.effort.extend(arm["tau"])
    return message


def diagnosis(response: dict[str, Any]) -> DiagnosticArray:
    """Return one status per arm: WARN while its twin deviates from it by more than a tolerance.

    Args:
        response: Decoded line of standard input: time, and deviations of each twin.
    """
    message = DiagnosticArray()
    _stamp(message, response["time"])
    for arm in response["arms"]:
        level, summary = DiagnosticStatus.OK, "within the tolerance band"
        if not arm["has_band"]:
            summary = "monitored without a tolerance band"
        if arm["outside"]:
            level, summary = DiagnosticStatus.WARN, "; ".join(arm["outside"])
        values = {"times outside": str(arm["raised"])}
        values |= {f"{name}: share of band": f"{v:.2f}" for name, v in arm["used"].items()}
        values |= {name: " ".join(map(str, row)) for name, row in arm["residuals"].items()}
        if arm["beyond"]:
            values["load and friction"] = "; ".join(arm["beyond"])
        message.status.append(
            DiagnosticStatus(
                level=level, name=f"monitor: {arm['name']}", message=summary,
                hardware_id=f"{response['cell']}/{arm['name']}/monitor",
                values=[KeyValue(key=key, value=value) for key, value in values.items()],
            )
        )  # fmt: skip
    return message


def _stamp(message: Any, time: float) -> None:
    message.header.stamp.sec = int(time)
    message.header.stamp.nanosec = int((time - int(time)) * 1e9)


def main() -> int:
    """Run :func:`listen` or :func:`publish`, as the first argument requests."""
    direction, *arguments = sys.argv[1:]
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    run = listen if direction == "states" else publish
    run(*arguments)
    rclpy.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
