# SPDX-License-Identifier: Apache-2.0
"""Real arms through libfranka: one driver process per arm, and the loop's end of it.

In the driver's process, where a call of libfranka holds the interpreter for as long as it
waits, run ``driver``, ``connecting``, ``motion``, ``torque_guard``, ``settings``, ``errors``
and ``driver_memory``; they import neither numpy nor anything that starts a thread. In the
loop's process run ``link``, ``driver_process``, ``configure`` and ``model_check``.
"""
