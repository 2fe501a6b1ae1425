# SPDX-License-Identifier: Apache-2.0
"""Public handle of a cell, :class:`Cell`, and its parts."""

from multipanda_py.registry import extras_named

with extras_named():
    from multipanda_py.cell.cell import Cell

__all__ = ["Cell"]
