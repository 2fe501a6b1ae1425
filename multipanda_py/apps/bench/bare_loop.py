# SPDX-License-Identifier: Apache-2.0
"""The least that can answer a robot: pylibfranka, and torques of zero.

Run as ``python -m multipanda_py.apps.bench.bare_loop IP CYCLES PRIORITY``; writes ``ready`` when
it is done, or why it could not go on. The process is left without destructors, as those of
libfranka end the motion in their own time.
"""

from __future__ import annotations

import os
import sys

from multipanda_py.apps.bench.processes import READY


def main() -> None:
    """Answer states."""
    import pylibfranka

    try:
        _answer(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
        last = READY
    except (pylibfranka.FrankaException, RuntimeError) as error:  # as when others took the machine
        last = " ".join(f"{error}".split())
    os.write(1, f"{last}\n".encode())
    os._exit(0 if last == READY else 1)


def _answer(address: str, cycles: int, priority: int) -> None:
    import pylibfranka

    robot = pylibfranka.Robot(address, pylibfranka.RealtimeConfig.kIgnore)
    robot.automatic_error_recovery()  # a loop before this one may have been too late
    policy = os.SCHED_FIFO if priority else os.SCHED_OTHER  # libfranka has taken one of its own
    os.sched_setscheduler(0, policy, os.sched_param(priority))
    control, torques = robot.start_torque_control(), pylibfranka.Torques([0.0] * 7)
    for _ in range(cycles):
        control.readOnce()
        control.writeOnce(torques)


if __name__ == "__main__":
    main()
