# SPDX-License-Identifier: Apache-2.0
"""What an arm elsewhere touches, for the hand that leads this one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.state import MAX_TORQUE_FRACTION, ArmLimits, Matrix, Vector
from multipanda_py.targets import AskedOfArm, Channel, Check, finite_numbers

ROUNDING = 1.0 + 1e-9
"""Factor on a bound, as the rotation of a vector changes its length by rounding."""


def two_vectors(what: str, first: str, second: str) -> Check:
    """Return a check that takes six numbers as two vectors, and turns both into the base.

    Args:
        what: Name of the channel.
        first: Key of the section ``gate`` that bounds the norm of the first three.
        second: Likewise of the others.

    Returns:
        Raises TargetRejected if they are not finite or too large.
    """

    def check(values: ArrayLike, asked: AskedOfArm) -> Vector:
        where, turn = f"{asked.state.name}: {what}", asked.frame.rotation
        array = finite_numbers(where, values, 6)
        for part, key in ((array[:3], first), (array[3:], second)):
            size, bound = math.sqrt(part.dot(part)), getattr(asked.gate, key)
            if size > bound * ROUNDING:
                raise TargetRejected(
                    f"{where}: got {in_decimals(size, 3)}, allowed {bound:g} (gate.{key})"
                )
        return np.concatenate([turn @ array[:3], turn @ array[3:]])

    return check


TWIST = Channel(
    "twist",
    6,
    "velocity of the tool, along the axes of the arm's base unless a frame is named",
    check=two_vectors("twist", "speed", "turn"),
    message="geometry_msgs/msg/TwistStamped",
    method="set_target(arm, twist=...)",
)
"""Linear (3) [m/s] and angular (3) [rad/s] velocity of the tool, along the base."""


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
