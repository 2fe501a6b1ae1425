# SPDX-License-Identifier: Apache-2.0
"""What the tool is to exert."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.channel import AskedOfArm, Channel
from multipanda_py.channels.two_vectors import two_vectors
from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.limits import MAX_TORQUE_FRACTION, ArmLimits
from multipanda_py.state import Matrix, Vector

_within_gate = two_vectors("wrench", "force", "torque")


def check_exertable(
    wrench_in_base: Vector, jacobian: Matrix, limits: ArmLimits, name: str
) -> None:
    r"""Refuse a wrench whose :math:`J^T w` is more than joints have: it would come out as another.

    Clipped joint by joint, the rest of it has another direction and pushes the tool aside.
    Gravity is no part of it, nor of the commanded torque that the limits are for.

    Args:
        wrench_in_base: Force and torque at the tool, w, (6,) [N, Nm].
        jacobian: J of the present posture, along the axes of the base, (6, n).
        limits: Of the joints.
        name: Of the arm.

    Raises:
        TargetRejected: If it takes more than 0.9 of a joint's torque limit.
    """
    torque = np.abs(wrench_in_base @ jacobian)
    joint = int((torque / limits.torque).argmax())
    allowed = MAX_TORQUE_FRACTION * limits.torque[joint]
    if torque[joint] > allowed:
        raise TargetRejected(
            f"joint {joint + 1} of {name}: wrench takes {in_decimals(torque[joint], 2)} Nm in "
            f"this posture, "
            f"allowed {in_decimals(allowed, 2)} Nm ({MAX_TORQUE_FRACTION:g} of its limit); got "
            f"{np.round(wrench_in_base, 2).tolist()} N, Nm in the base"
        )


def _wrench_record(values: ArrayLike, asked: AskedOfArm) -> Vector:
    wrench = _within_gate(values, asked)
    check_exertable(wrench, asked.jacobian(), asked.limits, asked.who)
    return wrench


WRENCH = Channel(
    "wrench",
    6,
    "force and torque that the tool is to exert, along the same axes",
    check=_wrench_record,
    message="geometry_msgs/msg/WrenchStamped",
    method="set_target(arm, wrench=...)",
)
"""Force (3) [N] and torque (3) [Nm] that the tool is to exert, along the base."""
