# SPDX-License-Identifier: Apache-2.0
"""Start and requests of a node while other processes keep all cores busy."""

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
PROCESSES_PER_CORE = 3
REQUESTS = 20


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Keep every core busy with processes in infinite loops."""
    count = PROCESSES_PER_CORE * len(os.sched_getaffinity(0))
    code = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(code, preexec_fn=end_with_parent) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def start_and_serve(stage: Stage, client: Client) -> None:
    """Start a node, request switches and stops, and end it, all on a busy machine."""
    ledger = stage.ledger
    controllets = ["left/cartesian_impedance_controller", "left/joint_impedance_controller"]
    ledger.count(KIND)
    with load():
        started = time.monotonic()
        node = stage.node()
        if ledger.expect(node.logs("is active", START), KIND, f"no start: {node.log}"):
            ledger.times["start on a busy machine"].append(time.monotonic() - started)
            pose = client.newest(PoseStamped, "left/current_pose", 20.0)
            ledger.expect(pose is not None, KIND, "no states")
            for number in range(REQUESTS):
                answer = client.switch([controllets[number % 2]])
                ledger.expect(answer is not None and answer.ok, KIND, f"switch: {answer}")
                answer = client.trigger("stop", "stop on a busy machine")
                ledger.expect(answer is not None and answer.success, KIND, f"stop: {answer}")
        node.send(signal.SIGTERM)
        code = node.ended(60.0)
        ledger.expect(code == 0, KIND, f"exit code {code}: {node.log[-1000:]}")
    stage.nothing_left(KIND)
    stage.judge(KIND, node)
