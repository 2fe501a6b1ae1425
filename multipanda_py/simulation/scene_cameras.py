# SPDX-License-Identifier: Apache-2.0
"""Cameras of the cell file in a MuJoCo scene."""

from __future__ import annotations

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.extras import extras_named
from multipanda_py.robots.rotations import look_at
from multipanda_py.simulation.mjcf_elements import put, quaternion

with extras_named():
    import mujoco

CAMERA_FIELD_OF_VIEW = 45.0
"""Where nobody says, as of MuJoCo's cameras [deg]."""


def add_cameras(spec: mujoco.MjSpec, config: CellConfig) -> None:
    """Add the cameras that a cell places, under their names.

    Args:
        spec: Of the scene, which has ``overview`` already.
        config: The cell.
    """
    for name, camera in config.cameras.items():
        if camera.position is None or camera.look_at is None:
            continue
        position = np.array(camera.position)
        rotation = look_at(np.array(camera.look_at) - position)
        placed = put(spec.worldbody.add_camera(), name=name, pos=position)
        put(placed, quat=quaternion(rotation), fovy=camera.fovy or CAMERA_FIELD_OF_VIEW)
