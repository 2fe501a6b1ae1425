# SPDX-License-Identifier: Apache-2.0
"""Classification of the links of an arm: gripper, and parts that no joint moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.robots import ArmDescription

_HAND = ("hand", "tool")


def is_gripper(arm: ArmDescription, link: str, joint: int) -> bool:
    """Return whether a link is the gripper or tool of an arm; without both, the last link.

    Args:
        arm: Description of the arm.
        link: Name of the link, with the arm's prefix.
        joint: Number of the joint that it moves with, from 1.
    """
    return link.removeprefix(arm.prefix) in _HAND or (
        joint == arm.n_joints and not arm.hand and arm.tool is None
    )


def stays(
    arm: ArmDescription, joint: int, placement: Any, start: ArrayLike, end: ArrayLike
) -> bool:
    """Return whether no joint moves a capsule, except about its own axis.

    Args:
        arm: Description of the arm.
        joint: Number of the joint that it moves with, from 1; 0 of the base.
        placement: Pose of its frame in the frame of the joint.
        start: First end of its axis in its frame, (3,) [m].
        end: Second end of its axis in its frame, (3,) [m].
    """
    if joint == 0:
        return True
    if joint != 1 or arm.limits.slides[0]:
        return False
    points = np.array([placement.act(np.array(point)) for point in (start, end)])
    return float(np.abs(np.cross(arm.robot.joints[0].axis, points)).max()) < 1e-9
