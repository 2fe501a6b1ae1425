# SPDX-License-Identifier: Apache-2.0
"""Where frames of an arm are, as far as a place says so."""

from __future__ import annotations

import pinocchio as pin

from multipanda_py.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector


def frames_at(scene: Scene, arm: str, place: Pose | Vector) -> dict[str, pin.SE3]:
    """Return where frames of an arm are in the world at a place.

    Args:
        scene: With the arm.
        arm: Its name.
        place: A posture, which says it of all frames; or a pose of its tool, which says it of
            those that are fixed to it.

    Returns:
        By names without the arm's prefix, and ``tool``.
    """
    model, described = scene.model(arm), scene.arms[arm]
    tool = model.frames[model.getFrameId(described.ee_frame)]
    found = {}
    if isinstance(place, Pose):
        found["tool"] = pin.SE3(place.rotation, place.position)
        joint = found["tool"] * tool.placement.inverse()
        frames = [frame for frame in model.frames if frame.parentJoint == tool.parentJoint]
        placed = [joint * frame.placement for frame in frames]
    else:
        data = model.createData()
        pin.framesForwardKinematics(model, data, place)
        found["tool"] = data.oMf[model.getFrameId(described.ee_frame)].copy()
        frames, placed = [*model.frames], [one.copy() for one in data.oMf]
    for frame, one in zip(frames, placed):
        found.setdefault(frame.name.removeprefix(described.prefix), one)
    return found
