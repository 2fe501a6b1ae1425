# SPDX-License-Identifier: Apache-2.0
"""Panel as a client of a node, for tests with pages and browsers."""

from __future__ import annotations

from panel_rig import Rig

from multipanda_py.apps.panel import CellPanel
from multipanda_py.ros.client.panel_cell import NodeCell


class NodeRig(Rig):
    """Panel in this process, and node in another process in real time."""

    def __init__(self, namespace=""):
        cell = NodeCell(namespace)
        super().__init__(cell, CellPanel(cell, port=0))

    def round(self):
        self.cell.check()
        self.panel.work()
