# SPDX-License-Identifier: Apache-2.0
"""What a hand carries, from motion or from postures, with an arm that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.arm.friction import FrictionShape
from multipanda_py.identification.arm.identify import SLOW
from multipanda_py.identification.arm.physical_parameters import ParameterPrior, consistent
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.identification.arm.stack import Stack, check_motion, stack
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import Load
from multipanda_py.state import Matrix, Vector

GUESS = Load(1.0, np.array([0.0, 0.0, 0.1]), np.diag([4e-3, 4e-3, 4e-3]))
"""A thing of ordinary size, where nothing else is known."""
SPREAD = 3.0
"""Of that guess: it is none of mass and centre, and some help for inertia."""
MOVING = 0.3
"""Fastest velocity of a joint from which a log counts as motion, not postures [rad/s, m/s]."""
LEAST_TURNED = 0.15
"""Least that gravity has to turn in the flange, so that a centre is told: singular value."""


@dataclass(frozen=True, eq=False)
class FoundLoad:
    """A load and how well it is known.

    Attributes:
        load: On the flange, beyond hand and tool.
        mass_deviation: Standard deviation [kg].
        com_deviation: Likewise, (3,) [m].
        tells_inertia: Whether the log had motion; else the inertia is that of a thing of ordinary
            density, which only keeps the load a body.
        rmse: Of what is left of the torques, (n,) [Nm].
    """

    load: Load
    mass_deviation: float
    com_deviation: Vector
    tells_inertia: bool
    rmse: Vector


def find_load(
    motions: Sequence[MeasuredMotion], arm: ArmDescription, cutoff: float = 5.0
) -> FoundLoad:
    r"""Find the load on an arm's flange.

    .. math:: \tau - Y \pi_{arm} - \tau_f = Y_{flange} \pi_L + \Delta \tau_f

    The arm's own inertia, hand, tool and friction are taken as its model has them; friction may
    differ by some tenths of a Nm. Standing still, gravity alone tells mass and centre.

    Args:
        motions: With the load in the hand, as measured.
        arm: With its hand and tool; best one that was identified.
        cutoff: Of the filter of torques and regressors [Hz].

    Raises:
        IdentificationRefused: If the log is not one of this arm, or cannot tell the load.
    """
    regressor = ArmRegressor(arm)
    for motion in motions:
        check_motion(motion, regressor, moves=False)
    n, robot = arm.n_joints, arm.robot
    part = stack(regressor, motions, FrictionShape.sharp(n), cutoff)
    if len(part) < 5:
        raise IdentificationRefused(
            f"{motions[0].name}: too short: allowed runs of some seconds without gaps"
        )
    rows = regressor.flange_rows(part.rows[..., : 10 * n])
    own = np.concatenate(
        [regressor.prior, robot.armature, robot.damping, robot.friction, robot.torque_offset]
    )
    left = part.tau - part.rows @ own
    moves = bool(np.abs(part.dq).max() > MOVING)
    _refuse_one_posture(rows, motions[0].name)
    columns = np.concatenate([rows, part.rows[..., 11 * n :]], axis=2)
    weight = _weights(part, columns, left, cutoff)
    allowed = np.concatenate([np.full(2 * n, 0.2), np.full(n, 0.1)])
    allowed *= np.tile(np.sqrt(arm.limits.torque / arm.limits.torque.max()), 3)
    found = consistent(
        (columns * weight[:, :, None]).reshape(-1, 10 + 3 * n),
        (left * weight).ravel(),
        [GUESS],
        ParameterPrior(np.zeros(3 * n), allowed, np.full(3 * n, -np.inf)),
        spread=SPREAD,
    )
    body = found.bodies[0]
    rest = left - columns @ found.values
    return FoundLoad(
        body,
        float(found.deviations[0]),
        np.asarray(found.deviations[1:4] / body.mass),
        moves,
        np.sqrt((rest**2).mean(axis=0)),
    )


def _refuse_one_posture(rows: Matrix, name: str) -> None:
    """Refuse logs in which gravity does not turn in the hand.

    Raises:
        IdentificationRefused: Says that mass and centre are not told.
    """
    heavy = rows[..., :4].reshape(-1, 4) * (1.0, 0.1, 0.1, 0.1)
    sizes = np.linalg.svd(heavy / np.sqrt(len(heavy)), compute_uv=False)
    if sizes[-1] < LEAST_TURNED * 0.1 * sizes[0]:
        raise IdentificationRefused(
            f"{name}: mass and centre of the load cannot be told apart: gravity hardly turns in "
            "the hand; allowed at least three postures with the hand tilted differently"
        )


def _weights(part: Stack, columns: Matrix, left: Matrix, cutoff: float) -> Matrix:
    """Return what every torque counts, (N, n): nothing near rest, if the arm moves."""
    moving = part.moving(SLOW, cutoff).astype(float)
    if moving.mean() < 0.2:
        moving = np.ones_like(moving)
    all_rows = columns.reshape(-1, columns.shape[2])
    values, *_ = np.linalg.lstsq(all_rows, left.ravel(), rcond=1e-8)
    rest = left - (all_rows @ values).reshape(left.shape)
    noise = np.sqrt((rest**2).mean(axis=0)) + 0.01
    weights: Matrix = moving * np.sqrt(part.independent) / noise
    return weights
