# SPDX-License-Identifier: Apache-2.0
"""Minimum distance between an arm and all other bodies, by MuJoCo."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np


class Clearance:
    """Minimum distance [m] and maximum contact force [N] of an arm over all calls."""

    def __init__(self, cell, arm="left"):
        sim = cell.simulation
        self.model, self.data = sim.model, sim.data
        model, fixed_links = self.model, (f"{arm}_fr3_link0", f"{arm}_fr3_link1")
        geoms = [g for g in range(model.ngeom) if model.geom_contype[g]]
        names = {g: model.body(model.geom_bodyid[g]).name for g in geoms}
        arm_geoms = [
            g for g in geoms if names[g].startswith(f"{arm}_") and names[g] not in fixed_links
        ]
        other_geoms = [g for g in geoms if not names[g].startswith(f"{arm}_")]
        assert arm_geoms
        assert other_geoms
        self.pairs = list(itertools.product(arm_geoms, other_geoms))
        self.arm_geoms, self.minimum, self.force = set(arm_geoms), np.inf, 0.0

    def look(self):
        """Update distance and force."""
        for a, b in self.pairs:
            distance = mujoco.mj_geomDistance(self.model, self.data, a, b, 0.1, None)
            self.minimum = min(self.minimum, distance)
        self.feel()

    def feel(self):
        """Update the force."""
        wrench = np.zeros(6)
        for index, contact in enumerate(self.data.contact[: self.data.ncon]):
            if self.arm_geoms & set(contact.geom):
                mujoco.mj_contactForce(self.model, self.data, index, wrench)
                self.force = max(self.force, wrench[0])
