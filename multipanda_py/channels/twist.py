# SPDX-License-Identifier: Apache-2.0
"""How fast the tool is to move."""

from __future__ import annotations

from multipanda_py.channel import Channel
from multipanda_py.channels.two_vectors import two_vectors

TWIST = Channel(
    "twist",
    6,
    "velocity of the tool, along the axes of the arm's base unless a frame is named",
    check=two_vectors("twist", "speed", "turn"),
    message="geometry_msgs/msg/TwistStamped",
    method="set_target(arm, twist=...)",
)
"""Linear (3) [m/s] and angular (3) [rad/s] velocity of the tool, along the base."""
