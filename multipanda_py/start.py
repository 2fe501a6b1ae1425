# SPDX-License-Identifier: Apache-2.0
"""Where the programs start: they take the signals before they import anything large."""

from __future__ import annotations

from multipanda_py.machine.interruption import end_at_once


def multimode_controller() -> int:
    """Run the node; see :mod:`multipanda_py.ros.node`."""
    end_at_once("multimode_controller")
    from multipanda_py.ros.node import main

    return main()


def multipanda() -> int:
    """Run a command; see :mod:`multipanda_py.cli`."""
    end_at_once("multipanda")
    from multipanda_py.cli import main

    return main()
