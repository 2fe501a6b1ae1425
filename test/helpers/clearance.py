# SPDX-License-Identifier: Apache-2.0
"""Minimum distance between an arm and all other bodies, by MuJoCo."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np


class Clearance:
    """Minimum distance of an arm to all other bodies so far, and its maximum contact force."""

    def __init__(self, cell, arm="left"):
        sim = cell.simulation
        self.model, self.data = sim.model, sim.data
        model, still = self.model, (f"{arm}_fr3_link0", f"{arm}_fr3_link1")
        solid = [g for g in range(model.ngeom) if model.geom_contype[g]]
        names = {g: model.body(model.geom_bodyid[g]).name for g in solid}
        mine = [g for g in solid if names[g].startswith(f"{arm}_") and names[g] not in still]
        others = [g for g in solid if not names[g].startswith(f"{arm}_")]
        assert mine
        assert others
        self.pairs = list(itertools.product(mine, others))
        self.mine, self.minimum, self.force = set(mine), np.inf, 0.0

    def look(self):
        for a, b in self.pairs:
            found = mujoco.mj_geomDistance(self.model, self.data, a, b, 0.1, None)
            self.minimum = min(self.minimum, found)
        self.feel()

    def feel(self):
        wrench = np.zeros(6)
        for index, contact in enumerate(self.data.contact[: self.data.ncon]):
            if self.mine & set(contact.geom):
                mujoco.mj_contactForce(self.model, self.data, index, wrench)
                self.force = max(self.force, wrench[0])
