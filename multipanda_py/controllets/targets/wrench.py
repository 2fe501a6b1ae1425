# SPDX-License-Identifier: Apache-2.0
"""Target channels of tool twist, tool wrench and feedback wrench."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.state import MAX_TORQUE_FRACTION, ArmLimits, Matrix, Vector
from multipanda_py.targets import AskedOfArm, Channel, Check, finite_numbers

ROUNDING_FACTOR = 1.0 + 1e-9
"""Factor on a bound that compensates rounding errors of a rotated vector."""


def two_vectors(description: str, first: str, second: str) -> Check:
    """Return a check of six numbers as two vectors, which rotates both into the base.

    Args:
        description: Name of the channel.
        first: Key of the section ``gate`` that bounds the norm of the first vector.
        second: Key of the section ``gate`` that bounds the norm of the second vector.

    Returns:
        Check that raises TargetRejected if the numbers are not finite or too large.
    """

    def check(values: ArrayLike, asked: AskedOfArm) -> Vector:
        path, rotation = f"{asked.state.name}: {description}", asked.frame.rotation
        array = finite_numbers(path, values, 6)
        for part, key in ((array[:3], first), (array[3:], second)):
            size, bound = math.sqrt(part.dot(part)), getattr(asked.gate, key)
            if size > bound * ROUNDING_FACTOR:
                raise TargetRejected(
                    f"{path}: got {in_decimals(size, 3)}, allowed {bound:g} (gate.{key})"
                )
        return np.concatenate([rotation @ array[:3], rotation @ array[3:]])

    return check


TWIST = Channel(
    "twist",
    6,
    "velocity of the tool along the axes of the arm's base, or of the given frame",
    check=two_vectors("twist", "linear_speed", "angular_speed"),
    message="geometry_msgs/msg/TwistStamped",
    method="set_target(arm, twist=...)",
)
"""Record: linear (3) [m/s] and angular velocity (3) [rad/s] of the tool along the base axes."""


_within_gate = two_vectors("wrench", "force", "torque")


def check_exertable(
    wrench_in_base: Vector, jacobian: Matrix, limits: ArmLimits, name: str
) -> None:
    """Reject a wrench w whose joint torques J^T w exceed the torque limits.

    Joint torques clipped separately would exert a wrench in another direction, which would push
    the tool aside. Gravity torques are not included, as they are not part of the commanded
    torques.

    Args:
        wrench_in_base: Force and torque w at the tool, (6,) [N, Nm].
        jacobian: Jacobian J in the current configuration, along the base axes, (6, n).
        limits: Joint limits of the arm.
        name: Name of the arm.

    Raises:
        TargetRejected: If it needs more than 0.9 of a joint's torque limit.
    """
    torque = np.abs(wrench_in_base @ jacobian)
    joint = int((torque / limits.torque).argmax())
    allowed = MAX_TORQUE_FRACTION * limits.torque[joint]
    if torque[joint] > allowed:
        raise TargetRejected(
            f"joint {joint + 1} of {name}: wrench needs {in_decimals(torque[joint], 2)} Nm in "
            f"this configuration, "
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
    "force and torque exerted by the tool, along the axes of the arm's base or of the given frame",
    check=_wrench_record,
    message="geometry_msgs/msg/WrenchStamped",
    method="set_target(arm, wrench=...)",
)
"""Record: force (3) [N] and torque (3) [Nm] exerted by the tool, along the base axes."""


FEEDBACK_WRENCH = replace(
    WRENCH,
    name="feedback_wrench",
    doc="external wrench of a follower, displayed on a hand-guided leader; fades without stream",
    topic="",
    method="",
)
"""Record: force (3) [N] and torque (3) [Nm] along the base axes.

The channel is separate from ``wrench``. A target of ``wrench`` remains until the next one, and its
work is not limited. A delayed wrench from a network must not be applied like this.
"""
