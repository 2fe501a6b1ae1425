# SPDX-License-Identifier: Apache-2.0
"""Signals at any time to any process of a simulated cell."""

from __future__ import annotations

import os
import random
import signal
import time

from stage import END, NODE, Program, Stage

LOOP = "multipanda_py.realtime.process"
START_TIME = 2.0
"""About what a start takes; kills are spread over it [s]."""
TIMEOUT_SCALE = (
    20.0  # until the node knows that its loop is gone, and has ended, on a busy machine [s]
)
FATAL = [(who, number) for who in (NODE, LOOP)
         for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)]  # fmt: skip


def during_start(stage: Stage, dice: random.Random) -> None:
    """Send a signal to the node while it starts."""
    number = dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    kind = f"{number.name} to a node that starts"
    stage.ledger.throw(kind)
    node = stage.node()
    time.sleep(dice.uniform(0.0, START_TIME))
    node.send(number)
    stage.ledger.expect(node.ended() is not None, kind, "it does not end")
    stage.nothing_left(kind)
    stage.judge(kind, node)


def while_running(stage: Stage, dice: random.Random) -> None:
    """Send a signal that ends the node or its loop."""
    who, number = dice.choice(FATAL)
    label = "the node" if who == NODE else "its loop"
    kind = f"{number.name} to {label}"
    ledger = stage.ledger
    node = stage.node()
    if not ledger.expect(node.logs("is active"), kind, f"no start: {node.log[-800:]}"):
        node.send(signal.SIGKILL)  # else the next one finds the name of its cell taken
        node.ended()
        stage.nothing_left(kind)
        return
    time.sleep(dice.uniform(0.0, 0.5))
    if dice.random() < 0.3:  # what is stopped must not stand in the way of its end
        for pid in stage.processes(dice.choice([NODE, LOOP])):
            os.kill(pid, signal.SIGSTOP)
    ledger.throw(kind)
    victims = stage.processes(who)
    for pid in victims:
        os.kill(pid, number)
    time.sleep(dice.uniform(0.0, 0.3))
    for pid in stage.processes():  # a signal but SIGKILL waits until then
        os.kill(pid, signal.SIGCONT)
    expect_the_end(stage, node, kind, who, number)


def expect_the_end(stage: Stage, node: Program, kind: str, who: str, number: int) -> None:
    """Expect that a node ends as it should after a signal."""
    ledger = stage.ledger
    code = node.ended(TIMEOUT_SCALE if who == LOOP else END)
    if who == NODE:
        allowed = -number if number == signal.SIGKILL else 0
        ledger.expect(code == allowed, kind, f"exit code {code}, allowed {allowed}")
    elif code is None and number in (signal.SIGTERM, signal.SIGINT):
        node.send(signal.SIGINT)  # the loop leaves these to its owner
        ledger.expect(node.ended() == 0, kind, f"exit code {node.process.poll()} after SIGINT")
    else:
        ledger.expect(code == 1, kind, f"exit code {code}, allowed 1")
        ledger.expect("FATAL" in node.log, kind, f"no reason: {node.log[-400:]}")
    stage.nothing_left(kind)
    stage.judge(kind, node)
