# SPDX-License-Identifier: Apache-2.0
"""How the distance of near bodies changes, and by which joints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.control.impedance.gains import share_within
from multipanda_py.control.safety.collision_geometry import CollisionGeometry
from multipanda_py.robots.dynamics.collision_pairs import Group
from multipanda_py.state import ArmState, Matrix, Vector

_dot = np.dot

MAX_FORCE = 2000.0
"""Largest force by which one pair is stopped [N]; joints that hardly move it stay bounded."""
_SWEEPS = 20
_SOFT = 1e-4  # [1/kg], where an arm can hardly part a pair
_DEEPEST = -0.02  # of what counts as penetration [m]: it drives apart no faster than that asks


class ApproachBarrier:
    r"""Bound the speed of approach by what a bounded deceleration can take away.

    At distance d, with :math:`h = d - d_{stop}`, two bodies may come nearer at

    .. math::
        v(h) = \frac{a}{p} \left( \sqrt{1 + 2 p^2 h / a} - 1 \right) \quad (h \ge 0), \qquad
        v(h) = p\, h \quad (h < 0)

    which is :math:`p h` near the end and :math:`\sqrt{2 a h}` far from it: kept with a
    deceleration of at most a. It is kept if

    .. math::
        \ddot d \ge -v'(h)\, \dot d - p \left( \dot d + v(h) \right)

    at all times, at rest in front of the end a critically damped approach with the poles
    :math:`-p`. Source: Ames, Coogan, Egerstedt, Notomista, Sreenath and Tabuada, European
    Control Conference 2019 (control barrier functions); the curve is the one that stops.

    Attributes:
        stop: d_stop, the distance that is kept [m].

    Thread: control.
    """

    def __init__(self) -> None:
        self.set(0.015, 8.0, 20.0)

    def set(self, stop: float, deceleration: float, bandwidth: float) -> None:
        """Set d_stop [m], a [m/s^2] and p [1/s]; p = 0 bounds nothing."""
        self.stop, self._a, self._p = stop, deceleration, bandwidth
        self._base = self._sooner = self._slow = self._fast = 0.0
        if bandwidth > 0.0:  # the coefficients of what reach() computes
            self._base, self._sooner = stop, deceleration / bandwidth
            self._slow, self._fast = 1.0 / bandwidth, 0.5 / deceleration

    def allowed(self, distance: float, stop: float) -> tuple[float, float]:
        """Return v(h) [m/s] and its slope [1/s]; infinite if nothing is bounded."""
        a, p, h = self._a, self._p, distance - stop
        if p <= 0.0:
            return math.inf, 0.0
        if h < 0.0:
            return p * max(h, _DEEPEST), p
        root = math.sqrt(1.0 + 2.0 * p * p * h / a)
        return a / p * (root - 1.0), p / root

    def reach(self, speed: float) -> float:
        """Return the distance from which a pair that nears at ``speed`` [m/s] matters [m].

        It is where v(h) is larger by a / p: from there on, even a law that drives the bodies
        together with the acceleration a is let go on.
        """
        faster = (speed if speed > 0.0 else 0.0) + self._sooner
        return self._base + faster * (self._slow + faster * self._fast)

    def required(self, distance: float, speed: float, stop: float) -> float:
        """Return the least acceleration of the distance [m/s^2] at an approach ``speed``."""
        most, slope = self.allowed(distance, stop)
        return slope * speed + self._p * (speed - most)


def settle(
    needs: Sequence[float], gradients: Matrix, responses: Matrix, acceleration: Vector
) -> Vector | None:
    r"""Find forces that give every pair what it needs, as contacts would.

    .. math::
        \ddot d_j = g_j^T \left( \ddot q + M^{-1} \sum_k g_k \lambda_k \right)
        \ge \ddot d_{j,min}, \qquad \lambda_j \ge 0

    by a few sweeps of projected Gauss-Seidel; a force acts along its pair's normal only, so
    motion across it stays free.

    Args:
        needs: Least acceleration of every distance [m/s^2].
        gradients: Derivatives of the distances by all joints, (n, joints) [m/rad].
        responses: Their products with the inverse inertia, (n, joints).
        acceleration: Of the joints without these forces, (joints,) [rad/s^2].

    Returns:
        The forces, (n,) [N], or None if none is needed.
    """
    missing = (needs - _dot(gradients, acceleration)).tolist()
    if max(missing) <= 0.0:
        return None
    coupling = _dot(gradients, responses.T).tolist()
    forces = [0.0] * len(missing)
    for _ in range(_SWEEPS):
        largest = 0.0
        for row in range(len(missing)):
            if missing[row] <= 0.0 and not forces[row]:
                continue
            weights = coupling[row]
            force = min(max(forces[row] + missing[row] / (weights[row] + _SOFT), 0.0), MAX_FORCE)
            change = force - forces[row]
            if change:
                forces[row] = force
                missing = [m - w * change for m, w in zip(missing, weights)]
                largest = max(largest, abs(change))
        if largest < 1e-2:
            break
    return np.array(forces)


_minimum, _maximum = np.minimum, np.maximum
_TINY = 1e-12
SPRING_RATE, DAMPER_RATE = 2500.0, 30.0
"""Most stiffness over inertia of what pushes, and fastest that it brakes [1/s^2, 1/s]."""


def push_apart(
    depths: Vector, rates: Vector, coupling: Matrix, slope: float, ratio: float
) -> Vector:
    r"""Return the forces of all pairs.

    Of each, at a depth :math:`x \ge 0` and alone,

    .. math::
        F = \max(0, f(x) - 2 \zeta \sqrt{f'(x)\, m}\, \dot d), \qquad m = 1 / W_{jj}, \qquad
        f'(x) = \min(2 s x, m\, r_s)

    f is :math:`s x^2`, and goes on as a line where it would be too stiff for the inertia m: an
    arm that is late would swing behind it. Pairs that act on the same motion share it, with

    .. math::
        1 / s_j = \sum_k \frac{\max(W_{jk}, 0)}{\sqrt{W_{jj} W_{kk}}}
        \min\left(1, \frac{f(x_k)}{f(x_j)}\right)

    and what springs and dampers of all pairs still add up to is kept within the rates
    ``SPRING_RATE`` and ``DAMPER_RATE`` (:mod:`~multipanda_py.control.impedance.gains`).

    Args:
        depths: By how much each pair is nearer than where it begins to push, (n,) [m].
        rates: Derivative of their distances, (n,) [m/s].
        coupling: W: acceleration of a distance per force on another, (n, n) [1/kg].
        slope: s [N/m^2].
        ratio: :math:`\zeta`.
    """
    depths = _maximum(depths, 0.0)
    if slope <= 0.0 or not depths.any():
        return np.zeros(len(depths))
    inverse = np.diagonal(coupling) + _TINY
    stiffest = SPRING_RATE / inverse
    soft = _minimum(depths, 0.5 * stiffest / slope)
    forces = slope * soft * soft + stiffest * (depths - soft)
    # What the others do that act on the same motion, as a part of what this one does
    likeness = _maximum(coupling, 0.0) / np.sqrt(np.outer(inverse, inverse))
    np.fill_diagonal(likeness, 1.0)
    others = _minimum(1.0, forces[None, :] / _maximum(forces[:, None], _TINY))
    shares = 1.0 / _maximum((likeness * others).sum(axis=1), 1.0)
    stiffnesses = 2.0 * slope * soft
    shares *= share_within(shares * stiffnesses, coupling, SPRING_RATE)
    dampings = shares * (2.0 * ratio * np.sqrt(stiffnesses / inverse))
    dampings *= share_within(dampings, coupling, DAMPER_RATE)
    pushes: Vector = _maximum(shares * forces - dampings * rates, 0.0)
    return pushes


SURELY = 1.0 + 1e-9
"""Times a bound, so that rounding does not make it less."""


class Pair:
    """Two solids that are near.

    Attributes:
        distance: Between their surfaces [m].
        rate: Its derivative, by all joints of both bodies [m/s].
        begin: From where it counts as near [m]: less for a pair that was nearer at the start.
        arms: Numbers of the arms that move one or both of them.
        gradients: Derivative of the distance by their joints, (n,) [m/rad] each.
        is_near: Whether it matters for the bodies themselves, or only for what is ahead of them.
        place: Its group, and its number there.
    """

    __slots__ = ("arms", "begin", "distance", "gradients", "is_near", "place", "rate")

    def __init__(
        self, distance: float, rate: float, begin: float, is_near: bool, place: tuple[Group, int]
    ) -> None:
        self.distance, self.rate, self.begin, self.is_near = distance, rate, begin, is_near
        self.place = place
        self.arms: list[int] = []
        self.gradients: list[Vector] = []

    def __str__(self) -> str:
        group, number = self.place
        return " and ".join(map(str, group.solids[number]))


class NearPairs:
    r"""Look at the pairs of groups that have been measured, at their true rate.

    .. math::
        \dot d = w^T (V_2 - V_1), \qquad w = \begin{bmatrix} n \\ p \times n \end{bmatrix}

    with V the twists of both links at the world's origin, n the normal from the first solid
    to the second and p a closest point. Objects count as being at rest, but for those that a hand
    holds: they move with it.

    Args:
        scene: Where everything is; its data are those of the last placing.
        reach: Distance from which a pair matters [m], for an approach speed [m/s].

    Thread: control.
    """

    def __init__(self, scene: CollisionGeometry, reach: Callable[[float], float]) -> None:
        self._scene, self._reach = scene, reach
        # Twists of the links at the world's origin, of every arm's joints; before them, at rest.
        self._twists = np.zeros((len(scene.joints), scene.room + 1, 6))
        pin.computeJointJacobians(scene.model, scene.data, scene.q)
        jacobian = scene.data.J.reshape(6, -1)  # a vector where there is one joint in all
        self._jacobians = [jacobian[:, joints] for joints in scene.joints]
        # Columns of the arms' joints, and none for joint 0, which is fixed.
        self._columns = [
            [j[:, :count] for count in range(j.shape[1] + 1)] for j in self._jacobians
        ]

    def find(
        self,
        near: Sequence[tuple[Group, float]],
        everyone: Sequence[ArmState],
        distance_at_rest: float,
        least: float,
        speeds: Sequence[float],
    ) -> list[Pair]:
        """Return the pairs that matter.

        Args:
            near: Groups that have been measured, each with the distance from which it matters [m].
            everyone: States of all arms.
            distance_at_rest: From which pairs matter at rest [m].
            least: Up to which they matter in any case, for what is ahead of the arms [m].
            speeds: What no point of any link is faster than, at the places of groups [m/s].
        """
        found: list[Pair] = []
        twist_of: list[list[list[float]]] = []  # which the first pair that may matter asks for
        for group, matters in near:
            in_any_case = least if group.is_foreseen else -math.inf
            for index, result in enumerate(group.results):
                distance = result.min_distance
                if distance >= matters:
                    continue
                begin = group.begins[index]
                if distance > begin:
                    group.begins[index] = begin = min(distance, distance_at_rest)
                first, second = group.places[index]
                fastest = SURELY * (speeds[first] + speeds[second])
                if distance >= max(begin, in_any_case, self._reach(fastest)):
                    continue  # its rate, which costs most, is no more than that
                twist_of = twist_of or self._twists_of(everyone)
                wrench, rate, joints = _unit_wrench(result), 0.0, group.pairs[index]
                if joints[0]:
                    rate -= _product(wrench, twist_of[group.movers[0]][joints[0]])
                if joints[1]:
                    rate += _product(wrench, twist_of[group.movers[1]][joints[1]])
                is_near = distance < max(begin, self._reach(-rate))
                if is_near or distance < in_any_case:
                    pair = Pair(distance, rate, begin, is_near, (group, index))
                    found.append(self._pair(group, joints, wrench, pair))
        return found

    def _twists_of(self, everyone: Sequence[ArmState]) -> list[list[list[float]]]:
        """Return the twists of all links at the world's origin, by body and joint."""
        scene = self._scene
        pin.computeJointJacobians(scene.model, scene.data)
        for jacobian, twists, state in zip(self._jacobians, self._twists, everyone):
            np.cumsum((jacobian * state.dq).T, axis=0, out=twists[1 : 1 + state.n_joints])
        found: list[list[list[float]]] = self._twists.tolist()
        return found

    def _pair(
        self, group: Group, joints: tuple[int, int], wrench: list[float], pair: Pair
    ) -> Pair:
        """Add the gradients to a pair."""
        for arm, joint, sign in zip(group.movers, joints, (-1.0, 1.0)):
            if not joint:
                continue
            moment = np.array(wrench) * sign
            if arm in pair.arms:
                gradient = pair.gradients[pair.arms.index(arm)]
            else:
                gradient = np.zeros(self._jacobians[arm].shape[1])
                pair.arms.append(arm)
                pair.gradients.append(gradient)
            gradient[:joint] += moment.dot(self._columns[arm][joint])
        return pair


def _unit_wrench(result: Any) -> list[float]:
    """Return a unit force along the normal at the closest point, as seen at the origin, (6,)."""
    nx, ny, nz = result.normal.tolist()
    px, py, pz = result.getNearestPoint1().tolist()
    return [nx, ny, nz, py * nz - pz * ny, pz * nx - px * nz, px * ny - py * nx]


def _product(w: list[float], v: list[float]) -> float:
    return w[0] * v[0] + w[1] * v[1] + w[2] * v[2] + w[3] * v[3] + w[4] * v[4] + w[5] * v[5]
