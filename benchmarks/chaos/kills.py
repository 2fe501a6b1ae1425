# SPDX-License-Identifier: Apache-2.0
"""Signals that end the node or the loop of a simulated cell, at random times."""

from __future__ import annotations

import os
import random
import signal
import time

from stage import END, NODE, Program, Stage

LOOP = "multipanda_py.realtime.process"
START_TIME = 2.0
"""Approximate time of a start, over which signals are distributed [s]."""
NODE_END = 20.0  # timeout of the end of a node after that of its loop, on a busy machine [s]
FATAL = [(module, number) for module in (NODE, LOOP)
         for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)]  # fmt: skip


def during_start(stage: Stage, rng: random.Random) -> None:
    """Send a fatal signal to a node that starts."""
    number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    kind = f"{number.name} to a node that starts"
    stage.ledger.count(kind)
    node = stage.node()
    time.sleep(rng.uniform(0.0, START_TIME))
    node.send(number)
    stage.ledger.expect(node.ended() is not None, kind, "the node does not end")
    stage.nothing_left(kind)
    stage.judge(kind, node)


def while_running(stage: Stage, rng: random.Random) -> None:
    """Send a fatal signal to the node or its loop."""
    module, number = rng.choice(FATAL)
    label = "the node" if module == NODE else "its loop"
    kind = f"{number.name} to {label}"
    ledger = stage.ledger
    node = stage.node()
    if not ledger.expect(node.logs("is active"), kind, f"no start: {node.log[-800:]}"):
        node.send(signal.SIGKILL)  # the next node uses the same cell name
        node.ended()
        stage.nothing_left(kind)
        return
    time.sleep(rng.uniform(0.0, 0.5))
    if rng.random() < 0.3:  # the end must not depend on a stopped process
        for pid in stage.processes(rng.choice([NODE, LOOP])):
            os.kill(pid, signal.SIGSTOP)
    ledger.count(kind)
    victims = stage.processes(module)
    for pid in victims:
        os.kill(pid, number)
    time.sleep(rng.uniform(0.0, 0.3))
    for pid in stage.processes():  # all signals except SIGKILL are pending until then
        os.kill(pid, signal.SIGCONT)
    expect_end(stage, node, kind, module, number)


def expect_end(stage: Stage, node: Program, kind: str, module: str, number: int) -> None:
    """Check exit code, reason and remains of a node after a fatal signal to one process."""
    ledger = stage.ledger
    code = node.ended(NODE_END if module == LOOP else END)
    if module == NODE:
        allowed = -number if number == signal.SIGKILL else 0
        ledger.expect(code == allowed, kind, f"exit code {code}, allowed {allowed}")
    elif code is None and number in (signal.SIGTERM, signal.SIGINT):
        node.send(signal.SIGINT)  # a loop that ignores the signal ends with its owner
        ledger.expect(node.ended() == 0, kind, f"exit code {node.process.poll()} after SIGINT")
    else:
        ledger.expect(code == 1, kind, f"exit code {code}, allowed 1")
        ledger.expect("FATAL" in node.log, kind, f"no reason in the log: {node.log[-400:]}")
    stage.nothing_left(kind)
    stage.judge(kind, node)
