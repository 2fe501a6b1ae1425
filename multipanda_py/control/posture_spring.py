# SPDX-License-Identifier: Apache-2.0
"""Spring and damper of a posture, kept from the task."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.control.nullspace_projector import NullspaceProjector
from multipanda_py.control.rate_bound import damping_share
from multipanda_py.robots import Robot
from multipanda_py.state import ArmState, Vector

_subtract = np.subtract
_minimum, _maximum = np.minimum, np.maximum
_norm = math.hypot

MAX_DAMPING, LIGHT_DAMPING, BARE_DAMPING = 12.0, 7.0, 3.4
"""Damping with which a posture moves no faster than laws may brake (see modal_damping), with a
projector, with one and light rotors, and without one: the lightest motions weigh 0.1 and 0.06
kg m^2, and less with lighter rotors (:func:`.damping_share`). Without one it acts beside a law's
own damper of up to 120 1/s, and both are to stay within 180 1/s together [Nm s/rad]."""
SLIDING_RATE = 120.0
"""The same of a joint that slides, over its rotor's inertia [1/s]."""


class PostureSpring:
    r"""Pull the joints of an arm towards a posture without moving the tool.

    .. math::
        \tau = N\, \mathrm{clamp}\left( \begin{bmatrix} K_n & D_n \end{bmatrix}
        \begin{bmatrix} q_n - q \\ \dot q_n - \dot q \end{bmatrix}, \pm\tau_{max} \right), \qquad
        D_n = \min(2 Z_n (K_n m)^{1/2}, d_{max})

    with :math:`N` one of :class:`.NullspaceProjector`, or none, and m what a joint that slides
    carries; 1 kg m^2 for one that turns. The clamp comes first: clamped
    after the projection, the torques would not be in the nullspace any more.

    Args:
        robot: What the arm is, with n joints.

    Attributes:
        project: Keeps torques from the task, in place; None leaves them as they are.

    Thread: control.
    """

    def __init__(self, robot: Robot) -> None:
        joints, self._light = robot.n_joints, damping_share(robot)
        self._slides, self._weight = robot.limits.slides, robot.sliding_mass
        self._most_sliding = SLIDING_RATE * robot.armature
        self._tau, self._gains = np.zeros(joints), np.zeros((joints, 2 * joints))
        self._goal, self._way = np.zeros((2, joints)), np.zeros((2, joints))
        self._posture, self._ways, self._moves = self._goal[0].data, self._way.reshape(-1), False
        projector = NullspaceProjector(joints)
        self._projectors = {"kinematic": projector.kinematic, "dynamic": projector.dynamic}

    def set_gains(
        self, stiffness: Vector, damping_ratio: Vector, max_torque: Vector, projector: str
    ) -> None:
        """Set what pulls.

        Args:
            stiffness: (n,) [Nm/rad].
            damping_ratio: (n,).
            max_torque: Clamp before the projection, (n,) [Nm].
            projector: One of :data:`.PROJECTORS`.
        """
        # A motion in the nullspace may be of light wrist joints alone, as of aligned ones.
        most = BARE_DAMPING * self._light
        if projector != "none":
            most = np.where(self._light < 1.0, LIGHT_DAMPING * self._light, MAX_DAMPING)
        most = np.where(self._slides, self._most_sliding, most)
        damping = np.minimum(2.0 * damping_ratio * np.sqrt(stiffness * self._weight), most)
        self._gains[:] = np.hstack([np.diag(stiffness), np.diag(damping)])
        self._high, self._low = max_torque, -max_torque
        self._least = float(max_torque.min())
        self.project = self._projectors.get(projector)

    def matched(self, state: ArmState, free: Vector) -> Vector:
        """Return the joint motion of a free tool to which the projector is orthogonal, (n,).

        Args:
            state: State of the arm.
            free: Motion of least kinetic energy with the same velocity of the tool, (n,) [rad/s].
        """
        if self.project == self._projectors["kinematic"]:
            free = free - self._projectors["kinematic"](state, free.copy())
        return free

    def torque(self, state: ArmState, posture: Vector, velocity: Vector | None = None) -> Vector:
        """Return the torques, (n,) [Nm]; the array is used again in the next call.

        Args:
            state: The arm.
            posture: (n,) [rad].
            velocity: Of the posture, (n,) [rad/s]; None is rest.
        """
        tau = self.pull(state, posture, velocity)
        if self.project is not None:
            self.project(state, tau)
        return tau

    def pull(self, state: ArmState, posture: Vector, velocity: Vector | None = None) -> Vector:
        """Return the torques before they are projected; else as :meth:`torque`."""
        self._posture[:] = posture
        if velocity is not None or self._moves:
            self._moves = velocity is not None
            self._goal[1] = 0.0 if velocity is None else velocity
        _subtract(self._goal, state.joint_state, self._way)
        tau = self._gains.dot(self._ways, self._tau)
        if _norm(*tau.tolist()) > self._least:
            _minimum(tau, self._high, out=tau)
            _maximum(tau, self._low, out=tau)
        return tau
