# SPDX-License-Identifier: Apache-2.0
"""Simulated arm with external wrenches on its gripper."""

from __future__ import annotations

import mujoco
import numpy as np


class PushedArm:
    """Cell with one arm, and external wrenches at the tool centre point."""

    def __init__(self, make_cell, law, objects=None, cycles=10, **params):
        self.cycles = cycles  # between two updates of the lever arm
        self.cell = make_cell(
            arms={"arm": {}}, active=["arm/law"], objects=objects or {},
            controllets={"law": {"type": law, "params": params}},
        )  # fmt: skip
        sim = self.cell.simulation
        self.model, self.data = sim.model, sim.data
        self.body = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, "arm_fr3_hand")
        self.start = self.cell.pose("arm")

    def push(self, seconds, force=(0, 0, 0), torque=(0, 0, 0)):
        """Apply a wrench at the tool centre point, shifted to the centre of mass of the body."""
        for _ in range(round(seconds * 1000 / self.cycles)):
            lever = self.cell.state("arm").position_ee_in_base - self.data.xipos[self.body]
            self.data.xfrc_applied[self.body] = [*force, *(torque + np.cross(lever, force))]
            self.cell.step(self.cycles)
        return self.cell.pose("arm")

    def moved(self):
        """Return the displacement of the tool from the start, (3,) [m]."""
        return self.cell.pose("arm").position - self.start.position

    def turned(self):
        """Return the rotation angle of the tool from the start [rad]."""
        return self.cell.pose("arm").distance(self.start)[1]

    def report(self):
        return self.cell.report("arm/law")
