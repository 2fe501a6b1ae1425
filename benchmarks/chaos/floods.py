# SPDX-License-Identifier: Apache-2.0
"""Floods of targets from a process of their own, and how soon a stop is answered under them."""

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
"""Median answer to a stop, there and back, on a machine that runs other things [s]."""
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
begun, sent = time.monotonic(), 0
while time.monotonic() - begun < float(sys.argv[3]):
    due = (time.monotonic() - begun) * rate
    while sent < due and time.monotonic() - begun < float(sys.argv[3]):
        publisher.publish(message)
        sent += 1
    time.sleep(2e-4)
print(sent, flush=True)
"""


def flood(
    stage: Stage, client: Client, node: Program, rate: float, bad: bool, seconds: float = 5.0
) -> None:
    """Flood the left arm; stops, switches and diagnostics go on, and all of it is counted.

    Args:
        stage: Where.
        client: Asks for stops meanwhile.
        node: Of the cell.
        rate: Messages asked for per second; what the machine gives is reported.
        bad: Whether the targets have to be refused.
        seconds: How long.
    """
    ledger = stage.ledger
    law = "left/cartesian_impedance_controller"
    client.switch([law])
    client.trigger("stop", "first stop")
    client.switch([law])
    file = Path(stage.folder) / "flooder.py"
    file.write_text(FLOODER, encoding="utf-8")
    stage.outsider.ask("mark")
    with subprocess.Popen(
        [sys.executable, str(file), str(rate), "bad" if bad else "good", str(seconds)],
        stdout=subprocess.PIPE, text=True,
    ) as flooder:  # fmt: skip
        if flooder.stdout is None:
            raise RuntimeError("no pipe")
        flooder.stdout.readline()
        begun = time.monotonic()
        label = f"stop under {rate:.0f} targets/s" if rate else "stop"
        while time.monotonic() - begun < 0.8 * seconds:
            answer = client.trigger("stop", label)
            ledger.expect(answer is not None and answer.success, KIND, f"stop: {answer}")
            client.until(lambda: False, 0.01)
            client.switch([law])
        if rate:
            status = stage.outsider.status(stage.name)
            ledger.times["targets/s taken in a flood"].append(
                float(status["target messages [1/s]"])
            )
        sent = int(flooder.stdout.readline())
    ledger.throw(KIND, sent)
    times = np.array(ledger.times[label])
    if rate:
        ledger.times["targets/s sent in a flood"].append(sent / seconds)
    ledger.expect(bool(np.median(times) < STOP_BOUND), KIND, f"stops took {times}")
    moved = max(stage.outsider.ask("moved").values())
    ledger.expect(moved < 0.02, KIND, f"a joint moved by {moved:.4f} rad")
    ledger.expect(node.runs, KIND, "the node has ended")
    stage.judge(KIND, node)
