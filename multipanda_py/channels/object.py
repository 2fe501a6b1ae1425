# SPDX-License-Identifier: Apache-2.0
"""Where an object that several arms hold is to be."""

from __future__ import annotations

import numpy as np

from multipanda_py.channel import Asked, Channel
from multipanda_py.exceptions import ReportMissing, TargetRejected, in_decimals
from multipanda_py.pose import Pose
from multipanda_py.report import Report
from multipanda_py.state import Vector

OBJECT_POSITION = tuple(
    Report(f"object_{axis}", "m", f"{axis} of the object in the world") for axis in "xyz"
)
"""What a law that takes this channel has to report: where the object is."""


def check_object(pose_in_world: Pose, asked: Asked) -> Vector:
    """Return the record of channel ``object`` for a target near where its law says it is.

    Raises:
        TargetRejected: If it is far from there, or the law does not say.
    """
    try:
        reports = asked.reports()
        here = np.array([reports.value(report) for report in OBJECT_POSITION])
    except ReportMissing as error:
        raise TargetRejected(
            f"{asked.who}: cannot tell how far the target is from the object: {error}"
        ) from error
    distance = float(np.linalg.norm(here - pose_in_world.position))
    if distance > asked.gate.position:
        raise TargetRejected(
            f"{asked.who}: target is {in_decimals(distance, 3)} m from the object, allowed "
            f"{asked.gate.position:g} m (gate.position)"
        )
    return np.concatenate([pose_in_world.position, pose_in_world.rotation.reshape(-1)])


def _object_record(pose: Pose, asked: Asked) -> Vector:
    return check_object(asked.frame @ pose, asked)


OBJECT = Channel(
    "object",
    12,
    "pose of the object that several arms hold, in the world unless a frame is named",
    shared=True,
    check=_object_record,
    reshaped=True,
    message="geometry_msgs/msg/PoseStamped",
    topic="target_pose",
    method="set_object_target(name, pose)",
)
"""As ``pose``: of the object that several arms hold, in the world."""
