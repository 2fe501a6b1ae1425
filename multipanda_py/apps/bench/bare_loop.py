# SPDX-License-Identifier: Apache-2.0
"""Control loop that only sends zero torques to a robot with pylibfranka.

Run it with ``python -m multipanda_py.apps.bench.bare_loop IP CYCLES PRIORITY``. After the last
cycle it prints ``ready``; if it stops early, it prints the reason.
"""

from __future__ import annotations

import os
import sys

from multipanda_py.apps.bench.processes import READY


def main() -> None:
    """Run the loop, print ``ready`` or the reason of an early stop, and end the process."""
    import pylibfranka

    try:
        _answer(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
        last = READY
    except (pylibfranka.FrankaException, RuntimeError) as error:
        # On a busy machine, torques may arrive too late. The robot then ends the motion.
        last = " ".join(f"{error}".split())
    os.write(1, f"{last}\n".encode())
    # Destructors of libfranka would wait until the motion has ended.
    os._exit(0 if last == READY else 1)


def _answer(address: str, cycles: int, priority: int) -> None:
    import pylibfranka

    robot = pylibfranka.Robot(address, pylibfranka.RealtimeConfig.kIgnore)
    robot.automatic_error_recovery()  # The previous loop may have left a communication error.
    # libfranka has changed the scheduling of this thread. The benchmark compares loops of equal
    # priority.
    policy = os.SCHED_FIFO if priority else os.SCHED_OTHER
    os.sched_setscheduler(0, policy, os.sched_param(priority))
    control, torques = robot.start_torque_control(), pylibfranka.Torques([0.0] * 7)
    for _ in range(cycles):
        control.readOnce()
        control.writeOnce(torques)


if __name__ == "__main__":
    main()
