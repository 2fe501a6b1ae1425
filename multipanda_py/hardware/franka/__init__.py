# SPDX-License-Identifier: Apache-2.0
"""Backend for real Franka arms through libfranka, with one driver process per arm.

Calls of libfranka block the interpreter, so only the driver process makes them. The driver process
runs the modules ``driver``, ``robot_connection``, ``torque_control`` and ``errors``, and from
``hardware.driver`` the modules ``driver_side``, ``memory`` and ``torque_limiter``. These modules
import neither numpy nor anything else that starts a thread. The process of the loop runs
``backend``, ``settings`` and ``model_check``.
"""
