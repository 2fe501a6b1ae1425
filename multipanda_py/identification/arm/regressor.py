# SPDX-License-Identifier: Apache-2.0
"""Inertial regressor of an arm and its base parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from multipanda_py.registry import needed
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import LoadedFlange, model_with_gravity
from multipanda_py.robots.inertial import NO_LOAD, Inertial, Load, inertial_of
from multipanda_py.state import Matrix, Vector

PER_LINK = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
"""Parameters of a link: mass, first moments and inertia about the origin of its joint's frame."""

_regressor = pin.computeJointTorqueRegressor


def dynamic_parameters(body: Inertial | Load) -> Vector:
    """Return the inertial parameters of a body, (10,): mass, first moments and inertia.

    The inertia is about the origin of the body's frame, in the order xx, xy, yy, xz, yz, zz.
    """
    inertial = inertial_of(body) if isinstance(body, Load) else body
    inertia = pin.Inertia(inertial.mass, np.array(inertial.com), inertial.inertia)
    dynamic_parameters: Vector = inertia.toDynamicParameters()
    return dynamic_parameters


def body_of(parameters: Vector) -> Load:
    r"""Convert ten inertial parameters, in the order of :func:`dynamic_parameters`, to a body.

    .. math:: c = (m c) / m, \qquad I_c = I_o - m (c^T c E - c c^T).

    Symbols: mass m, centre of mass c and the inertias :math:`I_c`, :math:`I_o` about the centre of
    mass and the origin. E is the identity.
    """
    mass, com = float(parameters[0]), parameters[1:4] / parameters[0]
    xx, xy, yy, xz, yz, zz = parameters[4:]
    about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Load(mass, com, about - mass * (com @ com * np.eye(3) - np.outer(com, com)))


class ArmRegressor:
    r"""Inertial regressor of an arm with known gripper, tool and payload.

    .. math:: M(q) \ddot q + c(q, \dot q) + g(q) = Y(q, \dot q, \ddot q) (\pi + \pi_{carried}).

    Symbols: mass matrix M, Coriolis torques c, gravity torques g, ten parameters :math:`\pi` per
    moving link, and :math:`\pi_{carried}` of the bodies attached to the last link. Rotor inertia
    is not included.

    Args:
        arm: Arm with the gripper and tool used in the log. Its base orientation defines gravity.
        load: Payload at the flange in addition to gripper and tool, in the flange frame.

    Attributes:
        arm: Description of the arm.
        prior: Inertial parameters of the links from the model, without attached bodies, (10 n,).
        carried: Inertial parameters of the bodies attached to the last link, (10,).
        names: Names of the parameters, (10 n,).

    Source: regressor and order of its parameters: pinocchio.
    """

    def __init__(self, arm: ArmDescription, load: Load = NO_LOAD) -> None:
        self.arm = arm
        self._model = model_with_gravity(arm)
        LoadedFlange(self._model, arm.flange_frame).set_load(load)
        self._data = self._model.createData()
        self._gravity = np.array(self._model.gravity.linear)
        links = arm.robot.links[1:]
        self.prior: Vector = np.concatenate([dynamic_parameters(link.inertial) for link in links])
        last = self._model.inertias[arm.n_joints].toDynamicParameters()
        self.carried: Vector = last - self.prior[-10:]
        self.names = tuple(f"{name} of {link.name}" for link in links for name in PER_LINK)
        placement = self._model.frames[self._model.getFrameId(arm.flange_frame)].placement
        self._flange: Matrix = placement.homogeneous

    def rows(self, q: Matrix, dq: Matrix, ddq: Matrix, gravity: Vector | None = None) -> Matrix:
        """Return the regressors of N states, (N, n, 10 n).

        Args:
            q: Joint positions, (N, n).
            dq: Joint velocities, (N, n).
            ddq: Joint accelerations, (N, n).
            gravity: Gravity in the base frame, (3,) [m/s^2]. By default that of the arm's
                mounting.
        """
        self._model.gravity.linear = self._gravity if gravity is None else gravity
        n = self.arm.n_joints
        rows = np.empty((len(q), n, 10 * n))
        for i in range(len(q)):
            rows[i] = _regressor(self._model, self._data, q[i], dq[i], ddq[i])
        return rows

    def flange_rows(self, rows: Matrix) -> Matrix:
        """Return the regressors of a payload at the flange, in the flange frame, (N, n, 10).

        Args:
            rows: Regressors of the arm, (N, n, 10 n).
        """
        last: Matrix = rows[..., -10:] @ congruence(self._flange)
        return last


def pseudo_inertia(parameters: Vector) -> Matrix:
    r"""Return the 4 x 4 matrix of second, first and zeroth moments of mass.

    .. math::
        P = \int \begin{bmatrix} r \\ 1 \end{bmatrix} \begin{bmatrix} r^T & 1 \end{bmatrix} dm
        = \begin{bmatrix} \tfrac12 \mathrm{tr}(I) E - I & m c \\ m c^T & m \end{bmatrix}.

    Symbols: position r of a mass element, mass m, centre of mass c, inertia I about the origin and
    the identity E. P is positive definite if and only if the parameters are physically consistent
    (Wensing, Kim and Slotine, 2018).
    """
    m, x, y, z, xx, xy, yy, xz, yz, zz = parameters
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    pseudo_inertia = np.empty((4, 4))
    pseudo_inertia[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    pseudo_inertia[:3, 3] = pseudo_inertia[3, :3] = x, y, z
    pseudo_inertia[3, 3] = m
    return pseudo_inertia


def parameters_of(pseudo: Matrix) -> Vector:
    """Convert a pseudo-inertia to ten inertial parameters, (10,)."""
    second = pseudo[:3, :3]
    i = np.trace(second) * np.eye(3) - second
    six = (i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2])
    return np.array([pseudo[3, 3], *pseudo[:3, 3], *six])


def congruence(transform: Matrix) -> Matrix:
    r"""Return the matrix C that transforms inertial parameters, (10, 10).

    .. math:: C\,p(P) = p(H P H^T).

    Symbols: pseudo-inertia P (:func:`pseudo_inertia`) with the parameters p
    (:func:`parameters_of`).

    Args:
        transform: Matrix H, (4, 4).
    """
    unit = np.eye(10)
    return np.stack(
        [parameters_of(transform @ pseudo_inertia(e) @ transform.T) for e in unit], axis=1
    )


RANDOM_STATES = 60
"""Number of random states. Their regressors reach the full structural rank."""
RANK_TOLERANCE = 1e-9
"""Tolerance of the rank, relative to the largest singular value. Rounding errors
are near 1e-13."""
OFFSET_TOLERANCE = 1e-6
"""Relative residual below which a constant joint torque counts as an effect of inertial
parameters."""


@dataclass(frozen=True, eq=False)
class BaseParameters:
    r"""Minimal set of parameter combinations that determines the joint torques.

    .. math:: Y \pi = Y_b \beta, \qquad \beta = T \pi.

    Symbols: regressor Y, its independent columns :math:`Y_b`, all parameters :math:`\pi` and the
    base parameters :math:`\beta`.

    Attributes:
        columns: Indices of the columns of Y that form :math:`Y_b`, (b,).
        transform: Matrix T, (b, p). Its columns with the indices ``columns`` form the identity.
        names: Names of the base parameters, (b,): that of the first parameter in each combination.

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
    """Compute the base parameters from the rank of regressors at random states.

    Args:
        regressor: Regressor of the arm.
        gravities: Gravity in the base frame for each orientation in which the base is mounted,
            (3,) each [m/s^2]. None: gravity by the mounting in the description of the arm.
        rotors: True to append the rotor inertias to the parameters of the links.
        seed: Random seed of the states.
    """
    joint_names = [f"rotor of {joint.name}" for joint in regressor.arm.robot.joints]
    names = (*regressor.names, *(joint_names if rotors else ()))
    rows = _rows_of_random_states(regressor, gravities, rotors, seed)
    return independent(rows.reshape(-1, len(names)), names)


def unobservable_offsets(
    regressor: ArmRegressor,
    base: BaseParameters,
    gravities: Sequence[Vector | None] = (None,),
    *,
    rotors: bool = False,
    seed: int = 1,
) -> list[int]:
    """Return the joints whose torque offset cannot be separated from inertial parameters.

    Args:
        regressor: Regressor of the arm.
        base: Base parameters of the arm.
        gravities: Gravity in the base frame for each orientation in which the base is mounted,
            (3,) each [m/s^2]. None: gravity by the mounting in the description of the arm.
        rotors: True if ``base`` was computed with rotor inertias.
        seed: Random seed of the states.

    Returns:
        Joint indices, from 0.
    """
    rows = _rows_of_random_states(regressor, gravities, rotors, seed)[:, :, base.columns]
    columns, result = rows.reshape(-1, len(base)), []
    for joint in range(rows.shape[1]):
        constant = np.zeros(len(columns))
        constant[joint :: rows.shape[1]] = 1.0
        weights, *_ = np.linalg.lstsq(columns, constant, rcond=None)
        if np.linalg.norm(columns @ weights - constant) < OFFSET_TOLERANCE * np.linalg.norm(
            constant
        ):
            result.append(joint)
        else:
            columns = np.column_stack([columns, constant])
    return result


def _rows_of_random_states(
    regressor: ArmRegressor, gravities: Sequence[Vector | None], rotors: bool, seed: int
) -> Matrix:
    """Return regressors of random joint states for each gravity vector, (N, n, p)."""
    rng = np.random.default_rng(seed)
    n = regressor.arm.n_joints
    stack = []
    for gravity in gravities:
        low, high = regressor.arm.limits.span
        q = rng.uniform(low, high, (RANDOM_STATES, n))
        dq, ddq = (rng.normal(size=(RANDOM_STATES, n)) for _ in range(2))
        rows = regressor.rows(q, dq, ddq, gravity)
        stack.append(with_rotors(rows, ddq) if rotors else rows)
    return np.concatenate(stack)


def with_rotors(rows: Matrix, ddq: Matrix) -> Matrix:
    """Return regressors with appended columns of the rotor inertias, (N, n, p + n).

    Args:
        rows: Regressors of N samples, (N, n, p).
        ddq: Joint accelerations, (N, n) [rad/s^2].
    """
    return np.concatenate([rows, np.eye(ddq.shape[1]) * ddq[:, :, None]], axis=2)


def independent(stack: Matrix, names: Sequence[str]) -> BaseParameters:
    """Compute the base parameters of stacked regressor rows by pivoted QR decomposition.

    Args:
        stack: Regressor rows, (m, p).
        names: Names of the p parameters.
    """
    r, order = needed("scipy.linalg").qr(stack, mode="r", pivoting=True)
    size = np.abs(np.diagonal(r))
    rank = int((size > RANK_TOLERANCE * size[0]).sum())
    transform = np.zeros((rank, stack.shape[1]))
    transform[:, order[:rank]] = np.eye(rank)
    transform[:, order[rank:]] = np.linalg.solve(r[:rank, :rank], r[:rank, rank:])
    transform[np.abs(transform) < RANK_TOLERANCE] = 0.0
    ranked = np.argsort(order[:rank])
    columns = np.asarray(order[:rank])[ranked]
    return BaseParameters(columns, transform[ranked], tuple(names[int(i)] for i in columns))
