# SPDX-License-Identifier: Apache-2.0
"""The node, in a process where every thread that receives SIGUSR2 stands for good.

It communicates without shared memory: a thread that stands while it waits there would keep every
sender waiting, in other processes as well.
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
