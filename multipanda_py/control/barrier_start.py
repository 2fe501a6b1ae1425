# SPDX-License-Identifier: Apache-2.0
"""Gentle start of barriers around joints that are already inside them."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Vector

_multiply, _subtract, _absolute = np.multiply, np.subtract, np.absolute
_minimum, _maximum = np.minimum, np.maximum


class BarrierStart:
    r"""Subtract a decaying offset from barrier torques, so that joints leave a barrier slowly.

    With the torque :math:`T(q)` of a joint's barrier, and the part :math:`\tau_0` of it that was
    commanded in the last cycle,

    .. math::
        \tau = T - \mathrm{sgn}(T) \max(0, o - k\, x), \qquad
        o = |T| - \mathrm{clip}(\mathrm{sgn}(T)\, \tau_0, 0, |T|) \text{ at the start}, \qquad
        \dot o = -c \sqrt{o}, \qquad 0 \le o \le |T|

    For :math:`T = \tau_{max} s^2` and :math:`c = 2 v \sqrt{\tau_{max}} / r` the depth at which
    the barrier begins, :math:`s r`, decreases at the speed v. A free joint moves out at this
    speed. If a joint moves out faster, the offset decreases with it. The distance x is measured
    from the smallest depth since the start towards the limit. The stiffness k resists a push in
    that direction.

    Args:
        joints: Number of joints, n.

    Attributes:
        holds: Whether there is an offset, or may be one in the next cycle.
        is_idle: Whether :meth:`end` has no effect.
        holding: Mask of the joints with an offset, (n,), 1 or 0.

    Thread: control.
    """

    def __init__(self, joints: int) -> None:
        self._offset, self._last, self._place = np.zeros((3, joints))
        self._rate, self.holding = np.zeros(joints), np.zeros(joints)
        self.holds = self._is_due = self._runs = self.is_idle = False

    def set_speed(self, rate: Vector) -> None:
        """Set c, (n,) [sqrt(Nm)/s]."""
        self._rate = rate

    def begin(self, torque: Vector) -> None:
        r"""Begin in this cycle, with :math:`\tau_0`, (n,) [Nm]."""
        self._last[:] = torque
        self.holds = self._is_due = True
        self.is_idle = False

    def resume(self) -> None:
        """Begin in the next cycle, with the torque of the last one, if there was any cycle."""
        self.holds = self._is_due = self._runs
        self.is_idle = False

    def end(self) -> None:
        """Reset, as no joint is inside a barrier."""
        self._is_due = self.holds = False
        self._runs = self.is_idle = True
        self._last[:] = 0.0

    def lead_out(self, torque: Vector, q: Vector, stiffness: Vector, period: float) -> None:
        """Subtract the remaining offsets from the barrier torques, in place.

        Args:
            torque: Barrier torques T, (n,) [Nm].
            q: Joint positions, (n,) [rad].
            stiffness: Stiffness k against motion towards the limits, (n,) [Nm/rad].
            period: Cycle time [s].
        """
        if self._is_due:
            self._is_due = False
            whole = np.absolute(torque)
            self._offset[:] = whole - np.clip(np.sign(torque) * self._last, 0.0, whole)
            self._place[:] = q
        offset, place, side = self._offset, self._place, np.sign(torque)
        offset -= period * self._rate * np.sqrt(offset)
        _minimum(_maximum(offset, 0.0, out=offset), _absolute(torque), out=offset)
        place[:] = np.where(side > 0.0, _maximum(place, q), _minimum(place, q))
        nearer = side * (place - q)
        torque -= side * _maximum(offset - stiffness * nearer, 0.0)
        np.sign(offset, self.holding)
        self.holds = bool(offset.any())

    def remember(self, torque: Vector) -> None:
        """Store the torques of this cycle, (n,) [Nm], for the next start."""
        self._last[:], self._runs, self.is_idle = torque, True, False
