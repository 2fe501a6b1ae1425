# SPDX-License-Identifier: Apache-2.0
"""Descriptions of arms and cells, and their URDF and MuJoCo models.

:mod:`~multipanda_py.description.franka` holds the data of the robots. The MuJoCo scene is in
:mod:`~multipanda_py.description.mjcf`, imported only where it is used, because it loads MuJoCo.
"""

from __future__ import annotations

from multipanda_py.description.arm import ArmDescription, Tool
from multipanda_py.description.franka import ARMATURE, FINGER_UPPER, MODELS, READY_POSTURE
from multipanda_py.description.scene_object import SceneObject
from multipanda_py.description.shapes import Capsule
from multipanda_py.description.urdf import arm_urdf, cell_urdf

__all__ = [
    "ARMATURE",
    "FINGER_UPPER",
    "MODELS",
    "READY_POSTURE",
    "ArmDescription",
    "Capsule",
    "SceneObject",
    "Tool",
    "arm_urdf",
    "cell_urdf",
]
