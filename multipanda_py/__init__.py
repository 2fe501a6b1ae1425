# SPDX-License-Identifier: Apache-2.0
"""Torque control of one or more Franka arms from Python and ROS 2.

Public names are imported on first use, so that a process such as the real-time loop loads only the
modules that it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from multipanda_py.registry import VERSION

if TYPE_CHECKING:
    from multipanda_py.actuator import Actuator as Actuator
    from multipanda_py.backend import Backend as Backend
    from multipanda_py.cell import Cell as Cell
    from multipanda_py.context import BumplessTransfer as BumplessTransfer
    from multipanda_py.context import Context as Context
    from multipanda_py.controllet import Controllet as Controllet
    from multipanda_py.exceptions import MultipandaError as MultipandaError
    from multipanda_py.feature import Feature as Feature
    from multipanda_py.parameters import choice as choice
    from multipanda_py.parameters import flag as flag
    from multipanda_py.parameters import joint_vector as joint_vector
    from multipanda_py.parameters import number as number
    from multipanda_py.parameters import vector as vector
    from multipanda_py.pose import Pose as Pose
    from multipanda_py.state import ArmState as ArmState
    from multipanda_py.state import Matrix as Matrix
    from multipanda_py.state import Vector as Vector
    from multipanda_py.targets import CartesianImpedanceTarget as CartesianImpedanceTarget
    from multipanda_py.targets import CartesianTarget as CartesianTarget
    from multipanda_py.targets import Channel as Channel
    from multipanda_py.targets import JointTarget as JointTarget
    from multipanda_py.targets import JointVelocityTarget as JointVelocityTarget
    from multipanda_py.targets import ObjectTarget as ObjectTarget
    from multipanda_py.targets import Target as Target

__version__ = VERSION

_PUBLIC = {
    "Actuator": "multipanda_py.actuator",
    "ArmState": "multipanda_py.state",
    "Backend": "multipanda_py.backend",
    "BumplessTransfer": "multipanda_py.context",
    "CartesianImpedanceTarget": "multipanda_py.targets",
    "CartesianTarget": "multipanda_py.targets",
    "Cell": "multipanda_py.cell",
    "Channel": "multipanda_py.targets",
    "Context": "multipanda_py.context",
    "Controllet": "multipanda_py.controllet",
    "Feature": "multipanda_py.feature",
    "JointTarget": "multipanda_py.targets",
    "JointVelocityTarget": "multipanda_py.targets",
    "Matrix": "multipanda_py.state",
    "MultipandaError": "multipanda_py.exceptions",
    "ObjectTarget": "multipanda_py.targets",
    "Pose": "multipanda_py.pose",
    "Target": "multipanda_py.targets",
    "Vector": "multipanda_py.state",
    "choice": "multipanda_py.parameters",
    "flag": "multipanda_py.parameters",
    "joint_vector": "multipanda_py.parameters",
    "number": "multipanda_py.parameters",
    "vector": "multipanda_py.parameters",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562)."""
    if name in _PUBLIC:
        from multipanda_py.registry import extras_named

        with extras_named():
            return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
