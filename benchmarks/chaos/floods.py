# SPDX-License-Identifier: Apache-2.0
"""Floods of targets from a separate process, and response time of `/stop` meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from client import Client
from stage import Program, Stage

KIND = "flood of targets"
STOP_BOUND = 0.5
"""Maximum median response time of a stop on a machine with other load [s]."""
FLOODER = """
import sys, time
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
rclpy.init()
node = rclpy.create_node("flooder")
rate, bad = float(sys.argv[1]), sys.argv[2] == "bad"
box = []
node.create_subscription(PoseStamped, "/left/current_pose", box.append, 1)
while not box:
    rclpy.spin_once(node)
message = box[0]
message.header.stamp.sec = message.header.stamp.nanosec = 0
if bad:
    message.pose.position.x = float("nan")
qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
publisher = node.create_publisher(PoseStamped, "/left/target_pose", qos)
while not publisher.get_subscription_count():
    time.sleep(0.01)
print("floods", flush=True)
started, sent = time.monotonic(), 0
while time.monotonic() - started < float(sys.argv[3]):
    due = (time.monotonic() - started) * rate
    while sent < due and time.monotonic() - started < float(sys.argv[3]):
        publisher.publish(message)
        sent += 1
    time.sleep(2e-4)
print(sent, flush=True)
"""


def flood(
    stage: Stage, client: Client, node: Program, rate: float, invalid: bool, seconds: float = 5.0
) -> None:
    """Flood the left arm with targets; meanwhile stop, switch and read diagnostics.

    Args:
        stage: Environment of the campaign.
        client: Client that requests the stops.
        node: Node of the cell.
        rate: Requested rate of targets, limited by the machine [1/s].
        invalid: True for targets that the node must reject.
        seconds: Length of the flood [s].
    """
    ledger = stage.ledger
    controllet = "left/cartesian_impedance_controller"
    client.switch([controllet])
    client.trigger("stop", "first stop")
    client.switch([controllet])
    file = Path(stage.folder) / "flooder.py"
    file.write_text(FLOODER, encoding="utf-8")
    stage.watcher.request("mark")
    with subprocess.Popen(
        [sys.executable, str(file), str(rate), "bad" if invalid else "good", str(seconds)],
        stdout=subprocess.PIPE, text=True,
    ) as flooder:  # fmt: skip
        if flooder.stdout is None:
            raise RuntimeError("the flooder has no output")
        flooder.stdout.readline()
        started = time.monotonic()
        label = f"stop under {rate:.0f} targets/s" if rate else "stop"
        while time.monotonic() - started < 0.8 * seconds:
            answer = client.trigger("stop", label)
            ledger.expect(answer is not None and answer.success, KIND, f"stop: {answer}")
            client.until(lambda: False, 0.01)
            client.switch([controllet])
        if rate:
            status = stage.watcher.status(stage.name)
            ledger.times["targets/s taken in a flood"].append(
                float(status["target messages [1/s]"])
            )
        sent = int(flooder.stdout.readline())
    ledger.count(KIND, sent)
    times = np.array(ledger.times[label])
    if rate:
        ledger.times["targets/s sent in a flood"].append(sent / seconds)
    ledger.expect(
        bool(np.median(times) < STOP_BOUND), KIND, f"response times of /stop [s]: {times}"
    )
    moved = max(stage.watcher.request("moved").values())
    ledger.expect(moved < 0.02, KIND, f"a joint moved by {moved:.4f} rad")
    ledger.expect(node.runs, KIND, "the node has ended")
    stage.judge(KIND, node)
