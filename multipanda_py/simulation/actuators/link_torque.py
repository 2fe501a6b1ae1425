# SPDX-License-Identifier: Apache-2.0
"""From the torques that links are to have to where motors are to stand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.commands import AskedOfJoints
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.actuators.motors import Motors
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


_NONE = np.zeros(0, np.intp)


def mode_of_laws(mode: OperationMode) -> OperationMode:
    """Return the mode in which a joint does what torque laws ask for, where it is in a mode.

    It has the same dynamics: no springs, springs with motors that stand where they are asked to,
    or springs and motors.
    """
    if mode.is_rigid:
        return OperationMode.LINK_TORQUE
    return OperationMode.MOTOR_PID if mode.has_motors else OperationMode.SPRING_REFERENCES


class LinkTorque:
    r"""Command motors so that springs exert a torque.

    .. math::
        \tau_{link}(q + \tfrac T2 \dot q,\, \theta^*) = \tau, \qquad
        r = \theta^* + \frac{\tau_{motor}(\theta^*) + (D + D_{pid})\, \dot\theta^*}{P}

    inverts the springs at the stiffness preset, half a cycle T ahead, as the motors then stand
    still while the link goes on. Motors with inertia have a PID controller that looks at no
    reference of velocity: they are asked for what their load and its damping leave of r, so that
    what remains of a lag is that of their inertia, :math:`J / (D + D_{pid})`.

    Args:
        joints: The compliant joints, m of them; put in the modes that laws need.
        modes: What the cell file says of each.
        motors: Theirs, if they have any.
        preset: Stiffness presets, (m,) [rad or m].
        period: Cycle time T [s].
        kept: Keeps motors back that something else commands; nothing does by default.

    Attributes:
        joints: As given.
        kept: Likewise.
        asked: What a controllet asks of them instead of torques.

    Thread: control.
    """

    def __init__(
        self,
        joints: CompliantJoints,
        modes: Sequence[OperationMode],
        motors: Motors | None,
        preset: Vector,
        period: float,
        kept: KeptMotors | None = None,
    ) -> None:
        self.joints, self._period, self._preset, self.kept = joints, period, preset, kept
        self._modes = [mode_of_laws(mode) for mode in modes]
        self.asked = AskedOfJoints(joints, self._modes)
        self._rigid = [j for j, mode in enumerate(self._modes) if mode.is_rigid]
        self._follow = list(self._rigid), [j for j in range(len(modes)) if j not in self._rigid]
        moved = np.array([mode.has_motors for mode in self._modes])
        self._per_load, self._lead = np.zeros((2, 2, len(preset)))
        strength = np.full((2, len(preset)), np.inf)
        self._motors = motors
        self._has_motors = motors is not None and bool(moved.any())
        if motors is not None:
            has = moved & (motors.p > 0.0)
            strength = np.where(
                moved, np.maximum(motors.max_torque - motors.friction, 0.0), np.inf
            )
            np.divide(1.0, motors.p, out=self._per_load, where=has)
            np.divide(motors.damping + motors.d, motors.p, out=self._lead, where=has)
        self._most = joints.springs.exertable(preset, strength)
        self._deflection: Vector = np.zeros(len(preset))
        self._before: Matrix = np.zeros((2, len(preset)))
        self._begins: NDArray[np.intp] = _NONE

    def save(self) -> tuple[Vector, Matrix, Matrix]:
        """Return copies of all that changes."""
        return self._deflection.copy(), self._before.copy(), self.asked.save()

    def restore(self, saved: tuple[Vector, Matrix, Matrix]) -> None:
        """Go back to what :meth:`save` has returned."""
        self._deflection, self._before = saved[0].copy(), saved[1].copy()
        self.asked.restore(saved[2])
        self._look()

    def reachable(self, q: Vector, torque: Vector) -> Vector:
        """Return what of torques springs and motors exert, (m,) [Nm]; all without springs."""
        springs = self.joints.springs
        equilibrium = springs.nearest_equilibrium(q, torque, self._preset, q)
        exerted: Vector = springs.torque(q, springs.references(equilibrium, self._preset)).link
        found = np.minimum(np.maximum(exerted, -self._most), self._most)
        found[self._rigid] = torque[self._rigid]
        return found

    def beyond_stops(self, q: Vector, torque: Vector) -> dict[int, tuple[float, float, float]]:
        """Return joints whose motors would have to stand beyond a stop to exert torques.

        Args:
            q: Angles of links, (m,) [rad].
            torque: On links, (m,) [Nm].

        Returns:
            By joint, where a motor would have to stand, and its stops [rad or m].
        """
        if self._motors is None:
            return {}
        springs, low, high = self.joints.springs, self._motors.low, self._motors.high
        equilibrium = springs.nearest_equilibrium(q, torque, self._preset, q)
        theta = springs.references(equilibrium, self._preset)
        beyond = (theta < low) | (theta > high)
        beyond[1] &= springs.has_second
        beyond[:, self._rigid] = False
        return {
            joint: (theta[motor, joint], low[motor, joint], high[motor, joint])
            for motor, joint in np.argwhere(beyond)[::-1].tolist()
        }

    def start(self, q: Vector, torque: Vector) -> None:
        """Put motors at rest where springs exert torques, (m,) [Nm], on links at q, (m,) [rad].

        Raises:
            ActuatorRefused: If springs cannot.
        """
        joints = self.joints
        joints.set_mode(OperationMode.EQUILIBRIUM)
        joints.reset(q, torque, self._preset)
        self._deflection, self._before = joints.equilibrium - q, joints.theta
        for mode in {*self._modes}:
            joints.set_mode(mode, [j for j, own in enumerate(self._modes) if own is mode])
        self.command(q, np.zeros_like(q), torque)

    def stiffness(self, q: Vector, torque: Vector) -> Vector:
        """Return what springs have at torques to either side, or at most, (m,) [Nm/rad].

        Joints without springs have none.
        """
        springs, found = self.joints.springs, np.zeros(len(q))
        for wanted in (torque, -torque, np.zeros_like(q)):
            equilibrium = springs.nearest_equilibrium(q, wanted, self._preset, q)
            motors = springs.references(equilibrium, self._preset)
            np.maximum(found, springs.largest_stiffness(q, motors), out=found)
        found[self._rigid] = 0.0
        return found

    def command(
        self,
        q: Vector,
        dq: Vector,
        torque: Vector,
        asked: Matrix | None = None,
        bounds: Matrix | None = None,
    ) -> None:
        """Ask for torques of links; what is no number, as in a world that diverges, for none new.

        Args:
            q: Where links are, (m,) [rad].
            dq: How fast, (m,) [rad/s].
            torque: What springs are to exert, (m,) [Nm].
            asked: Of joints instead, as :class:`.AskedOfJoints` takes it, (3, m).
            bounds: Torques that links bear, as it takes them, (2, m) [Nm].
        """
        if not math.isfinite(sum((q + dq + torque).tolist())):
            return
        if asked is not None:
            self._take(q, dq, asked, bounds)
        self._exert(q, dq, torque)
        if self.kept is not None and bounds is not None and self.asked.leads:
            led = self.asked.led & ~self.asked.direct
            self.kept.apply(q + 0.5 * self._period * dq, dq, bounds, led)

    def _exert(self, q: Vector, dq: Vector, torque: Vector) -> None:
        """Have the joints that laws drive exert torques."""
        joints, springs = self.joints, self.joints.springs
        rigid, sprung = self._follow
        if rigid:
            joints.command("torque_command", torque[rigid], rigid)
        if not sprung:
            return
        ahead = q + 0.5 * self._period * dq
        equilibrium = springs.nearest_equilibrium(
            ahead, torque, self._preset, ahead + self._deflection
        )
        self._deflection = equilibrium - ahead
        motors = springs.references(equilibrium, self._preset)
        if self._has_motors:
            loads = np.array(springs.torque(ahead, motors)[1:])
            rate = (motors - self._before) / self._period
            rate[:, self._begins] = 0.0
            self._begins = _NONE
            self._before = motors
            motors = motors + self._per_load * loads + self._lead * rate
        joints.follow(motors, sprung)

    def _take(self, q: Vector, dq: Vector, asked: Matrix, bounds: Matrix | None) -> None:
        """Have some joints follow other commands than a law's torque, or that again."""
        begins = self.asked.take(q, dq, asked, bounds)
        if begins is None:
            return
        if len(begins):
            self._deflection[begins] = (self.joints.equilibrium - q)[begins]
            self._begins = begins
        self._look()

    def _look(self) -> None:
        """Find out which joints execute torques, and which of those through springs."""
        led, direct = self.asked.led, self.asked.direct
        by_law = np.array([not mode.is_rigid for mode in self._modes])
        rigid, sprung = direct | ~(by_law | led), by_law & ~led
        self._follow = np.flatnonzero(rigid).tolist(), np.flatnonzero(sprung).tolist()
