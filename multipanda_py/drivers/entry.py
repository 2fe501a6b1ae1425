# SPDX-License-Identifier: Apache-2.0
"""How the process of every driver begins."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

from multipanda_py.drivers.loop_connection import LoopConnection
from multipanda_py.drivers.memory import DriverMemory
from multipanda_py.machine.child import DRIVER, name_process


def connect_to_loop() -> LoopConnection:
    """Return the way to the loop that this process was started by.

    Its arguments are memory, state event, torque event and number of joints. It does not keep the
    loop's priority, leaves SIGINT to the owner, and takes SIGTERM for a wish.

    Thread: main.
    """
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # not the loop's
    name_process(DRIVER)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's goes to the owner
    fd, state_event, torque_event, n_joints = map(int, sys.argv[1:5])
    loop = LoopConnection(DriverMemory(n_joints, fd), state_event, torque_event)

    def terminate(_signal: int, _frame: FrameType | None) -> None:
        loop.terminated = True

    signal.signal(signal.SIGTERM, terminate)
    return loop


def collect_for_good() -> None:
    """Collect garbage once, and never again: a collection would come late for a state."""
    gc.collect()
    gc.freeze()
    gc.disable()
