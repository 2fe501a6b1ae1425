# SPDX-License-Identifier: Apache-2.0
"""The handle of a cell, and the parts it is made of."""

from multipanda_py.registry import extras_named

with extras_named():
    from multipanda_py.cell.cell import Cell

__all__ = ["Cell"]
