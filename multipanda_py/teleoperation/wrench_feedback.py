# SPDX-License-Identifier: Apache-2.0
"""What a follower feels, on its way back to the hand that leads."""

from __future__ import annotations

import numpy as np

from multipanda_py.control.force_reflection import ForceReflection
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Vector
from multipanda_py.teleoperation.source import Touch

DEADBAND = (2.0, 0.4)
"""Less than about this is an error of the estimate, and not felt [N, Nm]."""
MOST = (15.0, 2.0)
"""Sent at most, after the gain [N, Nm]."""
FILTER = 0.03
"""Time constant of the filter, beside samples that are 10 to 50 ms apart [s]."""
FADE_IN, FADE_OUT = 0.5, 0.2
"""From nothing to all after the clutch has closed, and back once it is open [s]."""
_AXES = np.eye(3)


class WrenchFeedback:
    r"""Filter, scale, bound and fade a wrench.

    .. math::
        F_{back} = \rho\, F_{fb}, \qquad \dot \rho = 1/t_{in}
        \text{ while the clutch is closed}, \quad -1/t_{out} \text{ else}

    with :math:`F_{fb}` of :class:`~multipanda_py.control.force_reflection.ForceReflection`:
    filtered, without a deadband, times a gain and bounded. The gain is
    :math:`g \min(1, \alpha)` for forces, with :math:`\alpha` the scale of motion, and g for
    torques. This alone is not passive: what keeps the energy that comes back in bounds is at the
    leader (:class:`~multipanda_py.features.felt_wrench.FeltWrench`), where delay cannot hide it.

    Args:
        feedback: g, 0 to 1.

    Attributes:
        share: :math:`\rho`.

    Raises:
        ConfigurationError: If g is not allowed.
    """

    def __init__(self, feedback: float) -> None:
        if not 0.0 <= feedback <= 1.0:
            raise ConfigurationError(f"feedback: got {feedback:g}, allowed [0, 1]")
        self._feedback, self.share = feedback, 0.0
        self._reflection = ForceReflection()

    def of(self, touch: Touch) -> Vector:
        """Return what is to be sent, (6,) [N, Nm]."""
        reflection = self._reflection
        if self.share == 0.0:
            reflection.reset()
        step = touch.seconds / (FADE_IN if touch.is_following else -FADE_OUT)
        self.share = min(1.0, max(0.0, self.share + step))
        if not np.isfinite(touch.wrench).all():
            self.share = 0.0
            return np.zeros(6)
        reflection.set_filter(FILTER, touch.seconds)
        force, torque = (
            (dead, most / gain if gain > 0.0 else 0.0, gain)
            for dead, most, gain in zip(
                DEADBAND, MOST, (self._feedback * min(1.0, touch.scale), self._feedback)
            )
        )
        reflection.set_shape(force, torque)
        found: Vector = self.share * reflection.feel(touch.wrench, _AXES)
        return found
