# SPDX-License-Identifier: Apache-2.0
"""Torque control of one or more Franka arms from Python and ROS 2.

Public names are imported on first use, so that a process that needs a single module, such as the
real-time loop, does not load all others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from multipanda_py.registry import VERSION

if TYPE_CHECKING:
    from multipanda_py.cell import Cell as Cell
    from multipanda_py.exceptions import MultipandaError as MultipandaError
    from multipanda_py.pose import Pose as Pose

__version__ = VERSION

_PUBLIC = {
    "Cell": "multipanda_py.cell",
    "MultipandaError": "multipanda_py.exceptions",
    "Pose": "multipanda_py.pose",
}
__all__ = ["Cell", "MultipandaError", "Pose", "__version__"]


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562)."""
    if name in _PUBLIC:
        from multipanda_py.registry import extras_named

        with extras_named():
            return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
