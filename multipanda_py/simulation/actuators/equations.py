# SPDX-License-Identifier: Apache-2.0
"""Equations of motion of motors, friction, controllers and links, as two matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.motors import LinkPid, Motors
from multipanda_py.state import Matrix, Vector

LINK, FIRST, SECOND = range(3)
"""Row indices of arrays with one row for the link and one for each motor."""


class Equations:
    r"""Rates of links and motors, computed by two matrix products and one saturation.

    With positions :math:`x = (q, \theta_1, \theta_2)` of link and motors, each for n joints, and
    velocities :math:`v = \dot x`,

    .. math::
        s = \mathrm{clip}(L\, (1, x, v)), \qquad
        (v, \dot v, \tau) = A\, (v, \tau_{spring}(x), s, 1) .

    Here s contains the torques of the PID controllers of links and motors, then the friction of
    motors. :math:`\tau` are the torques on links.

    The friction of a motor is the torque :math:`K (\theta - w)` of a spring to an anchor w. At the
    Coulomb friction the anchor slips. K is the ``friction_stiffness`` of :class:`.Motors`. Source:
    Hayward and Armstrong, A new computational model of friction applied to haptic rendering, 2000.

    Args:
        n_joints: Number of joints, n.

    Attributes:
        input_matrix: Matrix L, (5n, 6n + 1).
        low: Lower limits of s, (5n,) [Nm].
        high: Upper limits of s, (5n,) [Nm].
        output_matrix: Matrix A, (7n, 11n + 1).
        lower: Lower limits of x and v, (6n,): motor stops and maximum motor speeds.
        upper: Upper limits of x and v, (6n,).
        fastest: Maximum natural frequency or decay rate of motors with their friction, dampers and
            controllers [1/s].
        nominal_rate: Value of ``fastest`` before :meth:`slow_down` increases inertias [1/s].
        integrates: True if a controller has integral action.
        aim: References of the PID controllers of links and motors, (3, n) [rad].
        gains: Proportional, integral and velocity gains, (3, 3, n). The second index is 0 for the
            controller of the link, 1 and 2 for those of the motors.
        elastic: 1 for joints with springs, 0 for rigid ones, (n,).

    Thread: control.
    """

    def __init__(self, n_joints: int) -> None:
        n = self.n_joints = n_joints
        self.input_matrix = np.zeros((5 * n, 6 * n + 1))
        self.low, self.high = np.zeros(5 * n), np.zeros(5 * n)
        self.output_matrix = np.zeros((7 * n, 11 * n + 1))
        self.lower, self.upper = np.full(6 * n, -np.inf), np.full(6 * n, np.inf)
        self.fastest, self.nominal_rate, self.integrates = 0.0, 0.0, False
        self._squared_rates, self._damping_rates = np.zeros((2, n)), np.zeros((2, n))
        self._each = np.arange(n)
        self._constant = self.input_matrix[:, 0].reshape(5, n)
        # Rows of the output matrix A that compute the accelerations of the links.
        self._accelerations = self.output_matrix[3 * n : 4 * n]
        self._torques = self.output_matrix[6 * n :, :-1]
        self._links = np.zeros((n, 11 * n))  # Rows of A that compute torques on links, a copy.
        self._drag: Vector = np.einsum("ii->i", self._links[:, :n])  # View of the link damping.
        self.aim, self._torque = np.zeros((3, n)), np.zeros((3, n))
        self._integral, self.gains = np.zeros((3, n)), np.zeros((3, 3, n))
        self._max_controller_torque: Vector = np.zeros((3, n))
        self._inverse_inertia = np.zeros((2, n))
        self._motor_damping, self._coefficients = np.zeros((2, n)), np.zeros((2, n))
        self.elastic: Vector = np.ones(n)
        self._has_pid = np.zeros(n, dtype=bool)
        self._spring_scale = 1.0

    @property
    def memory(self) -> Matrix:
        """Friction states :math:`-K w` of motors [Nm], then controller integrals [rad s], (5, n).

        The controllers are those of link, first and second motor.
        """
        return np.concatenate((self._constant[3:], self._integral))

    @memory.setter
    def memory(self, value: Matrix) -> None:
        self._constant[3:], self._integral[:] = value[:2], value[2:]
        self._put_controller_constants()

    @property
    def inverse_inertia(self) -> Matrix:
        """Inverse inertias of motors, (2, n) [1/(kg m^2)]; 0 for motors without dynamics."""
        return self._inverse_inertia

    def set_modes(
        self,
        modes: Sequence[OperationMode],
        motors: Motors | None,
        link_pid: LinkPid,
        has_second: NDArray[np.bool_],
        is_antagonistic: NDArray[np.bool_],
    ) -> None:
        """Set the operation modes of all joints, with their inertias, gains and limits.

        Args:
            modes: Operation modes of all joints.
            motors: Motors of the joints; None if no mode has motor dynamics.
            link_pid: PID controllers of links, for joints in mode ``link_pid``.
            has_second: True for joints with a second motor, (n,).
            is_antagonistic: True for joints with two antagonistic motors, (n,).
        """
        n, each = self.n_joints, self._each
        rigid = np.array([mode.is_rigid for mode in modes])
        linked = np.array([mode is OperationMode.LINK_PID for mode in modes])
        moving = np.array([mode.has_motors for mode in modes])
        pid = np.array([mode.has_motor_pid for mode in modes])
        exists = np.array([np.ones(n), has_second])
        self.elastic = np.where(rigid, 0.0, 1.0)
        self.gains[:] = 0.0
        self._max_controller_torque, self._has_pid = np.full((3, n), np.inf), linked
        self.gains[:, LINK] = linked * np.array([link_pid.p, link_pid.i, link_pid.d])
        self._max_controller_torque[LINK, linked] = link_pid.max_torque[linked]
        friction, stick = np.zeros((2, n)), np.zeros((2, n))
        self._inverse_inertia[:] = self._motor_damping[:] = 0.0
        lower, upper = np.full((6, n), -np.inf), np.full((6, n), np.inf)
        if motors is not None:
            self._inverse_inertia[:] = exists * moving / motors.inertia
            self._motor_damping[:] = motors.damping
            self.gains[:, FIRST:] = exists * pid * np.array([motors.p, motors.i, motors.d])
            self._max_controller_torque[FIRST:] = motors.max_torque
            friction, stick = motors.friction, motors.friction_stiffness * (motors.friction > 0.0)
            has_limits = moving & (exists > 0.0)
            lower[1:3], upper[1:3] = np.where(
                has_limits, [motors.min_position, motors.max_position], [[[-np.inf]], [[np.inf]]]
            )
            upper[4:] = np.where(has_limits, motors.max_velocity, np.inf)
            lower[4:] = -upper[4:]
        self._coefficients[:] = np.where(is_antagonistic, 0.5, np.array([[1.0], [0.0]]))
        self.lower[:], self.upper[:] = lower.ravel(), upper.ravel()
        self.integrates = bool(self.gains[1].any())
        rows = self.input_matrix[:, 1:].reshape(5, n, 6, n)
        rows[:] = 0.0
        for row in range(3):
            rows[row, each, row, each] = -self.gains[0, row]
            rows[row, each, row + 3, each] = -self.gains[2, row]
        for motor in range(2):
            rows[3 + motor, each, 1 + motor, each] = stick[motor]
        self.high[:] = np.concatenate((self._max_controller_torque, friction)).ravel()
        self.low[:] = -self.high
        rate = (self.gains[0, FIRST:] + stick) * self._inverse_inertia
        drag = (self.gains[2, FIRST:] + self._motor_damping) * self._inverse_inertia
        self._squared_rates, self._damping_rates = rate, drag
        self.fastest = self.nominal_rate = max(math.sqrt(rate.max()), float(drag.max()))
        self._rebuild_output_matrix()
        self.set_damping(np.zeros(n))
        self._put_controller_constants()

    def slow_down(self, fastest: float) -> None:
        """Increase the inertia of each motor whose natural frequency or decay rate is too high.

        The inertias stay increased until the next :meth:`set_modes`.

        Args:
            fastest: Maximum rate for which the integrator is stable [1/s].
        """
        scale = np.minimum(
            fastest**2 / np.maximum(self._squared_rates, fastest**2),
            fastest / np.maximum(self._damping_rates, fastest),
        )
        for rates in (self._inverse_inertia, self._squared_rates, self._damping_rates):
            rates *= scale
        self.fastest = max(math.sqrt(self._squared_rates.max()), float(self._damping_rates.max()))
        self._rebuild_output_matrix()
        self.set_damping(np.zeros(self.n_joints))

    def _rebuild_output_matrix(self) -> None:
        n, each = self.n_joints, self._each
        self.output_matrix[:] = self._links[:] = 0.0
        rows = self.output_matrix[:, :-1].reshape(7, n, 11, n)
        for row in (LINK, FIRST, SECOND):
            rows[row, each, row, each] = 1.0
        for motor in range(2):
            inverse_inertia = self._inverse_inertia[motor]
            rows[4 + motor, each, 7 + motor, each] = inverse_inertia  # Torques of the motors.
            rows[4 + motor, each, 9 + motor, each] = -inverse_inertia  # Friction of the motors.
        # Index 6 is the torque of the link controller plus the commanded torque.
        self._links.reshape(n, 11, n)[each, 6, each] = 1.0
        self._put_spring_columns()

    def set_damping(self, damping: Vector) -> None:
        """Set the damping between the motors and the link of each joint, (n,) [Nm s/rad]."""
        n, each, damping = self.n_joints, self._each, damping * self.elastic
        links, rows = (
            self._links.reshape(n, 11, n),
            self.output_matrix[:, :-1].reshape(7, n, 11, n),
        )
        links[each, LINK, each] = -damping
        for motor in range(2):
            fraction = self._coefficients[motor] * (self._inverse_inertia[motor] > 0.0)
            links[each, 1 + motor, each] = fraction * damping
            rows[4 + motor, each, LINK, each] = self._inverse_inertia[motor] * fraction * damping
            for other in range(2):
                both = (
                    fraction
                    * self._coefficients[other]
                    * (self._inverse_inertia[other] > 0.0)
                    * damping
                )
                own = self._motor_damping[motor] * (motor == other)
                rows[4 + motor, each, 1 + other, each] = -self._inverse_inertia[motor] * (
                    both + own
                )

    def set_links(
        self,
        compliance: Matrix,
        damping: Vector,
        free_acceleration: Vector,
        spring_scale: float = 1.0,
        damper_scale: float = 1.0,
    ) -> None:
        """Set inertia, damping and accelerations of the links for a simulation step.

        Args:
            compliance: Block of the inverse mass matrix for these joints, (n, n) [1/(kg m^2)].
            damping: Damping of the joints in the MuJoCo model, (n,) [Nm s/rad].
            free_acceleration: Accelerations of the links without springs and link controllers,
                (n,) [rad/s^2].
            spring_scale: Factor on spring torques; below 1 to keep stiff springs stable.
            damper_scale: Factor on torques of link controllers; below 1 to keep them stable.
        """
        n, each = self.n_joints, self._each
        if spring_scale != self._spring_scale:
            self._spring_scale = spring_scale
            self._put_spring_columns()
        self._links.reshape(n, 11, n)[each, 6, each] = np.where(self._has_pid, damper_scale, 1.0)
        self.put_torques()
        self._drag -= damping
        self._accelerations[:, :-1] = compliance.dot(self._links)
        self._accelerations[:, -1] = free_acceleration
        self._drag += damping

    def put_torques(self) -> None:
        """Update the rows of A that compute torques on links, after :meth:`set_damping`."""
        self._torques[:] = self._links

    def command(self, aim: Matrix, torque: Matrix) -> None:
        """Set the references of PID controllers, and feed-forward torques.

        Args:
            aim: References of link and motors, (3, n) [rad].
            torque: Torques added to those of the controllers, (3, n) [Nm].
        """
        self.aim[:], self._torque[:] = aim, torque
        self._put_controller_constants()

    def reset_memory(
        self, theta: Matrix, friction_joints: Sequence[int], integral_joints: Sequence[int]
    ) -> None:
        """Set friction torques of motors and integrals of controllers to zero.

        Args:
            theta: Current motor positions, (2, n) [rad].
            friction_joints: Indices of joints whose friction torques become zero.
            integral_joints: Indices of joints whose controller integrals become zero.
        """
        stick = self.input_matrix[3 * self.n_joints :, 1:].sum(axis=1).reshape(2, -1)
        self._constant[3:, friction_joints] = -(stick * theta)[:, friction_joints]
        self._integral[:, integral_joints] = 0.0
        self._put_controller_constants()

    def integrate(self, duration: float, x: Matrix) -> None:
        """Advance the integrals of controllers, limited by their maximum torques.

        Args:
            duration: Length of the step [s].
            x: Positions of links and motors in the middle of the step, (3, n) [rad].
        """
        gain = self.gains[1]
        has = gain > 0.0
        limit = np.divide(self._max_controller_torque, gain, out=np.zeros_like(gain), where=has)
        result = self._integral + duration * (self.aim - x)
        self._integral[:] = np.where(has, np.clip(result, -limit, limit), 0.0)
        self._put_controller_constants()

    def _put_controller_constants(self) -> None:
        gains = self.gains
        self._constant[:3] = gains[0] * self.aim + gains[1] * self._integral + self._torque

    def _put_spring_columns(self) -> None:
        each, n = self._each, self.n_joints
        self._links.reshape(n, 11, n)[each, 3, each] = self._spring_scale * self.elastic
        rows = self.output_matrix[:, :-1].reshape(7, n, 11, n)
        for motor in range(2):
            rows[4 + motor, each, 4 + motor, each] = (
                -self._spring_scale * self._inverse_inertia[motor]
            )
