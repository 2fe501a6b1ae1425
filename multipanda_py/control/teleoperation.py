# SPDX-License-Identifier: Apache-2.0
"""Take what an arm at rest seems to feel for the error of its estimate."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.control.force.virtual_mass import length, limit, remaining
from multipanda_py.state import ArmState, Matrix, Vector

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract


class MotionMapping:
    r"""Carry the leader's motion since both were coupled over to the follower.

    .. math::
        p_F = p_{F0} + \alpha\, C (p_L - p_{L0}), \qquad
        R_F = C\, R_L R_{L0}^T\, C^T R_{F0}, \qquad C = {}^{w}R_F^T \; {}^{w}R_L

    Poses are in each arm's own base; C turns the axes of the leader's base into those of the
    follower's, so that motion is the same along the axes of the world, wherever the bases
    stand. Only translation is scaled, by alpha.

    Args:
        rotation_leader_in_world: Orientation of the leader's base, (3, 3).
        rotation_follower_in_world: Orientation of the follower's base, (3, 3).

    Attributes:
        turn: C, (3, 3).
        position: Where the follower should be, in its base, (3,) [m].
        rotation: How it should be turned, (3, 3).
        twist: How it should move, (6,) [m/s, rad/s].

    Thread: control.
    """

    def __init__(
        self, rotation_leader_in_world: Matrix, rotation_follower_in_world: Matrix
    ) -> None:
        self.turn: Matrix = rotation_follower_in_world.T @ rotation_leader_in_world
        self.position, self.rotation, self.twist = np.zeros(3), np.eye(3), np.zeros(6)
        self._linear, self._angular = self.twist[:3], self.twist[3:]
        self._scaled = self.turn.copy()
        self._scale = 1.0
        self._leader, self._follower = np.zeros(3), np.zeros(3)
        self._grip, self._half, self._moved = np.eye(3), np.zeros((3, 3)), np.zeros(3)

    def couple(
        self,
        position_leader: Vector,
        rotation_leader: Matrix,
        position_follower: Vector,
        rotation_follower: Matrix,
        scale: float,
    ) -> None:
        """Count motion from these poses on, with translation scaled by ``scale``."""
        self._scale = scale
        _multiply(self.turn, scale, self._scaled)
        self._leader[:], self._follower[:] = position_leader, position_follower
        self._grip[:] = rotation_leader.T @ self.turn.T @ rotation_follower

    def follow(self, position: Vector, rotation: Matrix, twist: Vector) -> None:
        """Compute the follower's pose and twist from the leader's, in the leader's base."""
        _subtract(position, self._leader, self._moved)
        _add(self._follower, _dot(self._scaled, self._moved, self.position), self.position)
        _dot(_dot(self.turn, rotation, self._half), self._grip, self.rotation)
        _dot(self._scaled, twist[:3], self._linear)
        _dot(self.turn, twist[3:], self._angular)


_dot, _multiply, _subtract, _add = np.dot, np.multiply, np.subtract, np.add


class ForceReflection:
    r"""Filter a wrench, take noise out of it, bound it and scale it.

    .. math::
        \dot y = (C^T F_{ext} - y) / T_f, \qquad
        z = \mathrm{dead}(y, F_0), \qquad
        F_{fb} = g\, z \min\left(1, \frac{F_{max}}{|z|}\right)

    for force and torque each, with their own deadbands and bounds. Below half of the deadband
    nothing is left, so that what remains of an error of the estimate moves no hand; above one
    and a half of it the deadband is taken off. There is no corner, and no slope above one
    (:func:`.remaining`): the deadband adds no gain to the loop.

    Attributes:
        wrench: What the leader feels, in its base, (6,) [N, Nm].
        force: Size of the force [N].
        torque: Size of the torque [Nm].
        touch: How much of a contact there is: 0 within the deadband, near 1 far above it.

    Thread: control.
    """

    def __init__(self) -> None:
        self.wrench, self._filtered, self._new = np.zeros(6), np.zeros(6), np.zeros(6)
        self.force = self.torque = self.touch = 0.0
        self._share = 1.0
        self._parts = [
            (self._filtered[:3], self.wrench[:3]),
            (self._filtered[3:], self.wrench[3:]),
        ]
        self._shapes = [(0.0, math.inf, 1.0), (0.0, math.inf, 1.0)]

    def set_filter(self, time_constant: float, period: float) -> None:
        """Set the filter's time constant [s]; zero is no filter."""
        self._share = -math.expm1(-period / time_constant) if time_constant > 0.0 else 1.0

    def set_shape(
        self, force: tuple[float, float, float], torque: tuple[float, float, float]
    ) -> None:
        """Set deadband, bound and gain of force [N] and torque [Nm]."""
        self._shapes = [force, torque]

    def reset(self) -> None:
        """Forget what was felt before."""
        self._filtered[:] = 0.0

    def feel(self, wrench: Vector, turn: Matrix) -> Vector:
        """Take one cycle's wrench in, (6,) along the follower's base; return :attr:`wrench`.

        Args:
            wrench: On the follower's tool, by the world [N, Nm].
            turn: From the axes of the leader's base to those of the follower's, (3, 3).
        """
        new = self._new
        _dot(wrench[:3], turn, new[:3])
        _dot(wrench[3:], turn, new[3:])
        _subtract(new, self._filtered, new)
        _add(self._filtered, _multiply(new, self._share, new), self._filtered)
        sizes, self.touch = [], 0.0
        for (y, out), (deadband, bound, gain) in zip(self._parts, self._shapes):
            kept = remaining(y, deadband)
            size = kept * length(y)
            factor = gain * kept * (bound / size if size > bound else 1.0)
            _multiply(y, factor, out)
            sizes.append(gain * min(size, bound))
            self.touch = max(self.touch, kept)
        self.force, self.torque = sizes
        return self.wrench


_dot = np.dot


class ReflectionAccount:
    r"""Keep the balance of a reflected wrench, and fade it out where it has given too much.

    .. math::
        \dot E = - F^T v + \beta\, \dot q^T D \dot q\ [E < 0], \qquad
        E_F = \frac{|f|^2}{2 \kappa_f} + \frac{|m|^2}{2 \kappa_m}, \\
        s = \min\left(1, \max\left(0, 1 + \frac{E}{E_F} \right)\right), \qquad E \le c\, E_F

    with v the twist of the leader's tool and s the share of the wrench F that it feels.
    :math:`\kappa` is the stiffness that a wall behind the follower has for the leader: a spring
    of it stores :math:`E_F` at that wrench. Who presses against the reflection puts energy in
    and gets it back; a wrench that nobody has pressed up moves a leader that yields no farther
    than such a spring would. That is what the error of an estimate, which pushes the same way
    for ever, has in common with a delayed contact, which gives back more than it got: both run
    into debt and fade, whatever model of the contact holds. At one size of F the share is a
    function of E alone, so what fades on the way out comes back on the way in, and the leader
    never gets more than :math:`E_F` beyond what it gave, but for the share :math:`\beta < 1` of
    what its own dampers took. A bounded account (c) does not pay for what a lossy contact took
    long ago; in free space it is empty. Who presses on feels at least half, who yields may feel
    nothing: that takes what a force that changes its size meanwhile could still give.

    Sources: Hannaford and Ryu, IEEE Trans. Robotics and Automation 2002 (passivity observer);
    Franken, Stramigioli, Misra, Secchi and Macchelli, IEEE Trans. Robotics 2011 (energy tanks
    in teleoperation).

    Attributes:
        energy: E, what the leader has in it; a debt if negative [J].
        share: s.

    Thread: control.
    """

    REPAID = 0.25
    """beta: share of what the dampers of the leader take that pays a debt."""
    SOFTEST = 4.0
    """c: contacts down to this part of the stiffness are paid back in full."""
    LEAST = 0.5
    """Share that whoever presses feels at least."""
    SLOW, SLOW_TURN = 0.2, 1.0
    """Over these speeds of pressing that sets in [m/s], [rad/s]."""
    TINY = 1e-9

    def __init__(self) -> None:
        self.energy, self.share = 0.0, 1.0
        self._force = self._torque = 0.0

    def set_stiffness(self, force: float, torque: float) -> None:
        """Set the stiffnesses that the leader may feel [N/m], [Nm/rad]."""
        self._force, self._torque = 0.5 / force, 0.5 / torque

    def reset(self) -> None:
        """Begin with an even balance."""
        self.energy, self.share = 0.0, 1.0

    def pass_on(
        self, force: float, torque: float, wrench: Vector, twist: Vector, taken: float,
        period: float,
    ) -> float:  # fmt: skip
        """Book one cycle, and return the share of the wrench that the leader feels.

        Args:
            force: Size of the wrench's force [N].
            torque: Size of its torque [Nm].
            wrench: To be reflected, (6,) [N, Nm].
            twist: Of the leader's tool, (6,) [m/s, rad/s].
            taken: Power that the leader's dampers take [W].
            period: Length of the cycle [s].
        """
        stored = force * force * self._force + torque * torque * self._torque
        energy = before = self.energy
        share = 1.0
        if stored > self.TINY:
            power = float(_dot(wrench, twist))
            if energy < 0.0:
                share = max(0.0, 1.0 + energy / stored)
                if power < 0.0 and share < self.LEAST:
                    soon = self.SLOW * force + self.SLOW_TURN * torque
                    share = max(share, self.LEAST * min(1.0, -power / soon))
            energy -= power * period
            if energy < before:
                energy = max(energy, min(before, -stored))
        if energy < 0.0:
            energy = min(0.0, energy + self.REPAID * taken * period)
        self.energy = min(energy, self.SOFTEST * stored) if energy > 0.0 else energy
        self.share = share
        return share


_subtract, _add = np.subtract, np.add

STILL = 0.05
"""Speed of any joint from which an arm is not at rest; measured noise stays below [rad/s]."""


class WrenchTare:
    r"""Average a wrench while arms stand still, and take the mean off from then on.

    .. math::
        b = \mathrm{bound}\left( \tfrac1n \sum_{k=1}^{n} F_k \right), \qquad F' = F - b

    The mean is that of a wrench, not of joint torques: a forgotten load, the largest error
    there is, keeps its force along the axes of the base in every posture. What is larger than
    the bound is a contact as far as it is larger. Motion starts the average anew, and until it
    is complete nothing is felt.

    Args:
        period: Cycle time [s].

    Attributes:
        wrench: What is felt, (6,) [N, Nm].
        bias: b, (6,) [N, Nm].
        done: Whether the mean is complete.

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self.wrench, self.bias, self._sum = np.zeros(6), np.zeros(6), np.zeros(6)
        self._cycles = self._left = 0
        self._bounds = (0.0, 0.0)
        self.done = True

    def start(self, time: float, max_force: float, max_torque: float) -> None:
        """Begin to average over ``time`` [s]; at most this may be an error [N], [Nm]."""
        self._cycles = self._left = round(time / self._period)
        self._bounds = (max_force, max_torque)
        self.done = self._left == 0
        for array in (self.wrench, self.bias, self._sum):
            array[:] = 0.0

    def take(self, wrench: Vector, *arms: ArmState) -> Vector:
        """Take one cycle's wrench in, (6,); return :attr:`wrench`.

        Args:
            wrench: As estimated [N, Nm].
            arms: Those that have to stand still for the mean.
        """
        if self.done:
            return _subtract(wrench, self.bias, self.wrench)
        if any(max(map(abs, arm.dq.tolist())) > STILL for arm in arms):
            self._left, self._sum[:] = self._cycles, 0.0
            return self.wrench
        _add(self._sum, wrench, self._sum)
        self._left -= 1
        if self._left == 0:
            self.done = True
            self.bias[:] = self._sum / self._cycles
            limit(self.bias[:3], self._bounds[0])
            limit(self.bias[3:], self._bounds[1])
        return self.wrench
