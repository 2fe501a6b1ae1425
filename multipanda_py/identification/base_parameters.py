# SPDX-License-Identifier: Apache-2.0
"""Which combinations of parameters torques depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.identification.arm_regressor import ArmRegressor
from multipanda_py.state import Matrix, Vector

SAMPLES = 60
"""Random states whose regressors have all the rank that there is."""
TOLERANCE = 1e-9
"""Of the rank, relative to the largest; below it there is rounding, 1e-13, and nothing between."""
UNTOLD = 1e-6
"""Of a constant torque, what bodies cannot stand in for, relative; else there is rounding."""


@dataclass(frozen=True, eq=False)
class BaseParameters:
    r"""The smallest set of combinations that gives the same torques.

    .. math:: Y \pi = Y_b \beta, \qquad \beta = T \pi

    Attributes:
        columns: Which columns of Y are those of :math:`Y_b`, (b,).
        transform: T, (b, p); its ``columns`` are the identity.
        names: Of the combinations, (b,): the parameter that each begins with.

    Source: Gautier, Numerical calculation of the base inertial parameters of robots, 1990.
    """

    columns: Matrix
    transform: Matrix
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.columns)


def base_parameters(
    regressor: ArmRegressor,
    gravities: Sequence[Vector | None] = (None,),
    *,
    rotors: bool = False,
    seed: int = 0,
) -> BaseParameters:
    """Find the combinations by the rank of regressors of random states.

    Args:
        regressor: Of the arm.
        gravities: In the base, one per mounting, (3,) each; None as the arm stands.
        rotors: Whether the rotors' inertias are parameters too, behind those of links.
        seed: Of the states.
    """
    joint_names = [f"rotor of {joint.name}" for joint in regressor.arm.robot.joints]
    names = (*regressor.names, *(joint_names if rotors else ()))
    rows = _rows_of_any_motion(regressor, gravities, rotors, seed)
    return independent(rows.reshape(-1, len(names)), names)


def untold_offsets(
    regressor: ArmRegressor,
    base: BaseParameters,
    gravities: Sequence[Vector | None] = (None,),
    *,
    rotors: bool = False,
    seed: int = 1,
) -> list[int]:
    """Return joints whose constant torque no motion tells from what bodies take, from 0.

    As of a slide that stands upright: what it carries weighs the same everywhere, and its rotor
    takes what that mass does.

    Args:
        regressor: Of the arm.
        base: Its base parameters.
        gravities: As for :func:`base_parameters`.
        rotors: Likewise.
        seed: Of the states.
    """
    rows = _rows_of_any_motion(regressor, gravities, rotors, seed)[:, :, base.columns]
    columns, found = rows.reshape(-1, len(base)), []
    for joint in range(rows.shape[1]):
        constant = np.zeros(len(columns))
        constant[joint :: rows.shape[1]] = 1.0
        weights, *_ = np.linalg.lstsq(columns, constant, rcond=None)
        if np.linalg.norm(columns @ weights - constant) < UNTOLD * np.linalg.norm(constant):
            found.append(joint)
        else:
            columns = np.column_stack([columns, constant])
    return found


def _rows_of_any_motion(
    regressor: ArmRegressor, gravities: Sequence[Vector | None], rotors: bool, seed: int
) -> Matrix:
    """Return regressors of random states in every mounting, (N, n, p)."""
    rng = np.random.default_rng(seed)
    n = regressor.arm.n_joints
    stack = []
    for gravity in gravities:
        low, high = regressor.arm.limits.span
        q = rng.uniform(low, high, (SAMPLES, n))
        dq, ddq = (rng.normal(size=(SAMPLES, n)) for _ in range(2))
        rows = regressor.rows(q, dq, ddq, gravity)
        stack.append(with_rotors(rows, ddq) if rotors else rows)
    return np.concatenate(stack)


def with_rotors(rows: Matrix, ddq: Matrix) -> Matrix:
    """Return regressors with a column per rotor behind the others, (N, n, p + n)."""
    return np.concatenate([rows, np.eye(ddq.shape[1]) * ddq[:, :, None]], axis=2)


def independent(stack: Matrix, names: Sequence[str]) -> BaseParameters:
    """Return the independent columns of a stack of rows (m, p), and what the others add."""
    r, order = needed("scipy.linalg").qr(stack, mode="r", pivoting=True)
    size = np.abs(np.diagonal(r))
    rank = int((size > TOLERANCE * size[0]).sum())
    transform = np.zeros((rank, stack.shape[1]))
    transform[:, order[:rank]] = np.eye(rank)
    transform[:, order[rank:]] = np.linalg.solve(r[:rank, :rank], r[:rank, rank:])
    transform[np.abs(transform) < TOLERANCE] = 0.0
    ranked = np.argsort(order[:rank])
    columns = np.asarray(order[:rank])[ranked]
    return BaseParameters(columns, transform[ranked], tuple(names[int(i)] for i in columns))
