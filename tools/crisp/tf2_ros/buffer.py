# SPDX-License-Identifier: Apache-2.0
"""Buffer of the newest transform of every frame to its parent."""

from __future__ import annotations

from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from scipy.spatial.transform import Rotation


class TransformException(Exception):
    """Transform that is not available."""


class Buffer:
    """Tree of frames, with the last received pose of each frame in its parent."""

    def __init__(self) -> None:
        self._in_parent: dict[str, TransformStamped] = {}

    def set_transform(self, transform: TransformStamped) -> None:
        """Store a transform, and overwrite the previous one of the same child."""
        self._in_parent[transform.child_frame_id] = transform

    def lookup_transform(
        self, target_frame: str, source_frame: str, time: Any
    ) -> TransformStamped:
        """Return the newest pose of the source frame in the target frame.

        Args:
            target_frame: Frame in which the pose is expressed.
            source_frame: Frame with the requested pose.
            time: Requested time; only 0, the newest transform, is supported.

        Raises:
            TransformException: Another time is requested, or the frames are not connected.
        """
        if time.nanoseconds:
            raise TransformException(f"time: got {time.nanoseconds} ns, allowed 0 (newest)")
        target_in_root, root = self._in_root(target_frame)
        source_in_root, other = self._in_root(source_frame)
        if root != other:
            raise TransformException(f"{source_frame}: not connected to {target_frame} yet")
        pose = np.linalg.inv(target_in_root) @ source_in_root
        found = TransformStamped()
        found.header.frame_id, found.child_frame_id = target_frame, source_frame
        if source_frame in self._in_parent:
            found.header.stamp = self._in_parent[source_frame].header.stamp
        vector, rotation = found.transform.translation, found.transform.rotation
        vector.x, vector.y, vector.z = pose[:3, 3].tolist()
        quaternion = Rotation.from_matrix(pose[:3, :3]).as_quat().tolist()
        rotation.x, rotation.y, rotation.z, rotation.w = quaternion
        return found

    def _in_root(self, frame: str) -> tuple[np.ndarray, str]:
        """Return the pose of a frame in the root of its tree, (4, 4), and the name of the root."""
        pose = np.eye(4)
        while (step := self._in_parent.get(frame)) is not None:
            p, q = step.transform.translation, step.transform.rotation
            in_parent = np.eye(4)
            in_parent[:3, :3] = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
            in_parent[:3, 3] = p.x, p.y, p.z
            pose, frame = in_parent @ pose, step.header.frame_id
        return pose, frame
