# SPDX-License-Identifier: Apache-2.0
"""The servo of a simulated arm that takes joint positions or velocities instead of torques."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multipanda_py.state import ArmState, Vector


class JointServo:
    r"""Follow ``joint_command`` as a robot's own joint controller does.

    .. math:: \tau = K (q_c - q) + D (\dot q_c - \dot q), \qquad |\tau| \le \tau_{max}

    critically damped for the inertia that a joint moves when all others are free. A command of
    velocities comes with the positions that it has led to, as inside a robot.

    Args:
        state: Of the arm; its ``tau`` is what the servo does.
        motors: Returns positions [rad] and velocities [rad/s] of its motors, (n,) each.
        gains: Stiffness [Nm/rad] and damping [Nm s/rad], (n,) each.

    Thread: control.
    """

    def __init__(
        self,
        state: ArmState,
        motors: Callable[[], tuple[Vector, Vector]],
        gains: tuple[Vector, Vector],
    ) -> None:
        self._motors = motors
        self._state, self._limit = state, state.limits.torque
        self._stiffness, self._damping = gains

    def drive(self) -> None:
        """Write this cycle's torques to the state."""
        state = self._state
        q, dq = self._motors()
        q_c, dq_c, _ = state.joint_command
        tau = self._stiffness * (q_c - q) + self._damping * (dq_c - dq)
        np.clip(tau, -self._limit, self._limit, out=state.tau)

    def rest(self) -> None:
        """Command an arm that does not listen to be where it is."""
        self._state.tau[:] = 0.0
        self._state.joint_command[0] = self._state.q
        self._state.joint_command[1:] = 0.0
