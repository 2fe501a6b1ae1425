# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP and SIGCONT of the node and its loop while users ask and arms are driven."""

from __future__ import annotations

import os
import random
import signal
import time

from client import Client
from geometry_msgs.msg import PoseStamped
from kills import LOOP, NODE
from stage import Program, Stage, wait

LAWS = ["left/cartesian_impedance_controller", "left/joint_impedance_controller"]
REFUSED = ["error_recovery", "left/error_recovery", "left/tare", "left/gripper/open",
           "right/gripper/close"]  # fmt: skip
"""What a loop that is stopped cannot do."""
NOTICED = 0.3  # until /diagnostics say so, on a busy machine [s]
ERROR = 2


def stop_and_go(stage: Stage, client: Client, node: Program, dice: random.Random) -> None:
    """Stop a process for a while; what is refused meanwhile does not happen later."""
    who = dice.choice([NODE, LOOP, LOOP])
    seconds = dice.choice([0.02, 0.1, 0.5, 1.5])
    kind = f"SIGSTOP and SIGCONT of {'the node' if who == NODE else 'its loop'}"
    ledger = stage.ledger
    ledger.throw(kind)
    before = client.active()
    pose = client.newest(PoseStamped, "left/current_pose")
    stage.outsider.ask("mark")
    [pid] = stage.processes(who)
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    expected = next(law for law in LAWS if law not in before)
    switched = None
    if who == LOOP and seconds > NOTICED:
        reported = wait(lambda: _level(stage) == ERROR, seconds)
        ledger.expect(reported, kind, "no error in /diagnostics")
        if reported:
            ledger.times["error in /diagnostics"].append(time.monotonic() - begun)
            for _ in range(20):
                client.publisher(PoseStamped, "left/target_pose").publish(pose)
            switched = client.switch([expected], (), 4)
            for name in dice.sample(REFUSED, 2):
                answer = client.trigger(name)
                no = answer is not None and not answer.success
                ledger.expect(no, kind, f"{name} by a loop that is stopped: {answer}")
    time.sleep(max(0.0, begun + seconds - time.monotonic()))
    os.kill(pid, signal.SIGCONT)
    ledger.expect(wait(lambda: _level(stage) < ERROR, 10.0), kind, "no return to normal")
    now = client.active()
    if switched is not None:
        ledger.expect(not switched.ok, kind, f"a loop that is stopped switched: {switched}")
        ledger.expect(now == before, kind, f"refused, and {now} is active instead of {before}")
    ledger.expect(node.runs, kind, f"the node has ended: {node.log[-400:]}")
    moved = max(stage.outsider.ask("moved").values())
    ledger.expect(moved < 0.02, kind, f"a joint moved by {moved:.4f} rad")
    answer = client.switch([dice.choice(LAWS)], (), 4)
    ledger.expect(answer is not None and answer.ok, kind, f"then: {answer}")
    stage.judge(kind, node)


def _level(stage: Stage) -> int:
    return int(stage.outsider.ask("statuses").get(stage.name, {}).get("level", 0))
