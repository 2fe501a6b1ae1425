# SPDX-License-Identifier: Apache-2.0
"""What the tool is to exert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from multipanda_py.channel import AskedOfArm, Channel
from multipanda_py.channels.two_vectors import two_vectors
from multipanda_py.state import ArmSnapshot, Matrix, Vector

if TYPE_CHECKING:
    from multipanda_py.config.sections import GateConfig


def check_wrench(wrench: ArrayLike, turn: Matrix, state: ArmSnapshot, gate: GateConfig) -> Vector:
    """Return the record of channel ``wrench``, turned into the base by ``turn``.

    Raises:
        TargetRejected: If it is not finite or too large.
    """
    return two_vectors(
        "wrench", wrench, turn, state, (gate.force, "gate.force"), (gate.torque, "gate.torque")
    )


def _check(wrench: ArrayLike, asked: AskedOfArm) -> Vector:
    return check_wrench(wrench, asked.frame.rotation, asked.state, asked.gate)


WRENCH = Channel(
    "wrench",
    6,
    "force and torque that the tool is to exert, along the same axes",
    check=_check,
    message="geometry_msgs/msg/WrenchStamped",
    method="set_target(arm, wrench=...)",
)
"""Force (3) [N] and torque (3) [Nm] that the tool is to exert, along the base."""
