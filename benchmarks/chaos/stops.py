# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP and SIGCONT of the node and its loop, with targets and requests meanwhile."""

from __future__ import annotations

import os
import random
import signal
import time

from client import Client
from geometry_msgs.msg import PoseStamped
from kills import LOOP, NODE
from stage import Program, Stage, wait

CONTROLLETS = ["left/cartesian_impedance_controller", "left/joint_impedance_controller"]
REFUSED = ["error_recovery", "left/error_recovery", "left/tare", "left/gripper/open",
           "right/gripper/close"]  # fmt: skip
"""Services that must fail while the loop is stopped."""
REPORT_DELAY = 0.3  # maximum time until /diagnostics is at ERROR, on a busy machine [s]
ERROR = 2


def stop_and_go(stage: Stage, client: Client, node: Program, rng: random.Random) -> None:
    """Stop and continue a process; check that rejected requests have no effect later."""
    module = rng.choice([NODE, LOOP, LOOP])
    seconds = rng.choice([0.02, 0.1, 0.5, 1.5])
    kind = f"SIGSTOP and SIGCONT of {'the node' if module == NODE else 'its loop'}"
    ledger = stage.ledger
    ledger.count(kind)
    before = client.active()
    pose = client.newest(PoseStamped, "left/current_pose")
    stage.watcher.request("mark")
    [pid] = stage.processes(module)
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    expected = next(controllet for controllet in CONTROLLETS if controllet not in before)
    switched = None
    if module == LOOP and seconds > REPORT_DELAY:
        reported = wait(lambda: _level(stage) == ERROR, seconds)
        ledger.expect(reported, kind, "/diagnostics is not at ERROR")
        if reported:
            ledger.times["error in /diagnostics"].append(time.monotonic() - started)
            for _ in range(20):
                client.publisher(PoseStamped, "left/target_pose").publish(pose)
            switched = client.switch([expected], (), 4)
            for name in rng.sample(REFUSED, 2):
                answer = client.trigger(name)
                is_rejected = answer is not None and not answer.success
                ledger.expect(is_rejected, kind, f"{name} with a stopped loop: {answer}")
    time.sleep(max(0.0, started + seconds - time.monotonic()))
    os.kill(pid, signal.SIGCONT)
    ledger.expect(wait(lambda: _level(stage) < ERROR, 10.0), kind, "/diagnostics stays at ERROR")
    now = client.active()
    if switched is not None:
        ledger.expect(not switched.ok, kind, f"a stopped loop switched: {switched}")
        ledger.expect(now == before, kind, f"rejected switch: {now} is active instead of {before}")
    ledger.expect(node.runs, kind, f"the node has ended: {node.log[-400:]}")
    moved = max(stage.watcher.request("moved").values())
    ledger.expect(moved < 0.02, kind, f"a joint moved by {moved:.4f} rad")
    answer = client.switch([rng.choice(CONTROLLETS)], (), 4)
    ledger.expect(answer is not None and answer.ok, kind, f"switch after it: {answer}")
    stage.judge(kind, node)


def _level(stage: Stage) -> int:
    return int(stage.watcher.request("statuses").get(stage.name, {}).get("level", 0))
