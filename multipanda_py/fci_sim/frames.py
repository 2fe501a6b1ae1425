# SPDX-License-Identifier: Apache-2.0
"""The frames on the flange: nominal end effector NE, end effector EE, stiffness frame K."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_TOLERANCE = 1e-5  # libfranka's own, for what counts as a homogeneous transform


def pose_from(columns: Vector) -> Vector:
    """Return a (4, 4) pose from 16 numbers in column-major order."""
    return np.array(columns, dtype=np.float64).reshape(4, 4, order="F")


def is_pose(pose: Vector) -> bool:
    """Return whether a (4, 4) matrix is a homogeneous transform."""
    rotation = pose[:3, :3]
    return bool(
        np.isfinite(pose).all()
        and np.abs(pose[3] - (0.0, 0.0, 0.0, 1.0)).max() < _TOLERANCE
        and np.abs(rotation @ rotation.T - np.eye(3)).max() < _TOLERANCE
        and np.linalg.det(rotation) > 0.0
    )


class FlangeFrames:
    """Poses, (4, 4), of frames on the flange F.

    Attributes:
        F_T_NE: Nominal end effector, set in Desk on a real robot.
        NE_T_EE: End effector, set by the client.
        EE_T_K: Stiffness frame, set by the client.
    """

    def __init__(self, F_T_NE: Vector | None = None) -> None:
        self.F_T_NE: Vector = np.eye(4) if F_T_NE is None else np.array(F_T_NE)
        self.NE_T_EE, self.EE_T_K = np.eye(4), np.eye(4)

    @property
    def pose_ee_in_flange(self) -> Vector:
        """End effector in the flange."""
        return np.asarray(self.F_T_NE @ self.NE_T_EE)
