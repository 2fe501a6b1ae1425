# SPDX-License-Identifier: Apache-2.0
"""An arm in simulation whose hand is pushed."""

from __future__ import annotations

import mujoco
import numpy as np


class PushedArm:
    """A cell with one arm under a law, whose hand can be pushed at the tool's point."""

    def __init__(self, make_cell, law, objects=None, cycles=10, **params):
        self.cycles = cycles  # between two looks at the lever
        self.cell = make_cell(
            arms={"arm": {}}, active=["arm/law"], objects=objects or {},
            controllets={"law": {"type": law, "params": params}},
        )  # fmt: skip
        sim = self.cell.simulation
        self.model, self.data = sim.model, sim.data
        self.body = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, "arm_fr3_hand")
        self.start = self.cell.pose("arm")

    def push(self, seconds, force=(0, 0, 0), torque=(0, 0, 0)):
        """Apply a wrench at the tool's point, moved to the body's centre of mass."""
        for _ in range(round(seconds * 1000 / self.cycles)):
            lever = self.cell.state("arm").position_ee_in_base - self.data.xipos[self.body]
            self.data.xfrc_applied[self.body] = [*force, *(torque + np.cross(lever, force))]
            self.cell.step(self.cycles)
        return self.cell.pose("arm")

    def moved(self):
        """Return how far the tool is from where it began, (3,) [m]."""
        return self.cell.pose("arm").position - self.start.position

    def turned(self):
        """Return by what angle the tool is turned from where it began [rad]."""
        return self.cell.pose("arm").distance(self.start)[1]

    def report(self):
        return self.cell.report("arm/law")
