# SPDX-License-Identifier: Apache-2.0
"""Node with blocked receiving threads: it must report, hold, and answer requests again."""

from __future__ import annotations

import time

from client import Client
from receivers import deafen
from stage import Program, Stage, wait

KIND = "deaf participant of the node"
REPORT_TIMEOUT = 10.0  # until /diagnostics is at ERROR, on a busy machine [s]
ANSWER_TIMEOUT = 60.0  # until the node answers requests again [s]
ERROR = 2


def deafen_and_wait(stage: Stage, client: Client, node: Program) -> None:
    """Block the receiving threads of a node; check report, `/stop`, hold and later answers."""
    ledger, controllet = stage.ledger, "left/cartesian_impedance_controller"
    if not ledger.expect(node.logs("answers its clients"), KIND, f"no answer: {node.log[-800:]}"):
        return
    client.switch([controllet])
    client.trigger("stop")
    client.switch([controllet])
    stage.watcher.request("mark")
    ledger.count(KIND)
    started = time.monotonic()
    deafened = deafen(node.process.pid, lambda condition: wait(condition, 5.0, 1e-4))
    if not ledger.expect(deafened > 0, KIND, "no receiving thread found"):
        return
    reported = wait(lambda: _level(stage) == ERROR, REPORT_TIMEOUT)
    ledger.expect(reported, KIND, "/diagnostics is not at ERROR")
    ledger.times["error in /diagnostics of a deaf node"].append(time.monotonic() - started)
    answer = client.trigger("stop", "stop of a deaf node")
    ledger.expect(answer is not None and answer.success, KIND, f"stop: {answer}")
    answers = wait(
        lambda: "answers its self-check again" in node.log or not node.runs, ANSWER_TIMEOUT
    )
    if not ledger.expect(answers and node.runs, KIND, f"no answer again: {node.log[-2000:]}"):
        return
    ledger.times["a deaf node can be reached again"].append(time.monotonic() - started)
    active = client.active()
    ledger.expect(controllet not in active, KIND, f"the arm does not hold, active: {active}")
    answer = client.switch([controllet])
    ledger.expect(answer is not None and answer.ok, KIND, f"switch after it: {answer}")
    moved = max(stage.watcher.request("moved").values())
    ledger.expect(moved < 0.02, KIND, f"a joint moved by {moved:.4f} rad")
    stage.expect_reports(node)
    stage.judge(KIND, node)


def _level(stage: Stage) -> int:
    return int(stage.watcher.request("statuses").get(stage.name, {}).get("level", 0))
