# SPDX-License-Identifier: Apache-2.0
"""Differential inverse kinematics and pose governor of position-controlled arms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.control.reference.governor_base import FeasibleFractions
from multipanda_py.control.reference.pose_governor import PoseGovernor
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.state import Matrix, Vector

DAMPED_SINGULAR_VALUE = 0.1
"""Singular value of the Jacobian below which the inverse is damped."""
MAX_DAMPING = 0.1
"""Damping lambda_max at a singular value of zero."""
MAX_CORRECTED_ERROR = np.array((0.05, 0.05, 0.05, 0.25, 0.25, 0.25))
"""Maximum pose error that is corrected; a pose out of reach is approached no faster [m, rad]."""


class PositionIK:
    """Differential inverse kinematics of one arm: joint velocities that move the tool to a pose.

    Equations::

        dq = J# (dx_d + k e) + k_n (I - J# J) (q_n - q)
        J# = J^T (J J^T + lambda^2 I)^-1
        lambda^2 = lambda_max^2 max(0, 1 - (sigma / sigma_0)^2)

    - q, dq: Commanded positions [rad] and velocities [rad/s], (n,).
    - J: Jacobian at q, (6, n); sigma: its minimum singular value; J#: its damped inverse.
    - dx_d: Reference twist, (6,) [m/s, rad/s].
    - e: Pose error at q, (6,) [m, rad].
    - k, k_n: Rates of the pose error and of the nullspace motion [1/s].
    - q_n: Desired nullspace configuration, (n,) [rad].
    - lambda_max, sigma_0: ``MAX_DAMPING`` and ``DAMPED_SINGULAR_VALUE``.

    Sources: Nakamura and Hanafusa, J. Dyn. Sys. Meas. Control 1986; Chiaverini, 1997 (lambda).

    Args:
        arm: Description of the arm.

    Attributes:
        error: Pose error e of the last ``rate``, (6,) [m, rad].
        smallest: Minimum singular value of J of the last ``rate``.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._model = build_pinocchio(arm)
        self._data = self._model.createData()
        self._frame = self._model.getFrameId(arm.ee_frame)
        self._axes: Any = pin.LOCAL_WORLD_ALIGNED
        self._pose, self._eye = PoseError(), np.eye(6)
        self._pose.set_bounds(MAX_CORRECTED_ERROR)
        self.error, self.smallest = np.zeros(6), 0.0

    def rate(
        self,
        q: Vector,
        position: Vector,
        rotation: Matrix,
        twist: Vector,
        gain: float,
        configuration: Vector,
        nullspace_rate: float,
        bounds: tuple[Vector, Vector],
    ) -> Vector:
        """Return joint velocities dq within bounds, (n,) [rad/s].

        If joints reach their bound, the other joints take over the rest of the tool motion.

        Args:
            q: Commanded configuration, (n,) [rad].
            position: Reference position of the tool in the base, (3,) [m].
            rotation: Reference rotation of the tool in the base, (3, 3).
            twist: Reference twist, (6,) [m/s, rad/s].
            gain: Rate k of the pose error [1/s].
            configuration: Desired nullspace configuration q_n, (n,) [rad].
            nullspace_rate: Rate k_n of the nullspace motion [1/s].
            bounds: Minimum and maximum joint velocities, (n,) each [rad/s].
        """
        model, data = self._model, self._data
        pin.computeJointJacobians(model, data, q)
        here = pin.updateFramePlacement(model, data, self._frame)
        J = pin.getFrameJacobian(model, data, self._frame, self._axes).reshape(6, -1)
        self.error = self._pose.measure(here.translation, here.rotation, position, rotation)
        self._pose.clip()
        task = twist + gain * self.error
        rest = nullspace_rate * (configuration - q)
        rate, self.smallest = self._solve(J, task, rest)
        low, high = bounds
        bounded = np.minimum(np.maximum(rate, low), high)
        stuck = bounded != rate
        if stuck.any():
            rest = np.where(stuck, bounded, rest)
            rate, _ = self._solve(np.where(stuck, 0.0, J), task - J @ (bounded * stuck), rest)
            rate = np.minimum(np.maximum(rate, low), high)
        return rate

    def _solve(self, J: Matrix, task: Vector, rest: Vector) -> tuple[Vector, float]:
        gram = J @ J.T
        min_value = math.sqrt(max(0.0, float(np.linalg.eigvalsh(gram)[0])))
        if min_value < DAMPED_SINGULAR_VALUE:
            fraction = 1.0 - (min_value / DAMPED_SINGULAR_VALUE) ** 2
            gram += fraction * MAX_DAMPING**2 * self._eye
        return rest + J.T @ np.linalg.solve(gram, task - J @ rest), min_value


class CommandedPoseGovernor(PoseGovernor):
    """Pose governor of a position-controlled arm.

    Limits of joint acceleration and speed bound the reference, instead of torque limits::

        s_a |J# ddx|_i <= sigma ddq_max,i
        s_v |J# dx|_i  <= sigma dq_max,i

    - s_a, s_v: Fractions of the acceleration ddx and the twist dx of the reference.
    - J#: Damped inverse of the Jacobian, (n, 6).
    - ddq_max, dq_max: Joint limits of acceleration [rad/s^2] and speed [rad/s], (n,).
    - sigma: Usable fraction of the limits.
    """

    def _feasible_fractions(self, acceleration: Vector, twist: Vector) -> FeasibleFractions:
        limits, fraction = self._state.limits, self._params.limit_scale
        J, gram = self._state.jacobian, self._state.jacobian_gram
        inverse = J.T @ np.linalg.inv(gram + MAX_DAMPING**2 * np.eye(6))
        result = []
        for task, max_value in ((acceleration, limits.acceleration), (twist, limits.velocity)):
            largest = float((np.abs(inverse @ task) / max_value).max())
            result.append(fraction / max(largest, 1e-9))
        return FeasibleFractions(torque=result[0], speed=result[1])

    @property
    def _is_direct(self) -> bool:
        # The response ``direct`` is a feed-forward past the spring of an impedance controllet. A
        # position-controlled arm has no spring.
        return False
