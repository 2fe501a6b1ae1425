# SPDX-License-Identifier: Apache-2.0
"""Constrained identification of physically consistent inertial parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.arm.regressor import (
    body_of,
    congruence,
    dynamic_parameters,
    parameters_of,
    pseudo_inertia,
)
from multipanda_py.registry import needed
from multipanda_py.robots.inertial import Load
from multipanda_py.state import Matrix, Vector

PRIOR_DEVIATION = 0.3
"""Relative standard deviation of the true inertial parameters from their prior."""
MIN_EIGENVALUE_RATIO = 1e-3
"""Minimum eigenvalue of a pseudo-inertia relative to its prior."""
MIN_GYRATION_RADIUS = 0.01
"""Minimum radius of gyration of a prior [m], for links that the model describes as
rods or points."""


@dataclass(frozen=True, eq=False)
class ParameterPrior:
    """Prior of the linear parameters that are not inertial: rotor inertia and friction.

    Attributes:
        prior: Expected values, (k,).
        deviation: Standard deviations of the prior, inf if unknown, (k,).
        lower: Lower bounds, (k,).
    """

    prior: Vector
    deviation: Vector
    lower: Vector


@dataclass(frozen=True, eq=False)
class ConsistentParameters:
    """Physically consistent parameters.

    Attributes:
        loads: Inertia of each link.
        others: Rotor inertia and friction parameters, (k,).
        values: Inertial and other parameters in one vector, (10 links + k,).
        deviations: Posterior standard deviations of ``values``, (10 links + k,).
    """

    loads: tuple[Load, ...]
    others: Vector
    values: Vector
    deviations: Vector


def fit_consistent(
    rows: Matrix,
    tau: Vector,
    bodies: Sequence[Load],
    others: ParameterPrior,
    *,
    spread: float = PRIOR_DEVIATION,
    masses: tuple[float, float] | None = None,
) -> ConsistentParameters:
    r"""Return the physically consistent parameters that fit best.

    .. math::
        \min_{X, y} \| A z - \tau \|^2 + \epsilon^{-2} \sum_i \| X_i \|_F^2
        + \sum_k \left( \frac{y_k - y_{0k}}{s_k} \right)^2, \qquad
        P_i = L_i (E + X_i) L_i^T \succeq \lambda L_i L_i^T.

    Symbols: relative change :math:`X_i` of the pseudo-inertia :math:`P_i` of link i, other
    parameters y, and z as the vector of all parameters. The prior pseudo-inertia is
    :math:`L_i L_i^T`, and E is the identity. Prior and deviation of y are :math:`y_0` and s, and
    :math:`\lambda` is :data:`MIN_EIGENVALUE_RATIO`. The regularisation does not depend on the
    units and the frame of a link, and the semidefinite program is well scaled. The rows are
    compressed by QR first.

    Args:
        rows: Regressor A, scaled to unit standard deviation of the torques, (m, 10 links + k).
        tau: Torques :math:`\tau` with the same scaling, (m,).
        bodies: Prior inertia of each link.
        others: Prior of the other parameters.
        spread: Relative standard deviation :math:`\epsilon` of the inertial parameters.
        masses: Minimum and maximum total mass [kg], or None.

    Raises:
        IdentificationRefused: If the solver finds no solution, or ``cvxpy`` is missing.

    Source: constant pull-back of the affine-invariant metric: Lee, Wensing and Park, Geometric
    robot dynamic identification, IEEE T-RO 2020; LMI: Sousa and Cortesão, IJRR 2014.
    """
    cp = needed("cvxpy")
    n, k = len(bodies), len(others.prior)
    before = [dynamic_parameters(body) for body in bodies]
    to_own = np.zeros((10 * n + k, 10 * n + k))
    for i, prior in enumerate(before):
        root = np.asarray(np.linalg.cholesky(_thick(pseudo_inertia(prior))), np.float64)
        to_own[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = congruence(root) @ _BASIS
    scale = np.where(np.isfinite(others.deviation), others.deviation, 1.0)
    to_own[10 * n :, 10 * n :] = np.diag(scale)
    start = np.concatenate([_thick_parameters(prior) for prior in before] + [others.prior])
    prior_weights = np.concatenate(
        [np.full(10 * n, 1.0 / spread), np.isfinite(others.deviation).astype(float)]
    )
    stacked = np.vstack([rows @ to_own, np.diag(prior_weights)])
    right = np.concatenate([tau - rows @ start, np.zeros(len(prior_weights))])
    r = np.asarray(np.linalg.qr(np.column_stack([stacked, right]), mode="r"))
    compact, target = r[: len(prior_weights), : len(prior_weights)], r[: len(prior_weights), -1]
    x = cp.Variable(len(prior_weights))
    limits = [
        cp.reshape(_MATRICES @ x[10 * i : 10 * i + 10], (4, 4), order="F") + np.eye(4)
        >> MIN_EIGENVALUE_RATIO * np.eye(4)
        for i in range(n)
    ]
    if k:
        limits.append(cp.multiply(scale, x[10 * n :]) + others.prior >= others.lower)
    if masses is not None:
        total = sum(prior[0] for prior in start[: 10 * n].reshape(n, 10))
        total += sum(
            to_own[10 * i, 10 * i : 10 * i + 10] @ x[10 * i : 10 * i + 10] for i in range(n)
        )
        limits += [total >= masses[0], total <= masses[1]]
    size = max(1.0, float(np.linalg.norm(target)))
    problem = cp.Problem(cp.Minimize(cp.sum_squares((compact @ x - target) / size)), limits)
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.SolverError as error:
        raise IdentificationRefused(
            f"found no physically consistent parameters: {error}. Check masses and units of the "
            "robot model."
        ) from None
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise IdentificationRefused(
            f"found no physically consistent parameters (solver status: {problem.status}). Check "
            "the bounds of the total mass."
        )
    values = start + to_own @ x.value
    inverse = np.linalg.inv(compact) if np.linalg.cond(compact) < 1e13 else np.linalg.pinv(compact)
    result = [body_of(values[10 * i : 10 * i + 10]) for i in range(n)]
    spreads = np.linalg.norm(to_own @ inverse, axis=1)
    bounded = np.maximum(values[10 * n :], others.lower)
    return ConsistentParameters(
        tuple(result), bounded, np.concatenate([values[: 10 * n], bounded]), spreads
    )


def _thick(pseudo: Matrix) -> Matrix:
    """Return a pseudo-inertia whose radii of gyration are :data:`MIN_GYRATION_RADIUS` or more."""
    result = pseudo.copy()
    com = pseudo[:3, 3] / pseudo[3, 3]
    about = pseudo[:3, :3] - pseudo[3, 3] * np.outer(com, com)
    moments, axes = np.linalg.eigh((about + about.T) / 2.0)
    min_value = pseudo[3, 3] * MIN_GYRATION_RADIUS**2
    result[:3, :3] += axes @ np.diag(np.maximum(min_value - moments, 0.0)) @ axes.T
    return result


def _thick_parameters(parameters: Vector) -> Vector:
    return parameters_of(_thick(pseudo_inertia(parameters)))


def _symmetric_basis() -> tuple[Matrix, Matrix]:
    """Return an orthonormal basis of the symmetric 4 x 4 matrices.

    Returns:
        Basis matrices as flat columns, (16, 10), and their inertial parameters as columns,
        (10, 10).
    """
    matrices, parameters = [], []
    for i in range(4):
        for j in range(i, 4):
            e = np.zeros((4, 4))
            e[i, j] = e[j, i] = 1.0 if i == j else np.sqrt(0.5)
            matrices.append(e.ravel(order="F"))
            parameters.append(parameters_of(e))
    return np.stack(matrices, axis=1), np.stack(parameters, axis=1)


_MATRICES, _BASIS = _symmetric_basis()
