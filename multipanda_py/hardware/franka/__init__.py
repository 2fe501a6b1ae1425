# SPDX-License-Identifier: Apache-2.0
"""Backend for real Franka arms through libfranka, with one driver process per arm.

The driver process runs ``driver``, ``robot_connection``, ``torque_control`` and ``errors``, and
from ``hardware.driver`` the modules ``driver_side``, ``memory`` and ``torque_limiter``. A call of
libfranka blocks the interpreter of the driver process only. The modules of this process import
neither numpy nor anything else that starts a thread. The process of the loop runs ``backend``,
``settings`` and ``model_check``.
"""
