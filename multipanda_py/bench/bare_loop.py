# SPDX-License-Identifier: Apache-2.0
"""The least that can answer a robot: pylibfranka, and torques of zero.

Run as ``python -m multipanda_py.bench.bare_loop IP CYCLES PRIORITY``; writes ``ready`` when it is
done. The process is left without destructors, as those of libfranka end the motion in their own
time.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Answer states."""
    import pylibfranka

    address, cycles, priority = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    robot = pylibfranka.Robot(address, pylibfranka.RealtimeConfig.kIgnore)
    policy = os.SCHED_FIFO if priority else os.SCHED_OTHER  # libfranka has taken one of its own
    os.sched_setscheduler(0, policy, os.sched_param(priority))
    control, torques = robot.start_torque_control(), pylibfranka.Torques([0.0] * 7)
    for _ in range(cycles):
        control.readOnce()
        control.writeOnce(torques)
    os.write(1, b"ready\n")
    os._exit(0)


if __name__ == "__main__":
    main()
