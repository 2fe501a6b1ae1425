# SPDX-License-Identifier: Apache-2.0
"""What services about things of the simulated world share."""

from __future__ import annotations

from typing import Any

from multipanda_py.exceptions import SimulationRefused
from multipanda_py.pose import Pose

WORLD = "world"


def refuse(result: Any, code: int, error: Exception) -> None:
    """Fill in the ``result`` of a request that failed."""
    result.result, result.error_message = code, str(error)


def pose_in_world(frame: str, pose: Any) -> Pose:
    """Return the pose of a message.

    Raises:
        SimulationRefused: If it is in another frame.
        TargetRejected: If it is none.
    """
    if frame not in ("", WORLD):
        raise SimulationRefused(f"header.frame_id: got {frame!r:.60}, allowed {WORLD}")
    place, turn = pose.position, pose.orientation
    return Pose.from_quaternion((place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w))
