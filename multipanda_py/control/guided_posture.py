# SPDX-License-Identifier: Apache-2.0
"""Posture that moves along with a tool that is free to move."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import ArmState, Vector

_add, _dot, _multiply = np.add, np.dot, np.multiply

RETURN_SPEED = 0.2
"""Speed with which the posture returns while the tool rests [rad/s]."""
SLOW_RETURN_SPEED = 0.02
"""The same while the tool moves freely [rad/s]."""
RESTING_ENERGY = 2e-3
"""Kinetic energy of the free motion from which on the tool does not rest [J]."""


class GuidedPosture:
    r"""Shift a posture by the free motion of the tool, so that its spring stays passive.

    .. math::
        q_n' = q_n + r, \qquad \dot q_n' = \dot q_n + \dot q_f, \qquad
        \dot r = \dot q_f - v_r\, \frac{r}{\|r\|_\infty}

    A projected spring exerts nothing on the tool. When the tool moves freely, the deflection of
    the spring changes without work, and the nullspace motion then gains energy. The energy grows
    from lap to lap, as nothing brakes the tool. With
    :math:`\dot q_f` (:class:`.FreeMotion`) taken out of the deflection :math:`e`, the power of
    the projected spring is :math:`-\tfrac{d}{dt} \tfrac12 e^T K_n e` in the free directions.
    The shift returns to zero at :math:`v_r`, slow enough for the damper of the posture to take
    the energy of the return.

    Args:
        joints: Number of joints, n.
        period: Cycle time [s].

    Attributes:
        is_shifted: Whether :math:`r` is not zero.

    Thread: control.
    """

    def __init__(self, joints: int, period: float) -> None:
        self._period = period
        self._shift, self._posture, self._velocity = np.zeros((3, joints))
        self.is_shifted = False

    def reset(self) -> None:
        """Return to the posture itself."""
        self._shift[:], self.is_shifted = 0.0, False

    def step(
        self, state: ArmState, free: Vector | None, posture: Vector, velocity: Vector | None
    ) -> tuple[Vector, Vector | None]:
        """Return the shifted posture (n,) [rad] and its velocity (n,) [rad/s] of this cycle.

        Args:
            state: State of the arm.
            free: Joint velocity of the free motion, (n,) [rad/s]; None if nothing is free.
            posture: Requested posture, (n,) [rad].
            velocity: Its velocity, (n,) [rad/s]; None is rest.
        """
        shift, speed = self._shift, RETURN_SPEED
        if free is not None:
            energy = 0.5 * float(free.dot(state.mass).dot(state.dq))
            resting = max(0.0, 1.0 - energy / RESTING_ENERGY)
            speed = SLOW_RETURN_SPEED + (RETURN_SPEED - SLOW_RETURN_SPEED) * resting
            _add(shift, _multiply(free, self._period, self._velocity), shift)
            velocity = _add(free, 0.0 if velocity is None else velocity, self._velocity)
        farthest = max(map(abs, shift.tolist()))
        kept = 1.0 - speed * self._period / farthest if farthest > 0.0 else 0.0
        _multiply(shift, max(0.0, kept), shift)
        self.is_shifted = kept > 0.0
        return _add(posture, shift, self._posture), velocity
