# SPDX-License-Identifier: Apache-2.0
"""Energy of simulated arms and of their virtual springs, from the MuJoCo model."""

from __future__ import annotations

import mujoco
import numpy as np


class EnergyBook:
    """Kinetic energy of a scene, and energy of the spring between a tool and its start pose.

    Args:
        cell: Started cell in lockstep.
        arm: Name of the arm.
        site: Name of the site at the tool centre point.
        stiffness: Stiffness of the spring along the axes of ``in_tool``, (6, 6).
        clip: Maximum error per axis, (6,); for diagonal stiffness only.
        in_tool: True for axes of the tool, False for axes of the base.
    """

    def __init__(self, cell, arm, site, stiffness, clip=None, in_tool=False):
        self.model, self.data = cell.simulation.model, cell.simulation.data
        self.snapshot = mujoco.MjData(self.model)
        self.site = self.model.site(site).id
        self.body = self.model.body(int(self.model.site_bodyid[self.site])).name
        self.stiffness, self.clip, self.in_tool = np.array(stiffness), clip, in_tool
        self.kinetic()
        self.position, self.rotation = self._pose()

    def _pose(self):
        rotation = self.snapshot.site_xmat[self.site].reshape(3, 3).copy()
        return self.snapshot.site_xpos[self.site].copy(), rotation

    def kinetic(self):
        """Return the kinetic energy of all joints [J]."""
        self.snapshot.qpos[:], self.snapshot.qvel[:] = self.data.qpos, self.data.qvel
        mujoco.mj_forward(self.model, self.snapshot)
        momentum = np.zeros(self.model.nv)
        mujoco.mj_mulM(self.model, self.snapshot, momentum, self.data.qvel)
        return 0.5 * float(momentum @ self.data.qvel)

    def total(self):
        """Return the sum of the kinetic energy and the energy of the spring [J]."""
        kinetic = self.kinetic()
        position, rotation = self._pose()
        error = np.r_[self.position - position, rotation_vector(self.rotation @ rotation.T)]
        if self.in_tool:
            error = np.r_[rotation.T @ error[:3], rotation.T @ error[3:]]
        if self.clip is None:
            return kinetic + 0.5 * error @ self.stiffness @ error
        size, clipped = np.abs(error), np.minimum(np.abs(error), self.clip)
        return kinetic + float(np.diag(self.stiffness) @ (size * clipped - 0.5 * clipped**2))


def rotation_vector(rotation):
    """Return the rotation vector of a matrix, (3,) [rad]."""
    quaternion, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quaternion, rotation.reshape(-1))
    mujoco.mju_quat2Vel(vector, quaternion, 1.0)
    return vector
