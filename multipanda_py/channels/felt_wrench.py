# SPDX-License-Identifier: Apache-2.0
"""What an arm elsewhere touches, for the hand that leads this one."""

from __future__ import annotations

from dataclasses import replace

from multipanda_py.channels.wrench import WRENCH

FELT_WRENCH = replace(
    WRENCH,
    name="felt_wrench",
    doc="force and torque that a follower feels, for the hand that leads; it fades if it stops",
    topic="",
    method="",
)
"""Force (3) [N] and torque (3) [Nm], along the base.

Apart from ``wrench``, which stays until another one comes and keeps no account of its work: what
comes late over a network must not get there by mistake.
"""
