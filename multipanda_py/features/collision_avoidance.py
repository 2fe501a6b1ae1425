# SPDX-License-Identifier: Apache-2.0
"""Keep own arms away from other arms, themselves and the scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import eigenpy
import numpy as np
import pinocchio as pin

from multipanda_py.collision_geometry import CollisionGeometry, Group
from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import choice, flag, number
from multipanda_py.state import JOINTS, ArmState, Vector
from multipanda_py.targets import Target

_dot, _multiply, _subtract, _add, _absolute = np.dot, np.multiply, np.subtract, np.add, np.absolute
_TINY = 1e-12
_PARTS = ("all", "without_hand", "ignore")


@dataclass(frozen=True, eq=False)
class CollisionAvoidanceParams:
    """What :class:`CollisionAvoidance` keeps away from, and how strongly."""

    distance: float = number(
        0.05, unit="m", low=0.001, high=0.5, doc="between surfaces, from where it acts"
    )
    max_force: float = number(
        200.0, unit="N", low=0, high=2000, doc="of each pair of capsules that touches"
    )
    damping_ratio: float = number(
        0.7, low=0, high=5, doc="of approaching, for the local stiffness and inertia"
    )
    arms: bool = flag(True, doc="keep away from all other arms of the cell")
    itself: bool = flag(True, doc="keep links of one arm apart, neighbours left out")
    fixed_objects: str = choice("all", options=_PARTS, doc="what keeps away from things that rest")
    movable_objects: str = choice(
        "without_hand", options=_PARTS, doc="what keeps away from things that can be moved"
    )
    floor: bool = flag(False, doc="keep away from the plane z = 0 of the world")


class CollisionAvoidance(Feature[CollisionAvoidanceParams]):
    r"""Push bodies that are near each other apart, and brake their approach.

    For every pair of capsules at distance :math:`d < d_0`, with the normal n from the first to
    the second and the Jacobians :math:`J_1, J_2` of the two closest points,

    .. math::
        U = \frac{F_{max}}{3 d_0^2} (d_0 - d)^3, \qquad
        g_i = J_i^T n, \qquad \dot d = g_2^T \dot q_2 - g_1^T \dot q_1, \\
        F = -U'(d) - 2 \zeta \sqrt{U''(d)\, m}\, \min(\dot d, 0), \qquad
        m = \left( g_1^T M_1^{-1} g_1 + g_2^T M_2^{-1} g_2 \right)^{-1}, \\
        \tau_1 = -F g_1, \qquad \tau_2 = F g_2

    Only own arms get torque; a controllet on the other arm does its own part. Pairs that
    interpenetrate are treated as touching, so that the force stays finite. Force and stiffness
    are zero at :math:`d_0`. Objects count as being at rest.

    Capsules are those of the robots' own models; positions come from the measured joint
    positions, distances from coal. A group of pairs that was d apart is not looked at again
    before its bodies can have come closer by :math:`d - d_0`. Where closest points are not
    unique (parallel capsules) they may jump along the capsules; the distance does not.
    Source: Dietrich et al., IEEE Trans. Robotics 2012 (repulsion and inertia-aware damping).
    """

    Params = CollisionAvoidanceParams

    def __init__(self, context: Context, params: CollisionAvoidanceParams) -> None:
        self._scene = scene = CollisionGeometry(context)
        n = context.n_arms + len(context.other_arms)
        self._n_own = context.n_arms
        self._raw = scene.raw
        self._q = [scene.raw[7 * arm : 7 * arm + 7] for arm in range(n)]
        self._objects = scene.raw[7 * n :]
        self._movable = context.object_poses[: len(self._objects) // 7]
        self._before, self._moved = np.zeros(len(scene.raw)), np.zeros(len(scene.raw))
        self._steps = np.zeros(len(scene.reach))
        self._travel = [0.0] * len(scene.reach)
        self._margin = -1.0
        self._wrench = np.zeros(6)
        self._gradients = [np.zeros(JOINTS) for _ in range(2)]
        self._masses = [eigenpy.LLT(np.eye(JOINTS)) for _ in range(n)]
        pin.computeJointJacobians(scene.model, scene.data, scene.q)
        # Columns of the arms' joints, and none for joint 0, which is fixed.
        self._columns = [
            [scene.data.J[:, 7 * arm : 7 * arm + count] for count in range(JOINTS + 1)]
            for arm in range(n)
        ]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Choose the groups, and look at all of them in the next cycle."""
        p = self.params
        kinds = {"arms": p.arms, "self": p.itself, "floor": p.floor}
        for name, parts in (("fixed", p.fixed_objects), ("movable", p.movable_objects)):
            kinds[name], kinds[f"{name}_hand"] = parts != "ignore", parts == "all"
        self._groups = [group for group in self._scene.groups if kinds[group.kind]]
        self._slope = p.max_force / p.distance**2
        self._restart()

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Look at everything anew."""
        self._restart()

    def _restart(self) -> None:
        self._travel = [0.0] * len(self._travel)
        for group in self._groups:
            group.limit = -1.0
        self._margin = -1.0

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of all pairs that are near."""
        everyone = (*states, *self.context.other_states)
        for q, state in zip(self._q, everyone):
            q[:] = state.q
        if len(self._movable):
            self._objects[:] = self._movable.reshape(-1)
        moved = _absolute(_subtract(self._raw, self._before, self._moved), self._moved)
        steps = _dot(self._scene.reach, moved, self._steps).tolist()
        if 2.0 * max(steps) > self._margin:  # no two bodies together have moved farther
            self._look(steps, everyone, tau)

    def _look(
        self, steps: Sequence[float], everyone: Sequence[ArmState], tau: Sequence[Vector]
    ) -> None:
        """Measure the groups whose bodies may have come near, and push those that have."""
        scene, travel, distance = self._scene, self._travel, self.params.distance
        for body, step in enumerate(steps):
            travel[body] += step
        self._before[:] = self._raw
        near: list[Group] = []
        margin, placed = math.inf, False
        for group in self._groups:
            total = travel[group.first] + travel[group.second]
            left = group.limit - total
            if left < 0.0:
                if not placed:
                    scene.place()
                    placed = True
                left = group.measure(scene.model, scene.data) - distance
                group.limit = total + left
                if left < 0.0:
                    near.append(group)
            if left < margin:
                margin = left
        self._margin = margin
        if near:
            self._push_all(near, everyone, tau)

    def _push_all(
        self, near: Sequence[Group], everyone: Sequence[ArmState], tau: Sequence[Vector]
    ) -> None:
        """Compute Jacobians and inertia once, then push every near pair apart."""
        scene, distance = self._scene, self.params.distance
        pin.computeJointJacobians(scene.model, scene.data)
        for mass, state in zip(self._masses, everyone):
            mass.compute(state.mass)
        for group in near:
            for result, joints in zip(group.results, group.pairs):
                if result.min_distance < distance:
                    self._push(group, result, joints, everyone, tau)

    def _push(
        self,
        group: Group,
        result: Any,
        joints: tuple[int, int],
        everyone: Sequence[ArmState],
        tau: Sequence[Vector],
    ) -> None:
        """Add the torques of one pair."""
        p = self.params
        normal = result.normal.tolist()
        speed, bodies = 0.0, []
        if joints[0]:
            body, gradient = group.first, self._gradients[0]
            point = result.getNearestPoint1().tolist()
            self._differentiate(normal, point, body, joints[0], gradient)
            speed -= _dot(gradient, everyone[body].dq)
            bodies.append((body, -1.0, gradient))
        if joints[1]:
            body, gradient = group.second, self._gradients[1]
            point = result.getNearestPoint2().tolist()
            self._differentiate(normal, point, body, joints[1], gradient)
            speed += _dot(gradient, everyone[body].dq)
            bodies.append((body, 1.0, gradient))
        depth = p.distance - max(result.min_distance, 0.0)
        force = self._slope * depth * depth
        if speed < 0.0:
            inverse = _TINY
            for body, _, gradient in bodies:
                inverse += _dot(gradient, self._masses[body].solve(gradient))
            stiffness = 2.0 * self._slope * depth
            force -= 2.0 * p.damping_ratio * math.sqrt(stiffness / inverse) * speed
        for body, sign, gradient in bodies:
            if body < self._n_own:
                _add(tau[body], _multiply(gradient, sign * force, gradient), tau[body])

    def _differentiate(
        self, normal: list[float], point: list[float], body: int, joint: int, out: Vector
    ) -> None:
        """Write the joint torques of a unit force along the normal at a point, (7,)."""
        wrench = self._wrench
        nx, ny, nz = normal
        px, py, pz = point
        # As a wrench at the world's origin, which the columns of the Jacobian refer to.
        wrench[0], wrench[1], wrench[2] = nx, ny, nz
        wrench[3], wrench[4], wrench[5] = py * nz - pz * ny, pz * nx - px * nz, px * ny - py * nx
        out[joint:] = 0.0
        _dot(wrench, self._columns[body][joint], out[:joint])
