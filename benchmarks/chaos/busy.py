# SPDX-License-Identifier: Apache-2.0
"""A machine whose cores are all wanted by others, while a node starts and serves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from client import Client
from geometry_msgs.msg import PoseStamped
from stage import START, Stage

from multipanda_py.realtime.system.child_process import end_with_parent

KIND = "start and requests on a busy machine"
PER_CORE = 3
REQUESTS = 20


@contextlib.contextmanager
def burden() -> Iterator[None]:
    """Keep every core busy with some processes that compute for ever."""
    count = PER_CORE * len(os.sched_getaffinity(0))
    code = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(code, preexec_fn=end_with_parent) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def start_and_serve(stage: Stage, client: Client) -> None:
    """Start a node, ask it for this and that, and end it, all on a busy machine."""
    ledger = stage.ledger
    laws = ["left/cartesian_impedance_controller", "left/joint_impedance_controller"]
    ledger.throw(KIND)
    with burden():
        begun = time.monotonic()
        node = stage.node()
        if ledger.expect(node.logs("is active", START), KIND, f"no start: {node.log}"):
            ledger.times["start on a busy machine"].append(time.monotonic() - begun)
            pose = client.newest(PoseStamped, "left/current_pose", 20.0)
            ledger.expect(pose is not None, KIND, "no states")
            for number in range(REQUESTS):
                answer = client.switch([laws[number % 2]])
                ledger.expect(answer is not None and answer.ok, KIND, f"switch: {answer}")
                answer = client.trigger("stop", "stop on a busy machine")
                ledger.expect(answer is not None and answer.success, KIND, f"stop: {answer}")
        node.send(signal.SIGTERM)
        code = node.ended(60.0)
        ledger.expect(code == 0, KIND, f"exit code {code}: {node.log[-1000:]}")
    stage.nothing_left(KIND)
    stage.judge(KIND, node)
