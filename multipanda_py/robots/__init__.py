# SPDX-License-Identifier: Apache-2.0
"""Descriptions of arms and objects, from which URDF, MJCF and collision geometry are generated.

:mod:`~multipanda_py.robots.models` has the robot models by name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from multipanda_py.robots.arm import ArmDescription, SceneObject, Tool
from multipanda_py.robots.franka import (
    ARMATURE,
    FINGER_UPPER,
    READY_CONFIGURATION,
)
from multipanda_py.robots.geometry import Capsule
from multipanda_py.robots.models import DEFAULT_MODEL, MODELS
from multipanda_py.robots.robot import Robot

if TYPE_CHECKING:
    from multipanda_py.robots.urdf import arm_urdf as arm_urdf
    from multipanda_py.robots.urdf import cell_urdf as cell_urdf

__all__ = [
    "ARMATURE",
    "DEFAULT_MODEL",
    "FINGER_UPPER",
    "MODELS",
    "READY_CONFIGURATION",
    "ArmDescription",
    "Capsule",
    "Robot",
    "SceneObject",
    "Tool",
    "arm_urdf",
    "cell_urdf",
]
_GENERATORS = ("arm_urdf", "cell_urdf")


def __getattr__(name: str) -> object:
    if name in _GENERATORS:
        return getattr(import_module(f"{__name__}.urdf"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
