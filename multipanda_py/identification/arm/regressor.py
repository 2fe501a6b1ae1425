# SPDX-License-Identifier: Apache-2.0
"""Which combinations of parameters torques depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from multipanda_py.registry import needed
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import LoadedFlange, heavy_model
from multipanda_py.robots.inertial import NO_LOAD, Inertial, Load, inertial_of
from multipanda_py.state import Matrix, Vector

PER_LINK = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
"""Parameters of a link: mass, first moments, second ones about its joint's frame."""

_regressor = pin.computeJointTorqueRegressor


def dynamic_parameters(body: Inertial | Load) -> Vector:
    """Return the parameters of a body in the frame that it is given in, (10,)."""
    inertial = inertial_of(body) if isinstance(body, Load) else body
    inertia = pin.Inertia(inertial.mass, np.array(inertial.com), inertial.inertia)
    found: Vector = inertia.toDynamicParameters()
    return found


def body_of(parameters: Vector) -> Load:
    r"""Return the body of ten parameters.

    .. math:: c = (m c) / m, \qquad I_c = I_o - m (c^T c E - c c^T)
    """
    mass, com = float(parameters[0]), parameters[1:4] / parameters[0]
    xx, xy, yy, xz, yz, zz = parameters[4:]
    about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Load(mass, com, about - mass * (com @ com * np.eye(3) - np.outer(com, com)))


class ArmRegressor:
    r"""Compute the regressor of an arm whose hand, tool and load are known.

    .. math:: M(q) \ddot q + c(q, \dot q) + g(q) = Y(q, \dot q, \ddot q) (\pi + \pi_{carried})

    with ten parameters :math:`\pi` per link that moves. Rotor inertia is not in it.

    Args:
        arm: With hand and tool as it had them; stands as its base does.
        load: What its flange carried beyond them, in the flange's frame.

    Attributes:
        arm: The arm.
        prior: What its model says of the links alone, (10 n,).
        carried: What the last link carries, (10,).
        names: Of the parameters, (10 n,).

    Source: regressor and its order of parameters: pinocchio.
    """

    def __init__(self, arm: ArmDescription, load: Load = NO_LOAD) -> None:
        self.arm = arm
        self._model = heavy_model(arm)
        LoadedFlange(self._model, arm.flange_frame).carry(load)
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
            q: (N, n).
            dq: (N, n).
            ddq: (N, n).
            gravity: In the base, (3,) [m/s^2]; by default as the arm stands.
        """
        self._model.gravity.linear = self._gravity if gravity is None else gravity
        n = self.arm.n_joints
        found = np.empty((len(q), n, 10 * n))
        for i in range(len(q)):
            found[i] = _regressor(self._model, self._data, q[i], dq[i], ddq[i])
        return found

    def flange_rows(self, rows: Matrix) -> Matrix:
        """Return the regressors of what the flange carries, (N, n, 10), in its frame."""
        last: Matrix = rows[..., -10:] @ congruence(self._flange)
        return last


def pseudo_inertia(parameters: Vector) -> Matrix:
    r"""Return the 4 x 4 matrix of second, first and zeroth moments of mass.

    .. math::
        P = \int \begin{bmatrix} r \\ 1 \end{bmatrix} \begin{bmatrix} r^T & 1 \end{bmatrix} dm
        = \begin{bmatrix} \tfrac12 \mathrm{tr}(I) E - I & m c \\ m c^T & m \end{bmatrix}

    It is positive definite for bodies, and for nothing else (Wensing, Kim and Slotine, 2018).
    """
    m, x, y, z, xx, xy, yy, xz, yz, zz = parameters
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    found = np.empty((4, 4))
    found[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    found[:3, 3] = found[3, :3] = x, y, z
    found[3, 3] = m
    return found


def parameters_of(pseudo: Matrix) -> Vector:
    """Return the ten parameters of a pseudo-inertia, (10,)."""
    second = pseudo[:3, :3]
    i = np.trace(second) * np.eye(3) - second
    six = (i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2])
    return np.array([pseudo[3, 3], *pseudo[:3, 3], *six])


def congruence(transform: Matrix) -> Matrix:
    r"""Return how parameters change with :math:`P \mapsto H P H^T`, (10, 10)."""
    unit = np.eye(10)
    return np.stack(
        [parameters_of(transform @ pseudo_inertia(e) @ transform.T) for e in unit], axis=1
    )


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
