# SPDX-License-Identifier: Apache-2.0
"""What the joints of an identified robot take away from their torques."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.robot import Robot

Vector = NDArray[np.float64]

STEEPNESS = 100.0
"""Of Coulomb friction near rest, where no figure says it [s/rad]."""
FIGURES = ("friction_phi_1", "friction_phi_2", "friction_phi_3")
"""Figures of a robot: height [Nm], steepness [s/rad] and offset [rad/s] of the sigmoid."""


class JointLosses:
    r"""Friction and offset of joints.

    .. math::
        \tau_f = f_v \dot q + f_c \tanh\!\left( \tfrac12 \varphi_2 (\dot q + \varphi_3) \right)
        + f_o

    with damping, friction and torque offset of the robot, and the shape near rest that its figures
    of the sigmoid of Gaz et al. (RA-L 2019) have.

    Args:
        robot: Whose these are; zero unless it was identified.
    """

    def __init__(self, robot: Robot) -> None:
        n = robot.n_joints
        shape = FIGURES[1:]
        known = set(shape) <= set(robot.figures)
        steepness, shift = (
            (np.array(robot.figure(name)) for name in shape)
            if known
            else (np.full(n, STEEPNESS), np.zeros(n))
        )
        self._viscous, self._coulomb = robot.damping, robot.friction
        self._offset, self._half, self._shift = robot.torque_offset, 0.5 * steepness, shift

    def torque(self, dq: Vector) -> Vector:
        """Return what they take at joint velocities (n,) [rad/s], (n,) [Nm]."""
        step = np.tanh(self._half * (dq + self._shift))
        found: Vector = self._viscous * dq + self._coulomb * step + self._offset
        return found
