# SPDX-License-Identifier: Apache-2.0
"""Speed limits, repulsive forces and distance rates for pairs of solids that are near."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pinocchio as pin
from numpy import dot, maximum, minimum

from multipanda_py.control.impedance.gains import gershgorin_scale
from multipanda_py.control.safety.collision_geometry import CollisionGeometry
from multipanda_py.robots.collision_pairs import Group
from multipanda_py.state import ArmState, Matrix, Vector

MAX_FORCE = 2000.0
"""Maximum force that brakes the approach of one pair [N]. It bounds the torques of joints that
hardly move the pair."""
_MAX_SWEEPS = 20  # Maximum number of Gauss-Seidel iterations of ``settle``.
# Mobility that ``settle`` adds to each pair [1/kg]. Without it, a pair that an arm can hardly
# separate would get a very large force.
_REGULARISATION = 1e-4
# Lower bound of h in ``CollisionVelocityDamper`` [m]. It limits the speed at which overlapping
# bodies separate.
_MIN_DISTANCE = -0.02


class CollisionVelocityDamper:
    """Bound on the approach speed of two bodies, so that they can stop in time.

    Equations, with h = d - d_stop::

        v(h) = a / p (sqrt(1 + 2 p^2 h / a) - 1)   if h >= 0
        v(h) = p h                                 if h < 0
        ddd >= -v'(h) dd - p (dd + v(h))

    - d, dd, ddd: Distance [m], its rate [m/s] and acceleration [m/s^2].
    - d_stop: Distance that must remain [m]; h: distance to the stop [m].
    - v(h): Maximum approach speed [m/s].
    - a: Maximum deceleration [m/s^2].
    - p: Bandwidth [1/s].

    A deceleration of a is sufficient to keep the approach speed within v(h). Near the stop, the
    approach is critically damped with both poles at -p.

    Source: Ames, Coogan, Egerstedt, Notomista, Sreenath and Tabuada, European Control Conference
    2019 (control barrier functions). The curve v(h) is specific to this implementation.

    Attributes:
        stop: Distance d_stop that must remain [m].

    Thread: control.
    """

    def __init__(self) -> None:
        self.set(0.015, 8.0, 20.0)

    def set(self, stop: float, deceleration: float, bandwidth: float) -> None:
        """Set stop distance, deceleration and bandwidth.

        Args:
            stop: Stop distance d_stop [m].
            deceleration: Deceleration a [m/s^2].
            bandwidth: Bandwidth p [1/s]; 0 disables the bound.
        """
        self.stop, self._a, self._p = stop, deceleration, bandwidth
        self._base = self._sooner = self._slow = self._fast = 0.0
        # Compute the coefficients of ``reach``.
        if bandwidth > 0.0:
            self._base, self._sooner = stop, deceleration / bandwidth
            self._slow, self._fast = 1.0 / bandwidth, 0.5 / deceleration

    def allowed(self, distance: float, stop: float) -> tuple[float, float]:
        """Return the maximum approach speed v(h) [m/s], and its slope v'(h) [1/s].

        Below the stop distance, the speed is negative. Without a bound, the results are infinity
        and 0.

        Args:
            distance: Distance of the bodies [m].
            stop: Stop distance of this pair [m].
        """
        a, p, h = self._a, self._p, distance - stop
        if p <= 0.0:
            return math.inf, 0.0
        if h < 0.0:
            return p * max(h, _MIN_DISTANCE), p
        root = math.sqrt(1.0 + 2.0 * p * p * h / a)
        return a / p * (root - 1.0), p / root

    def reach(self, speed: float) -> float:
        """Return the distance [m] below which the bound may act on an approach ``speed`` [m/s]."""
        faster = (speed if speed > 0.0 else 0.0) + self._sooner
        return self._base + faster * (self._slow + faster * self._fast)

    def required(self, distance: float, speed: float, stop: float) -> float:
        """Return the minimum acceleration ddd that keeps the approach speed within v(h) [m/s^2].

        Args:
            distance: Distance of the bodies [m].
            speed: Approach speed [m/s].
            stop: Stop distance of this pair [m].
        """
        max_value, slope = self.allowed(distance, stop)
        return slope * speed + self._p * (speed - max_value)


def settle(
    needs: Sequence[float], gradients: Matrix, responses: Matrix, acceleration: Vector
) -> Vector | None:
    """Return the smallest forces that brake the approach of solids sufficiently.

    The condition is a minimum acceleration of the distance, for all pairs j of solids::

        ddd_j = g_j^T (ddq + M^-1 sum_k g_k lambda_k) >= ddd_j,min
        lambda_j >= 0

    - ddd_j, ddd_j,min: Acceleration of the distance of pair j, and its minimum [m/s^2].
    - g_j: Gradient of the distance, (joints,) [m/rad].
    - ddq: Joint accelerations without these forces, (joints,) [rad/s^2].
    - M: Inertia matrix, (joints, joints).
    - lambda_j: Repulsive force between the solids of pair j [N].

    Solver: projected Gauss-Seidel with a limited number of iterations.

    Args:
        needs: Minimum accelerations ddd_min of the distances, (n,) [m/s^2].
        gradients: Derivatives g of the distances by all joints, (n, joints) [m/rad].
        responses: Products g^T M^-1, (n, joints).
        acceleration: Joint accelerations without these forces, (joints,) [rad/s^2].

    Returns:
        Forces of the pairs, (n,) [N]; None if no force is needed.
    """
    missing = (needs - dot(gradients, acceleration)).tolist()
    if max(missing) <= 0.0:
        return None
    coupling = dot(gradients, responses.T).tolist()
    forces = [0.0] * len(missing)
    for _ in range(_MAX_SWEEPS):
        largest = 0.0
        for row in range(len(missing)):
            if missing[row] <= 0.0 and not forces[row]:
                continue
            weights = coupling[row]
            force = min(
                max(forces[row] + missing[row] / (weights[row] + _REGULARISATION), 0.0), MAX_FORCE
            )
            change = force - forces[row]
            if change:
                forces[row] = force
                missing = [m - w * change for m, w in zip(missing, weights)]
                largest = max(largest, abs(change))
        if largest < 1e-2:
            break
    return np.array(forces)


_TINY = 1e-12
MAX_REPULSION_STIFFNESS, MAX_REPULSION_DAMPING_RATE = 2500.0, 30.0
"""Maximum stiffness [1/s^2] and damping [1/s] of the repulsion per unit inertia."""


def push_apart(
    depths: Vector, rates: Vector, coupling: Matrix, slope: float, ratio: float
) -> Vector:
    """Return the repulsive forces between near solids, one force per pair of solids, (n,) [N].

    Equations, for one pair at a depth x >= 0::

        F = max(0, f(x) - 2 zeta sqrt(f'(x) m) dd)
        f'(x) = min(2 s x, m r_s)
        m = 1 / W_jj

    - x: Depth: activation distance minus distance [m].
    - f(x): Elastic force s x^2, continued linearly above the maximum stiffness m r_s [N].
    - dd: Rate of the distance [m/s].
    - zeta: Damping ratio.
    - m: Effective inertia [kg].
    - r_s: ``MAX_REPULSION_STIFFNESS`` [1/s^2].

    The forces of pairs that push the same motion would add up. The force of pair j is therefore
    scaled by s_j::

        1 / s_j = sum_k max(W_jk, 0) / sqrt(W_jj W_kk) min(1, f(x_k) / f(x_j))

    The sums of all springs and dampers are limited to the rates ``MAX_REPULSION_STIFFNESS`` and
    ``MAX_REPULSION_DAMPING_RATE``.

    Args:
        depths: Depths x of the pairs, (n,) [m].
        rates: Rates of the distances, (n,) [m/s].
        coupling: Matrix W: acceleration of distance j per force of pair k, (n, n) [1/kg].
        slope: Factor s of the elastic force [N/m^2].
        ratio: Damping ratio zeta.
    """
    depths = maximum(depths, 0.0)
    if slope <= 0.0 or not depths.any():
        return np.zeros(len(depths))
    inverse = np.diagonal(coupling) + _TINY
    stiffest = MAX_REPULSION_STIFFNESS / inverse
    soft = minimum(depths, 0.5 * stiffest / slope)
    forces = slope * soft * soft + stiffest * (depths - soft)
    # Compute s_j of the docstring. Pairs that push the same motion share their force, and pair k
    # counts by its force relative to that of pair j.
    likeness = maximum(coupling, 0.0) / np.sqrt(np.outer(inverse, inverse))
    np.fill_diagonal(likeness, 1.0)
    others = minimum(1.0, forces[None, :] / maximum(forces[:, None], _TINY))
    fractions = 1.0 / maximum((likeness * others).sum(axis=1), 1.0)
    stiffnesses = 2.0 * slope * soft
    fractions *= gershgorin_scale(fractions * stiffnesses, coupling, MAX_REPULSION_STIFFNESS)
    dampings = fractions * (2.0 * ratio * np.sqrt(stiffnesses / inverse))
    dampings *= gershgorin_scale(dampings, coupling, MAX_REPULSION_DAMPING_RATE)
    pushes: Vector = maximum(fractions * forces - dampings * rates, 0.0)
    return pushes


ROUNDING_FACTOR = 1.0 + 1e-9
"""Factor on an upper bound, which keeps it valid despite rounding errors."""


class Pair:
    """Two solids that are near each other.

    Attributes:
        distance: Distance between the surfaces of the solids [m].
        rate: Time derivative of the distance at the current joint velocities [m/s].
        near_distance: Distance below which the solids are pushed apart [m]. It is lower for solids
            that were already near each other when the controllet was activated.
        arms: Indices of the arms that move one or both solids.
        gradients: Derivatives of the distance by the joints of each of ``arms``, (n,) [m/rad].
        is_near: True if braking or repulsion may act on the solids. False if only a reference
            ahead of the arm may have to slow down.
        index: Group of the pair, and index of the pair in the group.
    """

    __slots__ = ("arms", "distance", "gradients", "index", "is_near", "near_distance", "rate")

    def __init__(
        self, distance: float, rate: float, begin: float, is_near: bool, place: tuple[Group, int]
    ) -> None:
        self.distance, self.rate, self.near_distance, self.is_near = distance, rate, begin, is_near
        self.index = place
        self.arms: list[int] = []
        self.gradients: list[Vector] = []

    def __str__(self) -> str:
        group, number = self.index
        return " and ".join(map(str, group.solids[number]))


class NearPairs:
    """Distance rates and gradients of pairs of solids whose distances were measured.

    Equations::

        dd = w^T (V_2 - V_1)
        w  = [n; p x n]

    - dd: Rate of the distance [m/s].
    - V_1, V_2: Twists of both links at the world origin, (6,) [m/s, rad/s].
    - n: Unit normal from the first solid to the second, (3,).
    - p: Closest point, (3,) [m].
    - w: Wrench of a unit force along n at p, (6,).

    Objects are assumed to be at rest, except that a grasped object moves with its gripper.

    Args:
        scene: Collision geometry of arms and objects.
        reach: Function from an approach speed [m/s] to the distance below which a pair is relevant
            [m].

    Thread: control.
    """

    def __init__(self, scene: CollisionGeometry, reach: Callable[[float], float]) -> None:
        self._scene, self._reach = scene, reach
        # For each arm, row k is the twist of link k at the world origin. Row 0 is the fixed base.
        self._twists = np.zeros((len(scene.joints), scene.joint_count + 1, 6))
        pin.computeJointJacobians(scene.model, scene.data, scene.q)
        # For a model with one joint, pinocchio returns J as a vector.
        jacobian = scene.data.J.reshape(6, -1)
        self._jacobians = [jacobian[:, joints] for joints in scene.joints]
        # Element k contains the Jacobian columns of the joints that move link k; element 0 belongs
        # to the fixed base and is empty.
        self._columns = [
            [j[:, :count] for count in range(j.shape[1] + 1)] for j in self._jacobians
        ]

    def find(
        self,
        near: Sequence[tuple[Group, float]],
        everyone: Sequence[ArmState],
        distance_at_rest: float,
        min_distance: float,
        speeds: Sequence[float],
    ) -> list[Pair]:
        """Return the relevant pairs: those on which braking or repulsion may act.

        Args:
            near: Groups of pairs whose distances were measured, each with a distance [m]. Pairs at
                larger distances are skipped.
            everyone: States of all arms.
            distance_at_rest: Distance below which pairs are relevant at rest [m].
            min_distance: Distance below which pairs are relevant at any speed [m], in groups with
                ``is_foreseen``.
            speeds: Upper bounds of the speeds of all points of each link [m/s], to which
                ``Group.speed_indices`` refer.
        """
        results: list[Pair] = []
        # The twists of the links are expensive. Compute them only if a pair may be relevant.
        twist_of: list[list[list[float]]] = []
        for group, matters in near:
            in_any_case = min_distance if group.is_foreseen else -math.inf
            for index, result in enumerate(group.results):
                distance = result.min_distance
                if distance >= matters:
                    continue
                start = group.near_distances[index]
                if distance > start:
                    group.near_distances[index] = start = min(distance, distance_at_rest)
                first, second = group.speed_indices[index]
                fastest = ROUNDING_FACTOR * (speeds[first] + speeds[second])
                if distance >= max(start, in_any_case, self._reach(fastest)):
                    # The pair is too far away even at its highest possible approach speed.
                    continue
                twist_of = twist_of or self._link_twists(everyone)
                wrench, rate, joints = _unit_wrench(result), 0.0, group.pairs[index]
                if joints[0]:
                    rate -= _product(wrench, twist_of[group.movers[0]][joints[0]])
                if joints[1]:
                    rate += _product(wrench, twist_of[group.movers[1]][joints[1]])
                is_near = distance < max(start, self._reach(-rate))
                if is_near or distance < in_any_case:
                    pair = Pair(distance, rate, start, is_near, (group, index))
                    results.append(self._with_gradients(group, joints, wrench, pair))
        return results

    def _link_twists(self, everyone: Sequence[ArmState]) -> list[list[list[float]]]:
        scene = self._scene
        pin.computeJointJacobians(scene.model, scene.data)
        for jacobian, twists, state in zip(self._jacobians, self._twists, everyone):
            np.cumsum((jacobian * state.dq).T, axis=0, out=twists[1 : 1 + state.n_joints])
        result: list[list[list[float]]] = self._twists.tolist()
        return result

    def _with_gradients(
        self, group: Group, joints: tuple[int, int], wrench: list[float], pair: Pair
    ) -> Pair:
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
    # Unit force along the normal of a pair, at the world origin.
    nx, ny, nz = result.normal.tolist()
    px, py, pz = result.getNearestPoint1().tolist()
    return [nx, ny, nz, py * nz - pz * ny, pz * nx - px * nz, px * ny - py * nx]


def _product(w: list[float], v: list[float]) -> float:
    return w[0] * v[0] + w[1] * v[1] + w[2] * v[2] + w[3] * v[3] + w[4] * v[4] + w[5] * v[5]
