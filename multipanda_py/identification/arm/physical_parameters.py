# SPDX-License-Identifier: Apache-2.0
"""Parameters that bodies can have, as near to what was measured as they come."""

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

SPREAD = 0.3
"""By how much bodies differ from what is said of them: standard deviation, relative."""
LEAST = 1e-3
"""Smallest eigenvalue of a pseudo-inertia, relative to the body that it was expected to be."""
GIRTH = 0.01
"""No link is thinner than this; for those that are said to be a rod or a point [m]."""


@dataclass(frozen=True, eq=False)
class ParameterPrior:
    """Linear parameters that are not of bodies.

    Attributes:
        prior: (k,).
        deviation: How far they may well be from that; inf where nothing is known, (k,).
        lower: (k,).
    """

    prior: Vector
    deviation: Vector
    lower: Vector


@dataclass(frozen=True, eq=False)
class Consistent:
    """What was found.

    Attributes:
        bodies: One per link.
        others: The other parameters, (k,).
        values: All of them as one, (10 links + k,).
        deviations: Their standard deviations, with what was known before, (10 links + k,).
    """

    bodies: tuple[Load, ...]
    others: Vector
    values: Vector
    deviations: Vector


def consistent(
    rows: Matrix,
    tau: Vector,
    bodies: Sequence[Load],
    others: ParameterPrior,
    *,
    spread: float = SPREAD,
    masses: tuple[float, float] | None = None,
) -> Consistent:
    r"""Return the physically consistent parameters that fit best.

    .. math::
        \min_{X, y} \| A z - \tau \|^2 + \epsilon^{-2} \sum_i \| X_i \|_F^2
        + \sum_k \left( \frac{y_k - y_{0k}}{s_k} \right)^2, \qquad
        P_i = L_i (E + X_i) L_i^T \succeq \lambda L_i L_i^T

    where :math:`P_{0i} = L_i L_i^T` is the pseudo-inertia that link i was said to have. So the
    pull to it is the same whatever the link's units and frame, and semidefinite programming sees
    numbers near one. The rows are compressed by QR first.

    Args:
        rows: A, weighted so that a unit is a standard deviation, (m, 10 links + k).
        tau: Weighted likewise, (m,).
        bodies: What links were said to be.
        others: Of the other parameters.
        spread: :math:`\epsilon`.
        masses: Least and most of the sum of masses [kg], or None.

    Raises:
        IdentificationRefused: If the solver finds nothing, or ``cvxpy`` is missing.

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
    pull = np.concatenate(
        [np.full(10 * n, 1.0 / spread), np.isfinite(others.deviation).astype(float)]
    )
    stacked = np.vstack([rows @ to_own, np.diag(pull)])
    right = np.concatenate([tau - rows @ start, np.zeros(len(pull))])
    r = np.asarray(np.linalg.qr(np.column_stack([stacked, right]), mode="r"))
    compact, target = r[: len(pull), : len(pull)], r[: len(pull), -1]
    x = cp.Variable(len(pull))
    limits = [
        cp.reshape(_MATRICES @ x[10 * i : 10 * i + 10], (4, 4), order="F") + np.eye(4)
        >> LEAST * np.eye(4)
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
        raise IdentificationRefused(f"no consistent parameters: {error}") from None
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise IdentificationRefused(
            f"no consistent parameters: the solver says {problem.status}; are the bounds of the "
            "total mass possible?"
        )
    values = start + to_own @ x.value
    inverse = np.linalg.inv(compact) if np.linalg.cond(compact) < 1e13 else np.linalg.pinv(compact)
    found = [body_of(values[10 * i : 10 * i + 10]) for i in range(n)]
    spreads = np.linalg.norm(to_own @ inverse, axis=1)
    kept = np.maximum(values[10 * n :], others.lower)
    return Consistent(tuple(found), kept, np.concatenate([values[: 10 * n], kept]), spreads)


def _thick(pseudo: Matrix) -> Matrix:
    """Return a pseudo-inertia of a body that is nowhere thinner than it can be."""
    found = pseudo.copy()
    com = pseudo[:3, 3] / pseudo[3, 3]
    about = pseudo[:3, :3] - pseudo[3, 3] * np.outer(com, com)
    moments, axes = np.linalg.eigh((about + about.T) / 2.0)
    least = pseudo[3, 3] * GIRTH**2
    found[:3, :3] += axes @ np.diag(np.maximum(least - moments, 0.0)) @ axes.T
    return found


def _thick_parameters(parameters: Vector) -> Vector:
    return parameters_of(_thick(pseudo_inertia(parameters)))


def _symmetric_basis() -> tuple[Matrix, Matrix]:
    """Return an orthonormal basis of symmetric 4 x 4 matrices: as columns, and as parameters."""
    matrices, parameters = [], []
    for i in range(4):
        for j in range(i, 4):
            e = np.zeros((4, 4))
            e[i, j] = e[j, i] = 1.0 if i == j else np.sqrt(0.5)
            matrices.append(e.ravel(order="F"))
            parameters.append(parameters_of(e))
    return np.stack(matrices, axis=1), np.stack(parameters, axis=1)


_MATRICES, _BASIS = _symmetric_basis()
