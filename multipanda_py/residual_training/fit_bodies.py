# SPDX-License-Identifier: Apache-2.0
"""What a plant's bodies are more than its twin's, from paired motions."""

from __future__ import annotations

import numpy as np

from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.arm_regressor import PER_LINK, ArmRegressor
from multipanda_py.residual.body_difference import BodyDifference, accelerations
from multipanda_py.residual.inputs import Inputs, own_inputs
from multipanda_py.residual_training.paired_motions import PairedMotions
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix, Vector

EVERY = 4
"""Samples from one that counts to the next: neighbours say the same."""
SPEEDS, DISTANCES = (0.002, 0.01, 0.05), (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Of the friction and hysteresis that are fitted beside [rad/s, m/s; rad, m]."""
BODY_RIDGE, TINY = 1e-6, 1e-6


def fit_bodies(pairs: PairedMotions, arm: ArmDescription) -> BodyDifference:
    r"""Fit differences of bodies to the torques that the training's motions differ by.

    .. math::
        \min_{\Delta\pi, a} \sum_{k, j} \frac{1}{\mathrm{var}\, r_j} \left(r_{k,j} -
        Y_j(q_k, \dot q_k, \ddot q_k) \Delta\pi - \phi_{k,j}^T a_j\right)^2

    with what friction and hysteresis look like, :math:`\phi`, beside (speeds and springs of
    :class:`.Inputs`), so that they do not pass for bodies. Their coefficients are dropped.

    Args:
        pairs: The data; its split for training is used.
        arm: The twin's, as it stands, with its hand.

    Raises:
        ConfigurationError: If the data are of another robot.
    """
    joints = tuple(joint.name for joint in arm.robot.joints)
    if (arm.robot.name, len(joints)) != (pairs.robot, len(pairs.joints)):
        raise ConfigurationError(
            f"bodies: got a cell with {arm.robot.name} of {len(joints)} joints, allowed "
            f"{pairs.robot} with {len(pairs.joints)}, as in the data"
        )
    n, found = len(joints), _NormalEquations(len(joints))
    inputs = Inputs(pairs.normalisation, np.array(SPEEDS), DISTANCES)
    span, regressor = pairs.normalisation.span[2 * n :], ArmRegressor(arm)
    motions = pairs.of("train")
    variance = np.vstack([one.residual[:, 2 * n :] * span for one in motions]).var(axis=0)
    for one in motions:
        q, dq, _ = np.hsplit(pairs.normalisation.state_of(one.twin), 3)
        ddq = accelerations(dq, pairs.rate)
        part = slice(None, None, EVERY)
        rows = regressor.rows(q[part], dq[part], ddq[part])
        seen = inputs.rows(one.twin)[part]
        found.add(rows, seen, one.residual[part, 2 * n :] * span, variance)
    model, limits = heavy_model(arm), arm.robot.limits
    placements = np.tile(np.eye(4), (n, 1, 1))
    for place, joint in zip(placements, arm.robot.joints):
        place[:3, :3], place[:3, 3] = joint.origin.rotation, joint.origin.position
    return BodyDifference(
        placements, np.array([joint.axis for joint in arm.robot.joints], float),
        np.asarray(limits.slides, float), np.array(model.gravity.linear), found.bodies(),
    )  # fmt: skip


class _NormalEquations:
    """Sums over samples of what a least squares problem takes.

    Args:
        n: Joints.
    """

    def __init__(self, n: int) -> None:
        self._n, self._of_bodies = n, n * len(PER_LINK)
        self._of_friction = len(SPEEDS) + len(DISTANCES) + 2
        size = self._of_bodies + n * self._of_friction
        self._matrix, self._right = np.zeros((size, size)), np.zeros(size)

    def add(self, rows: Matrix, seen: Matrix, torques: Matrix, variance: Vector) -> None:
        """Count samples: regressors (k, n, 10 n), inputs (k, m) and torques (k, n)."""
        for j in range(self._n):
            begin = self._of_bodies + j * self._of_friction
            places = np.r_[: self._of_bodies, begin : begin + self._of_friction]
            friction = seen[:, own_inputs(j, self._n, seen.shape[1])]
            columns = np.column_stack([rows[:, j], friction, np.ones(len(seen))])
            weight = 1.0 / max(float(variance[j]), 1e-12)
            self._matrix[np.ix_(places, places)] += weight * columns.T @ columns
            self._right[places] += weight * columns.T @ torques[:, j]

    def bodies(self) -> Matrix:
        """Return the differences of bodies, (n, 10); what cannot be told is zero."""
        size = np.sqrt(np.diag(self._matrix))
        usual = np.maximum(size, TINY * size.max())
        scaled = self._matrix / np.outer(usual, usual) + BODY_RIDGE * np.eye(len(size))
        solution = np.linalg.solve(scaled, self._right / usual) / usual
        found: Matrix = solution[: self._of_bodies].reshape(self._n, len(PER_LINK))
        return found
