# SPDX-License-Identifier: Apache-2.0
"""A tool pose that follows a goal as fast as commanded joint positions may."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.control.reference.governor import Possible
from multipanda_py.control.reference.governor_pose import GovernedPose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import build_pinocchio
from multipanda_py.state import Matrix, Vector

SINGULAR = 0.1
"""Smallest singular value of the Jacobian below which the inverse is damped."""
MOST_DAMPING = 0.1
"""Damping at a singular value of zero."""
MOST_ERROR = np.array((0.05, 0.05, 0.05, 0.25, 0.25, 0.25))
"""Of a pose that counts: what lies out of reach is not to be hurried to [m, rad]."""


class PositionIK:
    r"""Differential inverse kinematics of one arm, closed over the command instead of the arm.

    .. math::
        \dot q = J^T (J J^T + \lambda^2 I)^{-1} (\dot x_d + k\, e) +
            k_n (I - J^T (J J^T + \lambda^2 I)^{-1} J)(q_n - q), \qquad
        \lambda^2 = \lambda_{max}^2 \left(1 - (\sigma / \sigma_0)^2\right)^+

    with the pose error e of the commanded posture q, and J at it. Source of the damping: Nakamura
    and Hanafusa, J. Dyn. Sys. Meas. Control 1986, with the law of Chiaverini, 1997.

    Args:
        arm: What it is.

    Attributes:
        error: Pose error of the last :meth:`rate`, (6,) [m, rad].
        smallest: Smallest singular value of J then.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._model = build_pinocchio(arm)
        self._data = self._model.createData()
        self._frame = self._model.getFrameId(arm.ee_frame)
        self._axes: Any = pin.LOCAL_WORLD_ALIGNED
        self._pose, self._eye = PoseError(), np.eye(6)
        self._pose.set_bounds(MOST_ERROR)
        self.error, self.smallest = np.zeros(6), 0.0

    def rate(
        self,
        q: Vector,
        position: Vector,
        rotation: Matrix,
        twist: Vector,
        gain: float,
        posture: Vector,
        pull: float,
        bounds: tuple[Vector, Vector],
    ) -> Vector:
        """Return joint velocities, (n,) [rad/s].

        Joints that would pass their bounds have those, and the others do what is left, once.

        Args:
            q: Commanded posture, (n,) [rad].
            position: Wanted of the tool in the base, (3,) [m].
            rotation: Wanted of the tool in the base, (3, 3).
            twist: With which these move, (6,) [m/s, rad/s].
            gain: Rate k at which the error goes [1/s].
            posture: Preferred by joints that are left over, (n,) [rad].
            pull: Rate at which they go there [1/s].
            bounds: Smallest and largest velocities of the joints, (n,) each [rad/s].
        """
        model, data = self._model, self._data
        pin.computeJointJacobians(model, data, q)
        here = pin.updateFramePlacement(model, data, self._frame)
        J = pin.getFrameJacobian(model, data, self._frame, self._axes).reshape(6, -1)
        self.error = self._pose.measure(here.translation, here.rotation, position, rotation)
        self._pose.clip()
        task = twist + gain * self.error
        rest = pull * (posture - q)
        found, self.smallest = self._solve(J, task, rest)
        low, high = bounds
        bounded = np.minimum(np.maximum(found, low), high)
        stuck = bounded != found
        if stuck.any():
            rest = np.where(stuck, bounded, rest)
            found, _ = self._solve(np.where(stuck, 0.0, J), task - J @ (bounded * stuck), rest)
            found = np.minimum(np.maximum(found, low), high)
        return found

    def _solve(self, J: Matrix, task: Vector, rest: Vector) -> tuple[Vector, float]:
        """Return velocities for a task, the rest in its nullspace, and the smallest value of J."""
        gram = J @ J.T
        least = math.sqrt(max(0.0, float(np.linalg.eigvalsh(gram)[0])))
        if least < SINGULAR:
            share = 1.0 - (least / SINGULAR) ** 2
            gram += share * MOST_DAMPING**2 * self._eye
        return rest + J.T @ np.linalg.solve(gram, task - J @ rest), least


class GovernedCommandedPose(GovernedPose):
    r"""Shape the pose target of an arm that is commanded positions instead of torques.

    What bounds it is not torque but the joints' limits of acceleration and speed,

    .. math:: s_a |J^+ \ddot x|_i \le \sigma\, \ddot q_{max,i}, \qquad
        s_v |J^+ \dot x|_i \le \sigma\, \dot q_{max,i}

    with a damped inverse, as the joints do not follow what is being lost either.
    """

    def _possible_of(self, acceleration: Vector, twist: Vector) -> Possible:
        limits, share = self._state.limits, self._params.share
        J, gram = self._state.jacobian, self._state.jacobian_gram
        inverse = J.T @ np.linalg.inv(gram + MOST_DAMPING**2 * np.eye(6))
        found = []
        for task, most in ((acceleration, limits.acceleration), (twist, limits.velocity)):
            largest = float((np.abs(inverse @ task) / most).max())
            found.append(share / max(largest, 1e-9))
        return Possible(torque=found[0], speed=found[1])

    @property
    def _is_direct(self) -> bool:
        """False, as a position-controlled robot has no spring between reference and tool."""
        return False
