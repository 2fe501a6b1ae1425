# SPDX-License-Identifier: Apache-2.0
"""What motions have in common, whatever is commanded in them."""

from __future__ import annotations

from typing import Any

from multipanda_py.drivers.loop_connection import LoopConnection

MOVE = 2
"""Mode of a robot that moves."""
FINISH_TIME = 1.5
"""libfranka may take so long to end a motion [s]."""


def publish(loop: LoopConnection, state: Any, executing: int, mode: int) -> int:
    """Hand a state of libfranka to the loop; return the state's number."""
    return loop.publish(
        state.time.to_sec(), executing, mode,
        *state.q, *state.dq, *state.tau_J, *state.tau_ext_hat_filtered,
    )  # fmt: skip


def refuse_settings(loop: LoopConnection, control: str) -> None:
    """Refuse what has come on standard input: robots take settings at rest only."""
    for _ in loop.lines():
        loop.say(settings="refused", text=f"the arm is under {control} control")


def finish(loop: LoopConnection, handle: Any, command: Any) -> None:
    """End the motion with a command in answer to the state just read; libfranka waits for it."""
    loop.busy(FINISH_TIME)
    command.motion_finished = True
    handle.writeOnce(command)
    loop.busy(0.0)
