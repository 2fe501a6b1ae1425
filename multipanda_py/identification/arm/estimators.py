# SPDX-License-Identifier: Apache-2.0
"""Estimators of base parameters, physically consistent parameters and joint friction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.regressor import (
    body_of,
    congruence,
    dynamic_parameters,
    parameters_of,
    pseudo_inertia,
)
from multipanda_py.registry import needed
from multipanda_py.robots.inertial import Load
from multipanda_py.robots.robot import FIGURES
from multipanda_py.state import Matrix, Vector

MAX_ITERATIONS = 3
"""Number of iterations of :func:`fit`. Each estimates the parameters, then the noise of each
joint, which gives the weights of the next one."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated parameters with their uncertainty.

    Attributes:
        values: Parameters, (p,).
        deviations: Standard deviations of the parameters, (p,).
        noise: Standard deviation of the torque residual of each joint, (n,) [Nm].
        condition: Condition number of the regressor with columns of unit length.
        worst: Parameter combination that the data determine worst: right singular vector for the
            smallest singular value of the regressor, (p,).
    """

    values: Vector
    deviations: Vector
    noise: Vector
    condition: float
    worst: Vector


def fit(
    rows: Matrix,
    tau: Matrix,
    independent: float = 1.0,
    *,
    used: NDArray[np.bool_] | None = None,
    weighted: bool = True,
) -> Estimate:
    r"""Estimate parameters by weighted linear least squares.

    .. math::
        \hat z = \arg\min \sum_j \sigma_j^{-2} \| A_j z - \tau_j \|^2, \qquad
        \mathrm{Cov}(\hat z) = \nu \left( \sum_j \sigma_j^{-2} A_j^T A_j \right)^{-1}.

    Symbols: parameters z and their estimate :math:`\hat z`. Joint j has the regressor :math:`A_j`,
    the torques :math:`\tau_j` and the residual noise :math:`\sigma_j`. Because of correlation,
    :math:`\nu` samples count as one independent sample.

    Args:
        rows: Regressor A, (N, n, p).
        tau: Joint torques, (N, n) [Nm].
        independent: Fraction of statistically independent samples, :math:`1 / \nu`.
        used: Mask, (N, n), True for the torques to fit. By default all torques are fitted.
        weighted: True to weight joints by :math:`\sigma_j^{-2}`, False to weight them equally.
    """
    _, n, p = rows.shape
    noise = np.ones(n)
    count = np.ones(tau.shape) if used is None else used.astype(float)
    for _ in range(MAX_ITERATIONS if weighted else 1):
        scaled = (rows * (count / noise)[:, :, None]).reshape(-1, p)
        length = np.linalg.norm(scaled, axis=0)
        length[length == 0.0] = 1.0
        u, s, vt = needed("scipy.linalg").svd(scaled / length, full_matrices=False)
        floor = np.maximum(s, 1e-12 * s[0])
        values = vt.T @ ((u.T @ (tau * count / noise).ravel()) / floor) / length
        left = (rows @ values - tau) * count
        per_joint = np.maximum(1.0, count.sum(axis=0) * independent - p / n)
        noise = np.sqrt((left**2).sum(axis=0) * independent / per_joint)
        noise = np.maximum(noise, 1e-9 * (1.0 + np.abs(tau).max(axis=0)))
    spread = np.sqrt(((vt / floor[:, None]) ** 2).sum(axis=0) / independent) / length
    if not weighted:
        spread = spread * float(np.sqrt((noise**2).mean()))
    return Estimate(values, spread, noise, float(s[0] / floor[-1]), vt[-1])


PRIOR_DEVIATION = 0.3
"""Relative standard deviation of the true inertial parameters from their prior."""
MIN_EIGENVALUE_RATIO = 1e-3
"""Minimum eigenvalue of an estimated pseudo-inertia relative to its prior."""
MIN_GYRATION_RADIUS = 0.01
"""Minimum radius of gyration of a prior [m], for links that the model describes as
rods or points."""


@dataclass(frozen=True, eq=False)
class ParameterPrior:
    """Prior of k rotor inertia and friction parameters.

    Attributes:
        prior: Expected values, (k,).
        deviation: Standard deviations of the expected values, inf if unknown, (k,).
        lower: Lower bounds, (k,).
    """

    prior: Vector
    deviation: Vector
    lower: Vector


@dataclass(frozen=True, eq=False)
class ConsistentParameters:
    """Physically consistent parameters of an arm, the result of :func:`fit_consistent`.

    Attributes:
        loads: Mass, centre of mass and inertia of each link.
        others: Rotor inertia and friction parameters, (k,).
        values: Inertial parameters of all links, then ``others``, (10 links + k,).
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
    r"""Fit physically consistent parameters of an arm to joint torques and a prior.

    .. math::
        \min_{X, y} \| A z - \tau \|^2 + \epsilon^{-2} \sum_i \| X_i \|_F^2
        + \sum_k \left( \frac{y_k - y_{0k}}{s_k} \right)^2, \qquad
        P_i = L_i (E + X_i) L_i^T \succeq \lambda L_i L_i^T.

    Symbols: pseudo-inertia :math:`P_i` of link i with the prior :math:`L_i L_i^T`, and its
    relative change :math:`X_i`. Rotor inertia and friction y have the prior :math:`y_0` and its
    deviation s. The vector z contains all parameters, E is the identity, and :math:`\lambda` is
    :data:`MIN_EIGENVALUE_RATIO`.

    Args:
        rows: Regressor A, each row divided by the noise of its torque, (m, 10 links + k).
        tau: Torques :math:`\tau`, each divided by its noise, (m,).
        bodies: Prior mass, centre of mass and inertia of each link.
        others: Prior of rotor inertia and friction.
        spread: Relative standard deviation :math:`\epsilon` of the inertial parameters.
        masses: Minimum and maximum total mass of the links [kg]. None: no limit.

    Raises:
        IdentificationRejected: If the solver finds no solution, or ``cvxpy`` is missing.

    Source: constant pull-back of the affine-invariant metric: Lee, Wensing and Park, Geometric
    robot dynamic identification, IEEE T-RO 2020; LMI: Sousa and Cortesão, IJRR 2014.
    """
    cp = needed("cvxpy")
    n, k = len(bodies), len(others.prior)
    before = [dynamic_parameters(body) for body in bodies]
    to_own = np.zeros((10 * n + k, 10 * n + k))
    for i, prior in enumerate(before):
        root = np.asarray(
            np.linalg.cholesky(_with_min_gyration_radius(pseudo_inertia(prior))), np.float64
        )
        to_own[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = congruence(root) @ _BASIS
    scale = np.where(np.isfinite(others.deviation), others.deviation, 1.0)
    to_own[10 * n :, 10 * n :] = np.diag(scale)
    start = np.concatenate(
        [_parameters_with_min_gyration_radius(prior) for prior in before] + [others.prior]
    )
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
        raise IdentificationRejected(
            f"found no physically consistent parameters: {error}. Check masses and units of the "
            "robot model."
        ) from None
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise IdentificationRejected(
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


def _with_min_gyration_radius(pseudo: Matrix) -> Matrix:
    result = pseudo.copy()
    com = pseudo[:3, 3] / pseudo[3, 3]
    about = pseudo[:3, :3] - pseudo[3, 3] * np.outer(com, com)
    moments, axes = np.linalg.eigh((about + about.T) / 2.0)
    min_moment = pseudo[3, 3] * MIN_GYRATION_RADIUS**2
    result[:3, :3] += axes @ np.diag(np.maximum(min_moment - moments, 0.0)) @ axes.T
    return result


def _parameters_with_min_gyration_radius(parameters: Vector) -> Vector:
    return parameters_of(_with_min_gyration_radius(pseudo_inertia(parameters)))


def _symmetric_basis() -> tuple[Matrix, Matrix]:
    """Return ten symmetric basis matrices, (16, 10), and their inertial parameters, (10, 10)."""
    matrices, parameters = [], []
    for i in range(4):
        for j in range(i, 4):
            e = np.zeros((4, 4))
            e[i, j] = e[j, i] = 1.0 if i == j else np.sqrt(0.5)
            matrices.append(e.ravel(order="F"))
            parameters.append(parameters_of(e))
    return np.stack(matrices, axis=1), np.stack(parameters, axis=1)


_MATRICES, _BASIS = _symmetric_basis()


DEFAULT_COULOMB_WIDTH = 0.01
"""Width w of the Coulomb friction step if it is not identified [rad/s, m/s]."""
MAX_STEEPNESS = 100.0
"""Maximum steepness of a friction sigmoid that the feature ``friction`` accepts [s/rad]."""


@dataclass(frozen=True, eq=False)
class FrictionShape:
    r"""Shape of the Coulomb friction of each joint near zero velocity.

    .. math:: \tau_f = f_v \dot q + f_c \tanh\!\left( \frac{\dot q + s}{w} \right) + f_o.

    Symbols: friction torque :math:`\tau_f`, viscous friction :math:`f_v`, Coulomb friction
    :math:`f_c`, offset :math:`f_o`, width w and shift s. The torque is linear in :math:`f_v, f_c,
    f_o`. For :math:`f_v = 0` it equals the sigmoid of Gaz et al. (RA-L 2019) with :math:`\varphi_1
    = 2 f_c`, :math:`\varphi_2 = 2 / w` and :math:`\varphi_3 = s`.

    Attributes:
        width: Velocity scale w of the tanh function, (n,) [rad/s, m/s].
        shift: Velocity offset s of the tanh function, (n,) [rad/s, m/s].
    """

    width: Vector
    shift: Vector

    @classmethod
    def sharp(cls, joints: int) -> FrictionShape:
        """Return the default shape: width :data:`DEFAULT_COULOMB_WIDTH` and shift zero."""
        return cls(np.full(joints, DEFAULT_COULOMB_WIDTH), np.zeros(joints))

    def columns(self, dq: Matrix) -> Matrix:
        """Return the regressor columns of :math:`f_v, f_c, f_o` of every joint, (N, n, 3).

        Args:
            dq: Joint velocities, (N, n) [rad/s, m/s].
        """
        step = np.tanh((dq + self.shift) / self.width)
        return np.stack([dq, step, np.ones_like(dq)], axis=2)

    def rows(self, dq: Matrix) -> Matrix:
        """Return the friction regressor of all joints, (N, n, 3 n).

        Its columns are :math:`f_v` of all joints, then :math:`f_c`, then :math:`f_o`.

        Args:
            dq: Joint velocities, (N, n) [rad/s, m/s].
        """
        n = dq.shape[1]
        rows = np.zeros((len(dq), n, 3 * n))
        terms = self.columns(dq)
        for joint in range(n):
            rows[:, joint, joint::n] = terms[:, joint]
        return rows


@dataclass(frozen=True, eq=False)
class FrictionEstimate:
    """Identified friction of n joints.

    Attributes:
        viscous: Viscous friction, (n,) [Nm s/rad].
        coulomb: Coulomb friction, (n,) [Nm].
        offset: Constant torque, (n,) [Nm].
        shape: Shape of the Coulomb friction near zero velocity.
    """

    viscous: Vector
    coulomb: Vector
    offset: Vector
    shape: FrictionShape

    @property
    def terms(self) -> tuple[Vector, Vector, Vector]:
        """Viscous friction, Coulomb friction and offset, (n,) each."""
        return self.viscous, self.coulomb, self.offset

    def torque(self, dq: Matrix) -> Matrix:
        """Return the friction torque at joint velocities ``dq``, (N, n) [Nm]."""
        terms = np.stack(self.terms, axis=1)
        torque: Matrix = (self.shape.columns(dq) * terms).sum(axis=2)
        return torque

    def sigmoid_parameters(self) -> dict[str, tuple[float, ...]]:
        r"""Return the friction as parameters of the feature ``friction``, which compensates it.

        The parameters are :math:`\varphi_1, \varphi_2, \varphi_3` of :class:`FrictionShape` for n
        joints, by name.
        """
        steepness = np.minimum(2.0 / self.shape.width, MAX_STEEPNESS)
        phi = (2.0 * self.coulomb, steepness, self.shape.shift)
        return {name: tuple(values.tolist()) for name, values in zip(FIGURES, phi)}


def fit_friction(rows: Matrix, tau: Matrix, shape: FrictionShape) -> FrictionEstimate:
    """Fit viscous friction, Coulomb friction and offset of every joint by linear least squares.

    Viscous and Coulomb friction are not negative.

    Args:
        rows: Regressor from :meth:`FrictionShape.rows`, (N, n, 3 n).
        tau: Joint torques minus those of inertia and gravity, (N, n) [Nm].
        shape: Shape of the Coulomb friction near zero velocity.
    """
    n = tau.shape[1]
    friction = np.empty((3, n))
    for joint in range(n):
        columns = rows[:, joint, joint::n]
        bounds = ([0.0, 0.0, -np.inf], np.inf)
        friction[:, joint] = needed("scipy.optimize").lsq_linear(columns, tau[:, joint], bounds).x
    return FrictionEstimate(friction[0], friction[1], friction[2], shape)
