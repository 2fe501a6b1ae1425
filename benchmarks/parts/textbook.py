# SPDX-License-Identifier: Apache-2.0
"""Textbook Cartesian impedance of one arm, written with MuJoCo alone."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

CHANGE = 1.0
"""Largest change of a torque in a cycle [Nm]."""
NULLSPACE = 10.0
"""Stiffness of the nullspace [Nm/rad]."""


def turned(rotation: np.ndarray) -> np.ndarray:
    """Return the rotation vector of a rotation matrix, (3,) [rad]."""
    quaternion, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quaternion, rotation.ravel())
    mujoco.mju_quat2Vel(vector, quaternion, 1.0)
    return vector


class Textbook:
    r"""Closed loop of a law on the model and state of a cell's simulation.

    .. math::
        \tau = J^T (K e - 2 \sqrt{K}\, J \dot q) + (I - J^T (J^T)^+) (k (q_0 - q)
        - 2 \sqrt{k}\, \dot q) + C \dot q

    with the torque rate bounded to 1 Nm/ms. With ``follow`` the target is filtered,
    :math:`x_d \leftarrow x_d + f (x - x_d)` in every cycle, as in the example of libfranka
    (f = 0.005); without, the error is clipped to 0.1 m and 0.5 rad, as CRISP does.

    Args:
        cell: Started inline cell with one simulated arm that compensates gravity.
        body: Prefix of the arm's names in the simulation.
        site: Name of the site at its tool.
        stiffness: Translational and rotational stiffness [N/m], [Nm/rad].
        follow: Fraction f of the filter; None is CRISP's law.
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
        self._place = np.array([int(joint.qposadr[0]) for joint in arm])
        self._site, self._follow = model.site(site).id, follow
        self._stiffness = np.repeat(stiffness, 3)
        self._limit = np.array([87.0] * 4 + [12.0] * 3)
        self._tau = np.zeros(len(arm))
        mujoco.mj_forward(model, self.data)
        self._q = self.data.qpos[self._place].copy()
        self.position, self.rotation = self.pose()
        self._observed, self._turned = self.pose()

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Return position (3,) [m] and rotation (3, 3) of the tool in the world."""
        place = self.data.site_xpos[self._site].copy()
        return place, self.data.site_xmat[self._site].reshape(3, 3).copy()

    def step(self) -> None:
        """Run one cycle."""
        model, data, dof = self.model, self.data, self._dof
        f = 1.0 if self._follow is None else self._follow
        self._observed = self._observed + f * (self.position - self._observed)
        turn, step = f * turned(self.rotation @ self._turned.T), np.zeros(4)
        mujoco.mju_axisAngle2Quat(
            step, turn / max(np.linalg.norm(turn), 1e-12), np.linalg.norm(turn)
        )
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, step)
        self._turned = matrix.reshape(3, 3) @ self._turned
        mujoco.mj_forward(model, data)
        place, rotation = self.pose()
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], self._site)
        jacobian, speed = jacobian[:, dof], data.qvel[dof]
        error = np.concatenate([self._observed - place, turned(self._turned @ rotation.T)])
        if self._follow is None:
            error = np.clip(error, *(sign * np.repeat([0.1, 0.5], 3) for sign in (-1, 1)))
        pull = self._stiffness * error - 2.0 * np.sqrt(self._stiffness) * (jacobian @ speed)
        free = np.eye(len(dof)) - jacobian.T @ np.linalg.pinv(jacobian.T, rcond=0.05)
        posture = NULLSPACE * (self._q - data.qpos[self._place]) - 2.0 * NULLSPACE**0.5 * speed
        tau = jacobian.T @ pull + free @ posture + self._coriolis()
        self._tau = self._tau + np.clip(tau - self._tau, -CHANGE, CHANGE)
        self._tau = np.clip(self._tau, -self._limit, self._limit)
        data.qfrc_applied[:] = 0.0
        data.qfrc_applied[dof] = self._tau
        mujoco.mj_step(model, data)

    def _coriolis(self) -> np.ndarray:
        data, moving = self.data, self.data.qvel.copy()
        whole = data.qfrc_bias[self._dof].copy()
        data.qvel[:] = 0.0
        mujoco.mj_fwdVelocity(self.model, data)
        weight = data.qfrc_bias[self._dof].copy()
        data.qvel[:] = moving
        mujoco.mj_fwdVelocity(self.model, data)
        return np.asarray(whole - weight)
