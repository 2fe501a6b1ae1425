# SPDX-License-Identifier: Apache-2.0
"""Simulated arm above a floor of known stiffness, computed outside of MuJoCo."""

from __future__ import annotations

import math

import mujoco
import numpy as np
from configurations import OVER_TABLE

from multipanda_py.testing import simple_cell

ROD = {
    "mass": 0.2, "com": [0, 0, 0.05], "inertia": [1e-3, 1e-3, 1e-3, 0, 0, 0],
    "position": [0, 0, 0.1],
}  # fmt: skip
REAL = {
    "joint_friction": [0.3, 0.3, 0.3, 0.3, 0.15, 0.15, 0.1],
    "joint_damping": [0.5] * 7,
    "noise": {"q": 1e-5, "dq": 1e-3, "tau": 0.05, "torque_resolution": 0.01},
}
LATE = {"state_delay": 0.005, "torque_lag": 0.002}


class ContactRig:
    """Arm with a rod as its tool, and a floor: force = max(0, k depth - c speed).

    MuJoCo contacts are not used, as their stiffness depends on the mass of the bodies. The
    kinematics are updated before each step. Otherwise the depth is late by a period T. This delay
    is a damping of -k T, -100 Ns/m at 1e5 N/m, with which every controllet chatters.

    Args:
        stiffness: Stiffness of the floor [N/m].
        gap: Height of the tip above the floor at the start [m].
        params: Parameters of the controllet.
        arm: Settings of the arm.
        law: Type of the controllet.
        damping_ratio: Damping ratio of the floor under 3 kg; near 0 for hard metal.
    """

    def __init__(
        self, stiffness, gap, params=None, arm=None, law="force_impedance", damping_ratio=0.02
    ):
        arm = {"q_start": OVER_TABLE, "gripper": False, "tool": ROD, **(arm or {})}
        self.cell = simple_cell(
            {"arm": arm}, {"law": {"type": law, "params": params or {}}}, ["arm/law"],
            gate={"position": 1.0, "rotation": 3.2},
        )  # fmt: skip
        self.cell.start()
        self._sim = self.cell.simulation
        model, self._data = self._sim.model, self._sim.data
        self._site = model.site("arm_fr3_tool_tcp").id
        self._jacobian = np.zeros((3, model.nv))
        self._stiffness = stiffness
        self._damping = 2.0 * damping_ratio * math.sqrt(stiffness * 3.0)
        self.floor = self.tip[2] - gap
        self.push = np.zeros(3)
        """Additional force on the tip in the world, (3,) [N]."""

    @property
    def tip(self):
        """Current position of the tip in the world, (3,) [m]."""
        mujoco.mj_kinematics(self._sim.model, self._data)
        return self._data.site_xpos[self._site].copy()

    def jacobian(self):
        """Return MuJoCo's Jacobian of the tip, (6, 7), along the axes of the world."""
        linear, angular = (np.zeros((3, self._sim.model.nv)) for _ in range(2))
        mujoco.mj_jacSite(self._sim.model, self._data, linear, angular, self._site)
        return np.vstack([linear, angular])[:, :7]

    @property
    def law(self):
        """Active controllet."""
        return self.cell.loop.owners.active[0].law

    def press(self, force):
        """Set a target force in the direction -z [N]."""
        self.cell.set_target("arm", wrench=[0.0, 0.0, -force, 0.0, 0.0, 0.0])

    def step(self, cycles):
        """Return the force on the floor [N] and the height of the tip above it [m], per cycle."""
        model, data, jacobian = self._sim.model, self._data, self._jacobian
        forces, heights = np.zeros(cycles), np.zeros(cycles)
        for k in range(cycles):
            depth = self.floor - self.tip[2]
            mujoco.mj_comPos(model, data)
            mujoco.mj_jacSite(model, data, jacobian, None, self._site)
            speed = float(jacobian[2] @ data.qvel)
            if depth > 0.0:
                forces[k] = max(0.0, self._stiffness * depth - self._damping * speed)
            heights[k] = -depth
            data.qfrc_applied[:] = (self.push + [0.0, 0.0, forces[k]]) @ jacobian
            self.cell.step(1)
        return forces, heights

    def close(self):
        self.cell.close()
