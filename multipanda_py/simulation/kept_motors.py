# SPDX-License-Identifier: Apache-2.0
"""How far motors with inertia may wind springs up while these are commanded, not by a law."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.compliance.joints import CompliantJoints
from multipanda_py.compliance.mode import OperationMode
from multipanda_py.compliance.motors import Motors
from multipanda_py.state import Matrix, Vector

PATIENCE = 0.1
"""Motors are kept back for so long before that is said [s]."""
FORGETS = 1.0
"""So long not kept back, and it is said again [s]."""
_SHARE = 0.9
"""Of what links bear: motors overshoot where links turn round."""
_ALIKE = 1e-9
"""What presets may be out of their range by, for rounding [rad or m]."""
_SLOWED = 0.1, 0.8
"""Shares of the largest velocity, from which on springs push less, and where no more."""
_WALL = 200.0, 0.3
"""How fast motors are kept back, critically damped: at most [rad/s], and per cycle."""


class KeptMotors:
    r"""Keep motors from winding springs up beyond what links bear.

    .. math::
        \tau^\pm = \hat g \pm 0.9\, \tau_{max}\,
        \mathrm{clip}\!\left(\frac{0.8\, \dot q_{max} \mp \dot q}{0.7\, \dot q_{max}}, -1, 1\right)

    is what springs may exert on a link: less the nearer it comes to 0.8 of its largest velocity,
    beyond which they brake. With :math:`\theta^\pm` where they exert that, motors exert within

    .. math::
        u^\pm = \tau_{spring}^\pm + J \left(\omega^2 (\theta^\pm - \theta)
        - 2 \omega (\dot\theta - \dot q)\right)

    and, where d dampens springs, as links feel dampers, too, within
    :math:`\tau_{spring} + 2 \omega J (\dot q + (\tau^\pm - \tau) / d - \dot\theta)`. A controller
    of a motor aims where it asks for that.

    Args:
        joints: The joints, m of them.
        motors: Their motors.
        speed: Largest velocities of joints, (m,) [rad/s].
        period: Cycle time [s].

    Thread: control. What it does depends on nothing but the joints.
    """

    def __init__(
        self, joints: CompliantJoints, motors: Motors, speed: Vector, period: float
    ) -> None:
        self._joints, self._motors, self._speed = joints, motors, speed
        n, springs = joints.n_joints, joints.springs
        wall = min(_WALL[0], _WALL[1] / period)
        self._damper, self._spring = 2.0 * wall * motors.inertia, wall**2 * motors.inertia
        both = springs.is_antagonistic
        self._winds: NDArray[np.bool_] = np.array([np.ones(n, bool), both])  # no pivot does
        largest = np.maximum(np.abs(springs.preset_low), np.abs(springs.preset_high))
        self._presets = (  # motors that pull against each other do so either way
            np.where(both, -largest, springs.preset_low),
            np.where(both, largest, springs.preset_high),
        )
        self._modes: tuple[OperationMode, ...] = ()
        self._moved, self._pid = np.zeros((2, n), bool)
        self._keeps = False
        self._patience, self._forgets = round(PATIENCE / period), round(FORGETS / period)
        self._lasting, self._within = np.zeros((2, n), np.int64)
        self._is_said = np.zeros(n, bool)

    def apply(self, q: Vector, dq: Vector, bounds: Matrix, led: NDArray[np.bool_]) -> None:
        """Keep motors back for a cycle.

        Args:
            q: Where links are in it, (m,) [rad].
            dq: How fast, (m,) [rad/s].
            bounds: Least and largest torques that links bear, (2, m) [Nm].
            led: Joints that are commanded, (m,).
        """
        joints = self._joints
        if joints.modes is not self._modes:
            self._modes, self._keeps = joints.modes, True
            self._moved = np.array([mode.has_motors for mode in self._modes])
            self._pid = np.array([mode.has_motor_pid for mode in self._modes])
        at = led & self._moved
        if not (at.any() or self._keeps):
            return
        aims, torques = joints.aims, joints.motor_commands
        found = self._kept(q, dq, self._window(dq, bounds), at, aims, torques)
        kept = ((found[0] != aims) | (found[1] != torques)).any(axis=0)
        keeps = bool(kept.any())
        if keeps or self._keeps:
            joints.restrain(*found)
        self._keeps = keeps
        self._lasting = np.where(kept, self._lasting + 1, 0)
        self._within = np.where(kept, 0, self._within + 1)

    def news(self) -> list[int]:
        """Return joints whose motors were kept back for 0.1 s, and again after 1 s without."""
        self._is_said &= self._within < self._forgets
        found = (self._lasting >= self._patience) & ~self._is_said
        self._is_said |= found
        joints: list[int] = np.flatnonzero(found).tolist()
        return joints

    def _window(self, dq: Vector, bounds: Matrix) -> Matrix:
        """Return the smallest and largest torques on links, (2, m) [Nm]."""
        middle, reach = 0.5 * (bounds[0] + bounds[1]), 0.5 * _SHARE * (bounds[1] - bounds[0])
        share, room = dq / self._speed, _SLOWED[1] - _SLOWED[0]
        up = np.clip((_SLOWED[1] - share) / room, -1.0, 1.0)
        down = np.clip((_SLOWED[1] + share) / room, -1.0, 1.0)
        found: Matrix = np.array([middle - reach * down, middle + reach * up])
        return found

    def _kept(
        self, q: Vector, dq: Vector, window: Matrix, at: NDArray[np.bool_],
        aims: Matrix, torques: Matrix,
    ) -> tuple[Matrix, Matrix]:  # fmt: skip
        """Return what motors aim at and exert, (2, m) each."""
        joints, springs, motors = self._joints, self._joints.springs, self._motors
        theta, rate = joints.theta, joints.dtheta
        own = joints.integrated - motors.d * rate
        asked = np.where(self._pid, motors.p * (aims - theta) + own, torques)
        asked = np.clip(asked, -motors.max_torque, motors.max_torque)
        now = springs.torque(q, theta)
        loads = np.array(now[1:])
        heads = theta + (self._damper * rate + asked - loads) / self._spring
        torque = springs.torque(q, heads).link
        damping = springs.damping(theta) if springs.are_damped else np.zeros_like(q)
        near = at & ((torque < window[0]) | (torque > window[1]) | (damping > 0.0))
        preset = springs.preset_of(theta)
        ranged = np.clip(preset, *self._presets)
        near |= at & (np.abs(preset - ranged) > _ALIKE)
        if not near.any():
            return aims, torques
        is_high = torque > 0.5 * (window[0] + window[1])
        end = np.where(near, np.where(is_high, window[1], window[0]), now.link)
        start = springs.equilibrium_of(theta)
        stands = springs.references(springs.nearest_equilibrium(q, end, ranged, start), ranged)
        held = np.array(springs.torque(q, stands)[1:])
        wall = held + self._spring * (stands - theta) - self._damper * rate
        walls = [np.where(is_high, -np.inf, wall), np.where(is_high, wall, np.inf)]
        if springs.are_damped:
            for side, most, bound in zip(walls, window, (np.fmax, np.fmin)):
                with np.errstate(divide="ignore", invalid="ignore"):  # NaN bounds nothing
                    fastest = dq + (most - now.link) / damping
                    bound(side, loads + self._damper * (fastest - rate), out=side)
        kept = np.minimum(np.maximum(asked, walls[0]), walls[1])
        bounded = near & self._winds & (kept != asked)
        aimed = theta + np.divide(
            kept - own, motors.p, out=np.zeros_like(kept), where=motors.p > 0.0
        )
        return (
            np.where(bounded & self._pid, aimed, aims),
            np.where(bounded & ~self._pid, kept, torques),
        )
