# SPDX-License-Identifier: Apache-2.0
"""A node whose receiving threads stand: it notices, holds, and can be reached again."""

from __future__ import annotations

import time

from client import Client
from receivers import deafen
from stage import Program, Stage, wait

KIND = "deaf participant of the node"
NOTICED = 10.0  # until /diagnostics is at ERROR, on a busy machine [s]
REACHED = 60.0  # until requests are answered again [s]
ERROR = 2


def deafen_and_wait(stage: Stage, client: Client, node: Program) -> None:
    """Deafen a running node; expect an error, a stop that is served, and an answer later."""
    ledger, law = stage.ledger, "left/cartesian_impedance_controller"
    if not ledger.expect(node.logs("answers its clients"), KIND, f"no answer: {node.log[-800:]}"):
        return
    client.switch([law])
    client.trigger("stop")
    client.switch([law])
    stage.outsider.ask("mark")
    ledger.throw(KIND)
    begun = time.monotonic()
    deafened = deafen(node.process.pid, lambda condition: wait(condition, 5.0, 1e-4))
    if not ledger.expect(deafened > 0, KIND, "no thread was found"):
        return
    noticed = wait(lambda: _level(stage) == ERROR, NOTICED)
    ledger.expect(noticed, KIND, "no error in /diagnostics")
    ledger.times["error in /diagnostics of a deaf node"].append(time.monotonic() - begun)
    answer = client.trigger("stop", "stop of a deaf node")
    ledger.expect(answer is not None and answer.success, KIND, f"stop: {answer}")
    reached = wait(lambda: "answers its self-check again" in node.log or not node.runs, REACHED)
    if not ledger.expect(reached and node.runs, KIND, f"not reached again: {node.log[-2000:]}"):
        return
    ledger.times["a deaf node can be reached again"].append(time.monotonic() - begun)
    active = client.active()
    ledger.expect(law not in active, KIND, f"went on by itself: {active}")
    answer = client.switch([law])
    ledger.expect(answer is not None and answer.ok, KIND, f"switch then: {answer}")
    moved = max(stage.outsider.ask("moved").values())
    ledger.expect(moved < 0.02, KIND, f"a joint moved by {moved:.4f} rad")
    stage.expect_reports(node)
    stage.judge(KIND, node)


def _level(stage: Stage) -> int:
    return int(stage.outsider.ask("statuses").get(stage.name, {}).get("level", 0))
