# SPDX-License-Identifier: Apache-2.0
"""Payload identification at the flange of an arm with known dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.estimators import (
    FrictionShape,
    ParameterPrior,
    fit_consistent,
)
from multipanda_py.identification.arm.identify import MIN_VELOCITY
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.identification.arm.stack import Stack, check_motion, stack
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import Load
from multipanda_py.state import Matrix, Vector

PRIOR_LOAD = Load(1.0, np.array([0.0, 0.0, 0.1]), np.diag([4e-3, 4e-3, 4e-3]))
"""Prior of the payload: a body of 1 kg whose centre is 0.1 m in front of the flange."""
PRIOR_LOAD_DEVIATION = 3.0
"""Relative standard deviation of :data:`PRIOR_LOAD`. It is so wide that the log determines mass
and centre of mass. The inertia stays close to the prior if the log contains no fast motion."""
MIN_MOTION_VELOCITY = 0.3
"""Joint velocity above which a log counts as a motion, not as static
configurations [rad/s, m/s]."""
MIN_SINGULAR_RATIO = 0.15
"""Minimum ratio of the smallest to the largest singular value of the regressor columns of mass and
first moments. Below it, mass and centre of mass cannot be separated."""


@dataclass(frozen=True, eq=False)
class PayloadEstimate:
    """Identified payload with its uncertainty.

    Attributes:
        load: Payload in addition to gripper and tool, in the flange frame.
        mass_deviation: Standard deviation of the mass [kg].
        com_deviation: Standard deviation of the centre of mass, (3,) [m].
        has_inertia: True if the logs determine the inertia. If False, the inertia in ``load`` is
            close to that of :data:`PRIOR_LOAD`.
        rmse: Root mean square of the torque residual of each joint, (n,) [Nm].
    """

    load: Load
    mass_deviation: float
    com_deviation: Vector
    has_inertia: bool
    rmse: Vector


def identify_payload(
    motions: Sequence[MeasuredMotion], arm: ArmDescription, cutoff: float = 5.0
) -> PayloadEstimate:
    r"""Identify the payload at the flange of an arm.

    .. math:: \tau - Y \pi_{arm} - \tau_f = Y_{flange} \pi_L + \Delta \tau_f.

    Symbols: measured torques :math:`\tau`, regressors Y, and inertial parameters :math:`\pi_{arm}`
    of the arm and :math:`\pi_L` of the payload. Friction :math:`\tau_f` comes from the model; its
    error :math:`\Delta \tau_f` is estimated.

    Logs without motion suffice for mass and centre of mass.

    Args:
        motions: Measured logs of the arm with the payload attached.
        arm: Arm with its gripper and tool, preferably with identified parameters.
        cutoff: Cutoff frequency of the filter of torques and regressors [Hz].

    Raises:
        IdentificationRejected: If a log does not belong to this arm or does not determine the
            payload.
    """
    regressor = ArmRegressor(arm)
    for motion in motions:
        check_motion(motion, regressor, moves=False)
    n, robot = arm.n_joints, arm.robot
    part = stack(regressor, motions, FrictionShape.sharp(n), cutoff)
    if len(part) < 5:
        raise IdentificationRejected(
            f"{motions[0].name}: too short. Record several seconds without gaps."
        )
    rows = regressor.flange_rows(part.rows[..., : 10 * n])
    own = np.concatenate(
        [regressor.prior, robot.armature, robot.damping, robot.friction, robot.torque_offset]
    )
    left = part.tau - part.rows @ own
    moves = bool(np.abs(part.dq).max() > MIN_MOTION_VELOCITY)
    _check_several_configurations(rows, motions[0].name)
    columns = np.concatenate([rows, part.rows[..., 11 * n :]], axis=2)
    weight = _torque_weights(part, columns, left, cutoff)
    allowed = np.concatenate([np.full(2 * n, 0.2), np.full(n, 0.1)])
    allowed *= np.tile(np.sqrt(arm.limits.torque / arm.limits.torque.max()), 3)
    result = fit_consistent(
        (columns * weight[:, :, None]).reshape(-1, 10 + 3 * n),
        (left * weight).ravel(),
        [PRIOR_LOAD],
        ParameterPrior(np.zeros(3 * n), allowed, np.full(3 * n, -np.inf)),
        spread=PRIOR_LOAD_DEVIATION,
    )
    body = result.loads[0]
    rest = left - columns @ result.values
    return PayloadEstimate(
        body,
        float(result.deviations[0]),
        np.asarray(result.deviations[1:4] / body.mass),
        moves,
        np.sqrt((rest**2).mean(axis=0)),
    )


def _check_several_configurations(rows: Matrix, name: str) -> None:
    heavy = rows[..., :4].reshape(-1, 4) * (1.0, 0.1, 0.1, 0.1)
    sizes = np.linalg.svd(heavy / np.sqrt(len(heavy)), compute_uv=False)
    if sizes[-1] < MIN_SINGULAR_RATIO * 0.1 * sizes[0]:
        raise IdentificationRejected(
            f"{name}: mass and centre of mass of the payload cannot be separated because the "
            "orientation of the flange hardly changes. Record three or more configurations with "
            "differently tilted flange."
        )


def _torque_weights(part: Stack, columns: Matrix, residuals: Matrix, cutoff: float) -> Matrix:
    """Return the weight of every torque in the payload fit, (N, n)."""
    moving = part.moving(MIN_VELOCITY, cutoff).astype(float)
    if moving.mean() < 0.2:
        # In logs at rest, all torques count.
        moving = np.ones_like(moving)
    all_rows = columns.reshape(-1, columns.shape[2])
    values, *_ = np.linalg.lstsq(all_rows, residuals.ravel(), rcond=1e-8)
    rest = residuals - (all_rows @ values).reshape(residuals.shape)
    noise = np.sqrt((rest**2).mean(axis=0)) + 0.01
    weights: Matrix = moving * np.sqrt(part.independent) / noise
    return weights
