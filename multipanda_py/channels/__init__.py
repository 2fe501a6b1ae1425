# SPDX-License-Identifier: Apache-2.0
"""What users may ask of laws: one declaration with its check a file."""

from __future__ import annotations

from multipanda_py.channel import Channel
from multipanda_py.channels.felt_wrench import FELT_WRENCH
from multipanda_py.channels.joint import JOINT
from multipanda_py.channels.object import OBJECT
from multipanda_py.channels.pose import POSE
from multipanda_py.channels.squeeze import SQUEEZE
from multipanda_py.channels.stiffness import STIFFNESS
from multipanda_py.channels.trajectory import TRAJECTORY
from multipanda_py.channels.twist import TWIST
from multipanda_py.channels.wrench import WRENCH

CHANNELS: dict[str, Channel] = {
    channel.name: channel
    for channel in (
        POSE,
        JOINT,
        TWIST,
        WRENCH,
        STIFFNESS,
        TRAJECTORY,
        OBJECT,
        SQUEEZE,
        FELT_WRENCH,
    )
}
"""The built-in channels by name."""
