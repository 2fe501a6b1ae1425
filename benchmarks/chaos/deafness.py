# SPDX-License-Identifier: Apache-2.0
"""A node whose receiving threads stand: it notices, holds, and can be reached again."""

from __future__ import annotations

import ctypes
import re
import signal
import time
from functools import partial
from pathlib import Path

from client import Client
from stage import Program, Stage, wait

KIND = "deaf participant of the node"
NOTICED = 10.0  # until /diagnostics is at ERROR, on a busy machine [s]
REACHED = 60.0  # until requests are answered again [s]
ERROR = 2
RECEIVING = {"45", "47", "207", "212"}  # recvfrom and recvmsg, on x86-64 and Arm


def deafen(pid: int) -> int:
    """Let the receiving threads of a process's first participant stand; return their number.

    Each stands where it waits for a message: elsewhere it may hold a lock that every participant
    of the process needs.
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    threads = {int(task.name): (task / "comm").read_text().strip() for task in tasks}
    second = min(number for number, name in threads.items() if name == "dds.ev.1")
    receiving = [
        number
        for number, name in threads.items()
        if number < second and re.match(r"dds\.udp\.\d", name)
    ]
    for number in receiving:
        wait(partial(_is_receiving, Path(f"/proc/{pid}/task/{number}/syscall")), 5.0, 1e-4)
        ctypes.CDLL(None).tgkill(pid, number, signal.SIGUSR2)
    return len(receiving)


def deafen_and_wait(stage: Stage, client: Client, node: Program) -> None:
    """Deafen a running node; expect an error, a stop that is served, and an answer later."""
    ledger, law = stage.ledger, "left/cartesian_impedance_controller"
    client.switch([law])
    client.trigger("stop")
    client.switch([law])
    stage.outsider.ask("mark")
    ledger.throw(KIND)
    begun = time.monotonic()
    if not ledger.expect(deafen(node.process.pid) > 0, KIND, "no thread was found"):
        return
    noticed = wait(lambda: _level(stage) == ERROR, NOTICED)
    ledger.expect(noticed, KIND, "no error in /diagnostics")
    ledger.times["error in /diagnostics of a deaf node"].append(time.monotonic() - begun)
    answer = client.trigger("stop", "stop of a deaf node")
    ledger.expect(answer is not None and answer.success, KIND, f"stop: {answer}")
    reached = wait(lambda: "answers itself again" in node.log or not node.runs, REACHED)
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


def _is_receiving(syscall: Path) -> bool:
    return syscall.read_text(encoding="ascii").split()[0] in RECEIVING


def _level(stage: Stage) -> int:
    return int(stage.outsider.ask("statuses").get(stage.name, {}).get("level", 0))
