# SPDX-License-Identifier: Apache-2.0
"""Cell in lockstep with its panel, for tests with pages and browsers."""

from __future__ import annotations

import numpy as np
from cell_names import CARTESIAN
from panel_page import PanelPage, until

from multipanda_py.apps.panel import CellPanel
from multipanda_py.testing import simple_cell


class Rig:
    """Panel with its cell and pages."""

    def __init__(self, cell, panel):
        self.cell, self.panel, self.pages = cell, panel, []

    def round(self):
        raise NotImplementedError

    def until(self, condition, what):
        until(condition, what, self.round)

    def page(self, in_command=False, **options):
        page = PanelPage(self.panel.address, **options)
        self.pages.append(page)
        self.until(lambda: page.find("Grasp", 1), "elements of both arms on the page")
        if in_command:
            page.use("Take command")
            self.until(self.noted("has taken the command"), "page in command")
        return page

    def noted(self, text):
        return lambda: any(text in note for note in self.panel.session.notes)

    def z(self, arm="left"):
        return float(self.cell.pose(arm).position[2])

    def target(self, arm="left", up=0.0):
        """Return position above the tool and orientation (w x y z) in the world."""
        base = self.cell.frames.world_from(self.cell.frames.base_of(arm))
        pose = base @ self.cell.pose(arm)
        return (pose.position + [0.0, 0.0, up]).tolist(), np.roll(pose.quaternion_xyzw, 1).tolist()

    def close(self):
        for page in self.pages:
            page.close()
        self.panel.close()
        self.cell.close()


class PanelRig(Rig):
    """Cell in lockstep, with a panel on a simulated clock and its pages."""

    def __init__(self, host="127.0.0.1", **settings):
        names = [f"{arm}/{CARTESIAN}" for arm in ("left", "right")]
        cell = simple_cell(active=names, **settings)
        cell.start()
        cell.step(5)
        self.now = 0.0
        super().__init__(cell, CellPanel(cell, host, port=0, clock=lambda: self.now))
        self.round()

    def round(self):
        """Run the panel once, and advance the simulation and the clock by 20 ms."""
        self.panel.work()
        self.cell.step(20)
        self.now += 0.02
