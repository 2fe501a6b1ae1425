# SPDX-License-Identifier: Apache-2.0
"""The node, in a process where every thread that receives SIGUSR2 stands for good."""

from __future__ import annotations

import ctypes
import signal
import sys

if __name__ == "__main__":
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGUSR2, ctypes.cast(libc.pause, ctypes.c_void_p))

    from multipanda_py.ros.node import main

    sys.exit(main())
