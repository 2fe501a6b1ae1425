# SPDX-License-Identifier: Apache-2.0
"""How fast the tool is to move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from multipanda_py.channel import AskedOfArm, Channel
from multipanda_py.channels.two_vectors import two_vectors
from multipanda_py.state import ArmSnapshot, Matrix, Vector

if TYPE_CHECKING:
    from multipanda_py.config.sections import GateConfig


def check_twist(twist: ArrayLike, turn: Matrix, state: ArmSnapshot, gate: GateConfig) -> Vector:
    """Return the record of channel ``twist``, turned into the base by ``turn``.

    Raises:
        TargetRejected: If it is not finite or too fast.
    """
    return two_vectors(
        "twist", twist, turn, state, (gate.speed, "gate.speed"), (gate.turn, "gate.turn")
    )


def _check(twist: ArrayLike, asked: AskedOfArm) -> Vector:
    return check_twist(twist, asked.frame.rotation, asked.state, asked.gate)


TWIST = Channel(
    "twist",
    6,
    "velocity of the tool, along the axes of the arm's base unless a frame is named",
    check=_check,
    message="geometry_msgs/msg/TwistStamped",
    method="set_target(arm, twist=...)",
)
"""Linear (3) [m/s] and angular (3) [rad/s] velocity of the tool, along the base."""
