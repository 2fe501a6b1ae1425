# SPDX-License-Identifier: Apache-2.0
"""Tool motion along directions without stiffness, and a nullspace target that follows it."""

from __future__ import annotations

import eigenpy
import numpy as np
from numpy import add, dot, multiply, subtract

from multipanda_py.robots.dynamics.task_inertia import TaskInertia, fade
from multipanda_py.state import ArmState, Matrix, TaskSpaceDynamics, Vector

FREE_STIFFNESS = 5.0
"""Stiffness below which a direction may count as free [N/m]."""
AXIS_DISTANCE = 0.25
"""Lever d that converts a rotational stiffness k to a translational stiffness k / d^2 [m]."""
SLOW_MODE = 0.25
"""Squared frequency of a mode of the tool spring, below which it gradually becomes free
[1/s^2]."""
_SCALE = np.repeat((1.0, 1.0 / AXIS_DISTANCE), 3)


def is_soft(stiffness: Matrix) -> bool:
    """Return True if a stiffness (6, 6) is below ``FREE_STIFFNESS`` in any direction.

    Rotations are converted to translations with the lever ``AXIS_DISTANCE``.
    """
    scaled = _SCALE[:, None] * stiffness * _SCALE
    return bool(np.linalg.eigvalsh(scaled)[0] < FREE_STIFFNESS)


def projected_inertia(space: TaskSpaceDynamics) -> Matrix:
    """Return the task-space inertia for nullspace projectors, (6, 6) [kg, kg m^2].

    Near a singularity, it is bounded along the singular direction (``TaskInertia``).
    """
    return space.projection_inertia() if space.damping else space.inertia


class FreeMotion:
    """Joint velocity of the free motion: the tool motion along directions without stiffness.

    Equations::

        dq_f     = M^-1 J^T (Lambda - Lambda_h) J dq
        Lambda_h = K^1/2 U diag(phi(w_i / w_0) / w_i) U^T K^1/2
        K^1/2 Lambda^-1 K^1/2 = U diag(w) U^T

    - dq_f: Joint velocity of the free motion, (n,) [rad/s].
    - M: Inertia matrix, (n, n); J: Jacobian, (6, n); Lambda: task-space inertia, (6, 6).
    - K: Task-space stiffness, symmetric positive semidefinite, (6, 6).
    - Lambda_h: Part of Lambda that belongs to directions with a spring, (6, 6).
    - w, U: Squared mode frequencies [1/s^2] and modes; w_0: ``SLOW_MODE``.
    - phi: Smooth step from 0 to 1, as in ``TaskInertia``.

    If all directions have a spring, dq_f is zero. As the frequency of a mode approaches zero, the
    mode becomes free without a step.

    Thread: control.
    """

    def __init__(self) -> None:
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self._normal, self._half, self._free = np.zeros((3, 6, 6))
        self._momentum = np.zeros(6)

    def velocity(self, state: ArmState, root: Matrix) -> Vector:
        """Return the joint velocity dq_f of the free motion, (n,) [rad/s].

        Args:
            state: State of the arm.
            root: Square root K^1/2 of the stiffness along the base axes, (6, 6).
        """
        space = state.operational_space()
        normal = dot(dot(root, space.inertia_inv, self._half), root, self._normal)
        self._eigen.compute(normal)
        half = dot(root, self._eigen.eigenvectors(), self._half)
        weights = fade(self._eigen.eigenvalues(), SLOW_MODE)
        held = dot(half * weights, half.T, self._free)
        free = subtract(projected_inertia(space), held, self._free)
        momentum = free.dot(state.twist_ee_in_base, self._momentum)
        velocity: Vector = space.minv_jt.dot(momentum)
        return velocity


def regular_motion(state: ArmState, twist: Vector) -> Vector:
    """Return the joint velocity of a tool motion without its singular directions, (n,) [rad/s].

    Equations::

        dq = M^-1 J^T V diag(phi(w_i / w_0) / w_i) V^T dx
        J M^-1 J^T = V diag(w) V^T

    - dx: Twist of the tool motion, (6,) [m/s, rad/s].
    - J: Jacobian, (6, n); M: inertia matrix, (n, n).
    - w, V: Mobilities [1/kg] and directions of tool motion.
    - w_0: ``TaskInertia.MIN_MANIPULABILITY`` [1/kg].
    - phi: Smooth step from 0 to 1, as in ``TaskInertia``.

    Args:
        state: State of the arm.
        twist: Twist dx, (6,) [m/s, rad/s].
    """
    space = state.operational_space()
    mobilities, directions = space.eigen()
    weights = fade(mobilities, TaskInertia.MIN_MANIPULABILITY)
    velocity: Vector = space.minv_jt.dot(directions.dot(weights * twist.dot(directions)))
    return velocity


RETURN_SPEED = 0.2
"""Speed v_r at which a shift of the configuration returns to zero while the tool rests [rad/s]."""
SLOW_RETURN_SPEED = 0.02
"""Speed v_r at which a shift returns to zero while the tool moves freely [rad/s]."""
RESTING_ENERGY = 2e-3
"""Kinetic energy of the free motion above which the tool counts as moving [J]."""


class ShiftedConfiguration:
    """Nullspace configuration that follows tool motion, for example free motion (``FreeMotion``).

    Equations::

        q_n'  = q_n + r
        dq_n' = dq_n + dq_f
        dr/dt = dq_f - v_r r / max_i |r_i|

    - q_n, dq_n: Desired configuration [rad] and its velocity [rad/s], (n,).
    - r: Shift, (n,) [rad].
    - dq_f: Joint velocity of the tool motion that is followed, (n,) [rad/s].
    - v_r: Return speed [rad/s].

    This motion would change the deflection of the nullspace spring without work. The shifted
    configuration moves with the tool, so the spring is passive.

    Args:
        joints: Number of joints n.
        period: Cycle time [s].

    Attributes:
        is_shifted: True if r is not zero.
        step_taken: Change of r in the last cycle, (n,) [rad].

    Thread: control.
    """

    def __init__(self, joints: int, period: float) -> None:
        self._period = period
        self._shift, self._configuration, self._velocity, self.step_taken = np.zeros((4, joints))
        self.is_shifted = False

    def reset(self) -> None:
        self._shift[:] = self.step_taken[:] = 0.0
        self.is_shifted = False

    def step(
        self,
        state: ArmState,
        free: Vector | None,
        configuration: Vector,
        velocity: Vector | None,
        return_scale: float = 1.0,
    ) -> tuple[Vector, Vector | None]:
        """Return the shifted configuration (n,) [rad] and its velocity (n,) [rad/s] of this cycle.

        Args:
            state: State of the arm.
            free: Joint velocity dq_f, (n,) [rad/s]; None if no motion is followed.
            configuration: Desired configuration q_n, (n,) [rad].
            velocity: Velocity of the desired configuration, (n,) [rad/s]; None means rest.
            return_scale: Factor of the return speed v_r, 0 to 1.
        """
        shift, speed, step_taken = self._shift, RETURN_SPEED, self.step_taken
        step_taken[:] = shift
        if free is not None:
            energy = 0.5 * float(free.dot(state.mass_matrix).dot(state.dq))
            resting = max(0.0, 1.0 - energy / RESTING_ENERGY)
            speed = SLOW_RETURN_SPEED + (RETURN_SPEED - SLOW_RETURN_SPEED) * resting
            add(shift, multiply(free, self._period, self._velocity), shift)
            velocity = add(free, 0.0 if velocity is None else velocity, self._velocity)
        farthest = max(map(abs, shift.tolist()))
        scale = 1.0 - return_scale * speed * self._period / farthest if farthest > 0.0 else 0.0
        multiply(shift, max(0.0, scale), shift)
        subtract(shift, step_taken, step_taken)
        self.is_shifted = scale > 0.0
        return add(configuration, shift, self._configuration), velocity
