# SPDX-License-Identifier: Apache-2.0
"""Test client of ``switch_controller``, which reads requests as lines of JSON.

Run as ``python -m multipanda_py.ros.client.switch_client`` next to a node. A line such as
``{"activate": ["left/law"]}`` is answered by a line with ``ok``, ``message`` and ``seconds``, the
time until the answer. The line ``{"activate": []}`` calls ``error_recovery`` instead. The program
writes ``ready`` when the node is found, and ends when standard input ends.
"""

from __future__ import annotations

import json
import os
import sys
import time

import rclpy
from controller_manager_msgs.srv import SwitchController
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from multipanda_py.realtime.system.dds import announce_without_types

FORCE_AUTO = 4
"""Value of the strictness ``FORCE_AUTO`` of ``SwitchController``."""
TIMEOUT = 120.0
"""Timeout for the discovery of the node [s]."""
RESPONSE_TIMEOUT = 10.0
"""Timeout of an answer [s]."""


def main() -> int:
    """Send the switch requests from standard input to the node, until the input ends."""
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(
        f"switch_client_{os.getpid()}", enable_rosout=False, start_parameter_services=False
    )
    client = node.create_client(SwitchController, "controller_manager/switch_controller")
    if not client.wait_for_service(TIMEOUT):
        return 1
    recovery = node.create_client(Trigger, "error_recovery")
    _print_line("ready")
    for line in sys.stdin:
        names, started = json.loads(line)["activate"], time.monotonic()
        if names:
            future = client.call_async(
                SwitchController.Request(activate_controllers=names, strictness=FORCE_AUTO)
            )
        else:
            future = recovery.call_async(Trigger.Request())
        rclpy.spin_until_future_complete(node, future, timeout_sec=RESPONSE_TIMEOUT)
        answer, took = future.result(), time.monotonic() - started
        done = bool(answer is not None and (answer.ok if names else answer.success))
        # The response to a switch has no field ``message`` in some ROS distributions.
        message = (
            getattr(answer, "message", "") if answer else f"no answer in {RESPONSE_TIMEOUT:g} s"
        )
        _print_line(json.dumps({"ok": done, "message": message, "seconds": took}))
    return 0


def _print_line(text: str) -> None:
    os.write(1, text.encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
