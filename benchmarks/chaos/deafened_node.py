# SPDX-License-Identifier: Apache-2.0
"""Node in a process whose threads block permanently when they receive SIGUSR2.

It communicates without shared memory. A thread that blocks in shared memory would also block the
senders, in all processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

if __name__ == "__main__":
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGUSR2, ctypes.cast(libc.pause, ctypes.c_void_p))

    os.environ["FASTDDS_BUILTIN_TRANSPORTS"] = "UDPv4"
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SUBNET"
    from multipanda_py.ros.node.node import main

    sys.exit(main())
