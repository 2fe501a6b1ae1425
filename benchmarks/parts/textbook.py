# SPDX-License-Identifier: Apache-2.0
"""Textbook Cartesian impedance of one arm, implemented with MuJoCo only."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

CHANGE = 1.0
"""Maximum torque change per cycle [Nm]."""
NULLSPACE = 10.0
"""Joint stiffness in the nullspace [Nm/rad]."""


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Return the rotation vector of a rotation matrix, (3,) [rad]."""
    quaternion, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quaternion, rotation.ravel())
    mujoco.mju_quat2Vel(vector, quaternion, 1.0)
    return vector


class Textbook:
    r"""Closed loop of a textbook law with the simulation model and state of a cell.

    .. math::
        \tau = J^T (K e - 2 \sqrt{K}\, J \dot q) + (I - J^T (J^T)^+) (k (q_0 - q)
        - 2 \sqrt{k}\, \dot q) + C \dot q

    The torque rate is limited to 1 Nm/ms. With ``follow`` the target is filtered in each cycle,
    :math:`x_d \leftarrow x_d + f (x - x_d)`, as in the example of libfranka (f = 0.005). Without
    ``follow`` the error is clipped to 0.1 m and 0.5 rad, as in CRISP.

    Args:
        cell: Started inline cell with one simulated arm that compensates gravity.
        body: Prefix of the arm's names in the simulation.
        site: Name of the site at the tool.
        stiffness: Translational and rotational stiffness [N/m], [Nm/rad].
        follow: Filter coefficient f, None for the law of CRISP.
    """

    def __init__(
        self, cell: Any, body: str, site: str, stiffness: tuple[float, float], follow: float | None
    ) -> None:
        self.model = model = cell.simulation.model
        self.data = mujoco.MjData(model)
        self.data.qpos[:] = cell.simulation.data.qpos
        joints = [
            model.joint(i) for i in range(model.njnt) if model.joint(i).name.startswith(body)
        ]
        arm = [joint for joint in joints if "finger" not in joint.name]
        self._dof = np.array([int(joint.dofadr[0]) for joint in arm])
        self._q_index = np.array([int(joint.qposadr[0]) for joint in arm])
        self._site, self._follow = model.site(site).id, follow
        self._stiffness = np.repeat(stiffness, 3)
        self._limit = np.array([87.0] * 4 + [12.0] * 3)
        self._tau = np.zeros(len(arm))
        mujoco.mj_forward(model, self.data)
        self._q = self.data.qpos[self._q_index].copy()
        self.position, self.rotation = self.pose()
        self._filtered_position, self._filtered_rotation = self.pose()

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Return position (3,) [m] and rotation (3, 3) of the tool in the world."""
        position = self.data.site_xpos[self._site].copy()
        return position, self.data.site_xmat[self._site].reshape(3, 3).copy()

    def step(self) -> None:
        """Run one cycle."""
        model, data, dof = self.model, self.data, self._dof
        f = 1.0 if self._follow is None else self._follow
        self._filtered_position = self._filtered_position + f * (
            self.position - self._filtered_position
        )
        angle, step = f * rotation_vector(self.rotation @ self._filtered_rotation.T), np.zeros(4)
        mujoco.mju_axisAngle2Quat(
            step, angle / max(np.linalg.norm(angle), 1e-12), np.linalg.norm(angle)
        )
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, step)
        self._filtered_rotation = matrix.reshape(3, 3) @ self._filtered_rotation
        mujoco.mj_forward(model, data)
        position, rotation = self.pose()
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], self._site)
        jacobian, speed = jacobian[:, dof], data.qvel[dof]
        error = np.concatenate(
            [
                self._filtered_position - position,
                rotation_vector(self._filtered_rotation @ rotation.T),
            ]
        )
        if self._follow is None:
            error = np.clip(error, *(sign * np.repeat([0.1, 0.5], 3) for sign in (-1, 1)))
        wrench = self._stiffness * error - 2.0 * np.sqrt(self._stiffness) * (jacobian @ speed)
        projector = np.eye(len(dof)) - jacobian.T @ np.linalg.pinv(jacobian.T, rcond=0.05)
        joint_torques = (
            NULLSPACE * (self._q - data.qpos[self._q_index]) - 2.0 * NULLSPACE**0.5 * speed
        )
        tau = jacobian.T @ wrench + projector @ joint_torques + self._coriolis()
        self._tau = self._tau + np.clip(tau - self._tau, -CHANGE, CHANGE)
        self._tau = np.clip(self._tau, -self._limit, self._limit)
        data.qfrc_applied[:] = 0.0
        data.qfrc_applied[dof] = self._tau
        mujoco.mj_step(model, data)

    def _coriolis(self) -> np.ndarray:
        data, velocity = self.data, self.data.qvel.copy()
        bias = data.qfrc_bias[self._dof].copy()
        data.qvel[:] = 0.0
        mujoco.mj_fwdVelocity(self.model, data)
        gravity = data.qfrc_bias[self._dof].copy()
        data.qvel[:] = velocity
        mujoco.mj_fwdVelocity(self.model, data)
        return np.asarray(bias - gravity)
