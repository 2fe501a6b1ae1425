# SPDX-License-Identifier: Apache-2.0
"""The torques of an arm as a linear function of what its links weigh."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.arm_model import LoadedFlange
from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import Inertial
from multipanda_py.robots.load import NO_LOAD, Load, inertial_of
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
