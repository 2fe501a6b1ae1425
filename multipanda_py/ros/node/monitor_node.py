# SPDX-License-Identifier: Apache-2.0
"""Node that publishes ``/diagnostics`` of the digital-twin monitor.

Run by ``multipanda shadow --node --ros`` as ``python -m multipanda_py.ros.node.monitor_node CELL
NAMESPACE``. It reads the agreement of arms and twins as lines of JSON from standard input, and
ends with it. The process that computes the twins uses no ROS, and this process is independent of
the loop.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

from multipanda_py.realtime.system.dds import announce_without_types
from multipanda_py.ros.node.qos import DATA_QOS, STATE_QOS

PERIOD = 1.0
"""Period of messages on ``/diagnostics`` without a change [s]."""


def main() -> int:
    """Publish the input until it ends."""
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    cell, namespace = sys.argv[1:]
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
    rclpy.shutdown()
    return 0


def joint_state(response: dict[str, Any]) -> JointState:
    """Return the state of all twins, with the joint names of the arms."""
    message = JointState()
    _stamp(message, response["time"])
    for arm in response["arms"]:
        message.name.extend(arm["joints"])
        message.position.extend(arm["q"])
        message.velocity.extend(arm["dq"])
        message.effort.extend(arm["tau"])
    return message


def diagnosis(response: dict[str, Any]) -> DiagnosticArray:
    """Return a status per arm, a warning while it is outside the tolerance band."""
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
                level=level, name=f"shadow: {arm['name']}", message=summary,
                hardware_id=f"{response['cell']}/{arm['name']}/shadow",
                values=[KeyValue(key=key, value=value) for key, value in values.items()],
            )
        )  # fmt: skip
    return message


def _stamp(message: Any, time: float) -> None:
    message.header.stamp.sec = int(time)
    message.header.stamp.nanosec = int((time - int(time)) * 1e9)


if __name__ == "__main__":
    raise SystemExit(main())
