# SPDX-License-Identifier: Apache-2.0
"""What the tool is to exert."""

from __future__ import annotations

from multipanda_py.channel import Channel
from multipanda_py.channels.two_vectors import two_vectors

WRENCH = Channel(
    "wrench",
    6,
    "force and torque that the tool is to exert, along the same axes",
    check=two_vectors("wrench", "force", "torque"),
    message="geometry_msgs/msg/WrenchStamped",
    method="set_target(arm, wrench=...)",
)
"""Force (3) [N] and torque (3) [Nm] that the tool is to exert, along the base."""
