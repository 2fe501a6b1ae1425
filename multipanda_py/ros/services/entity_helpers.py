# SPDX-License-Identifier: Apache-2.0
"""Functions for the services of objects in the simulated world."""

from __future__ import annotations

from typing import Any

from multipanda_py.cell import Cell
from multipanda_py.cell.scene_editor import SCENE_CHANGE_TIMEOUT, EntryRequest
from multipanda_py.exceptions import SimulationRefused
from multipanda_py.pose import Pose
from multipanda_py.ros.node.deferred_responses import Work, until

WORLD = "world"


def refuse(result: Any, code: int, error: Exception) -> None:
    """Fill in the result of a failed request.

    Args:
        result: Message ``simulation_interfaces/Result``.
        code: Result code.
        error: Error with the reason.
    """
    result.result, result.error_message = code, str(error)


def pose_in_world(frame: str, pose: Any) -> Pose:
    """Return the pose of a message.

    Args:
        frame: Frame of the message; only the world is allowed.
        pose: Message ``geometry_msgs/Pose``.

    Raises:
        SimulationRefused: If the message is in another frame.
        TargetRejected: If its content is not a valid pose.
    """
    if frame not in ("", WORLD):
        raise SimulationRefused(f"header.frame_id: got {frame!r:.60}, allowed {WORLD}")
    position, orientation = pose.position, pose.orientation
    return Pose.from_quaternion(
        (position.x, position.y, position.z),
        (orientation.x, orientation.y, orientation.z, orientation.w),
    )


def until_entered(cell: Cell, request: EntryRequest) -> Work:
    """Wait for the answer of the loop to a request for an object.

    Raises:
        SimulationRefused: If the loop rejects it.
        LoopTimeout: If the loop does not answer in time.
    """
    yield from until(
        cell,
        lambda: cell.entry_answer(request) or None,
        f"the request for {request.thing}",
        # A paused loop runs no cycles, but answers within this timeout too.
        SCENE_CHANGE_TIMEOUT,
        lambda: cell.withdraw_entry(request),
    )
