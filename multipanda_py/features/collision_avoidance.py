# SPDX-License-Identifier: Apache-2.0
"""Keep own arms away from other arms, themselves and the scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import eigenpy
import numpy as np

from multipanda_py.approach_barrier import ApproachBarrier, Gradient, Stop, settle
from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import choice, flag, number
from multipanda_py.proximity import Pair, Proximity
from multipanda_py.state import JOINTS, ArmState, Vector
from multipanda_py.targets import Target

_dot, _subtract, _add = np.dot, np.subtract, np.add
_minimum, _maximum = np.minimum, np.maximum
_TINY = 1e-12
_PARTS = ("all", "without_hand", "ignore")


@dataclass(frozen=True, eq=False)
class CollisionAvoidanceParams:
    """What :class:`CollisionAvoidance` keeps away from, and how strongly."""

    distance: float = number(
        0.05, unit="m", low=0.001, high=0.5, doc="between surfaces, from where it pushes"
    )
    max_force: float = number(
        200.0, unit="N", low=0, high=2000, doc="of each pair of capsules that touches"
    )
    damping_ratio: float = number(
        0.7, low=0, high=5, doc="of approaching, for the local stiffness and inertia"
    )
    stop_distance: float = number(
        0.015, unit="m", low=0, high=0.5, doc="at which the law can drive bodies no nearer"
    )
    deceleration: float = number(
        8.0, unit="m/s^2", low=0.5, high=50, doc="with which an approach is braked before it"
    )
    bandwidth: float = number(
        20.0, unit="1/s", low=0, high=40, doc="of braking; 0 leaves it out and only pushes"
    )
    arms: bool = flag(True, doc="keep away from all other arms of the cell")
    itself: bool = flag(True, doc="keep links of one arm apart, neighbours left out")
    fixed_objects: str = choice("all", options=_PARTS, doc="what keeps away from things that rest")
    movable_objects: str = choice(
        "without_hand", options=_PARTS, doc="what keeps away from things that can be moved"
    )
    floor: bool = flag(False, doc="keep away from the plane z = 0 of the world")


class CollisionAvoidance(Feature[CollisionAvoidanceParams]):
    r"""Stop bodies that come near each other, and push them apart.

    For every pair of capsules at distance :math:`d < d_0`, with the gradients :math:`g_i` of
    the distance by the joints of both arms,

    .. math::
        U = \frac{F_{max}}{3 d_0^2} (d_0 - d)^3, \qquad
        \dot d = g_1^T \dot q_1 + g_2^T \dot q_2, \\
        F = -U'(d) - 2 \zeta \sqrt{U''(d)\, m}\, \min(\dot d, 0), \qquad
        m = \left( g_1^T M_1^{-1} g_1 + g_2^T M_2^{-1} g_2 \right)^{-1}, \qquad
        \tau_i = F g_i

    That is soft, and any law that pushes harder would win. So what the law asks for is stopped
    before: forces :math:`\lambda_j \ge 0` along the normals of all pairs that come near,

    .. math::
        \tau \mathrel{+}= \sum_j g_j \lambda_j

    are the smallest for which the law's own torque, within the torque limits, keeps
    :class:`~multipanda_py.approach_barrier.ApproachBarrier`: approach is slowed down from a
    distance that grows with the speed, and ends at ``stop_distance``. Motion along the obstacle
    stays free. The push comes on top, and answers to what the law does not know of.

    Only own arms get torque; a controllet on the other arm does its own part. Pairs that
    interpenetrate are treated as touching, so that the force stays finite. What is nearer than
    :math:`d_0` when the law is activated is not pushed away: for this pair it all begins where
    it is, until it has parted. Objects count as being at rest.

    Capsules are those of the robots' own models; positions come from the measured joint
    positions, distances from coal (:class:`~multipanda_py.proximity.Proximity`). Where closest
    points are not unique (parallel capsules) they may jump along the capsules; the distance
    does not. Sources: Dietrich et al., IEEE Trans. Robotics 2012 (repulsion and inertia-aware
    damping); Ames et al., European Control Conference 2019 (barriers).
    """

    Params = CollisionAvoidanceParams
    last = True

    def __init__(self, context: Context, params: CollisionAvoidanceParams) -> None:
        self._barrier = ApproachBarrier()
        self._near = Proximity(context, self._barrier.reach)
        self._pairs: list[Pair] = []
        n = context.n_arms
        self._masses = [eigenpy.LLT(np.eye(JOINTS)) for _ in (*context.arms, *context.other_arms)]
        self._limits = [arm.limits.torque for arm in context.arms]
        self._accelerations = [np.zeros(JOINTS) for _ in range(n)]
        self._pushes = [np.zeros(JOINTS) for _ in range(n)]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Choose the groups, and look at all of them in the next cycle."""
        p = self.params
        kinds = {"arms": p.arms, "self": p.itself, "floor": p.floor}
        for name, parts in (("fixed", p.fixed_objects), ("movable", p.movable_objects)):
            kinds[name], kinds[f"{name}_hand"] = parts != "ignore", parts == "all"
        self._slope = p.max_force / p.distance**2
        self._barrier.set(p.stop_distance, p.deceleration, p.bandwidth)
        self._near.choose({kind for kind, chosen in kinds.items() if chosen}, p.distance)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Look at everything anew; what is near already is let be where it is."""
        self._near.start((*states, *self.context.other_states))
        self._pairs = []

    def pace(self, arm: int, dq: Vector) -> float:
        """Slow a reference down that leads into an obstacle, and let it not get there.

        It ends half-way between where pushing begins and ``stop_distance``, and the direction
        of its motion stays. What else moves counts as it was measured.
        """
        if not self._pairs:
            return 1.0
        share, barrier = 1.0, self._barrier
        for pair in self._pairs:
            if arm not in pair.arms:
                continue
            speed = -float(_dot(pair.gradients[pair.arms.index(arm)], dq))
            if speed <= 0.0:
                continue
            end = 0.5 * (pair.begin + min(self.params.stop_distance, pair.begin))
            allowed = max(barrier.allowed(pair.distance, end)[0], 0.0)
            share = min(share, allowed / speed)
        return share

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of all pairs that are near."""
        everyone = (*states, *self.context.other_states)
        self._pairs = pairs = self._near.find(everyone)
        if not pairs:
            return
        for mass, state in zip(self._masses, everyone):
            mass.compute(state.mass)
        for push in self._pushes:
            push[:] = 0.0
        stops = []
        for pair in pairs:
            responses = [
                self._masses[arm].solve(gradient)
                for arm, gradient in zip(pair.arms, pair.gradients)
            ]
            if pair.distance < pair.begin:
                self._push(pair, responses)
            if self.params.bandwidth > 0.0:
                stop = min(self.params.stop_distance, pair.begin)
                own = [part for part in map(Gradient, pair.arms, pair.gradients, responses)
                       if part.arm < len(states)]  # fmt: skip
                stops.append(Stop(own, self._barrier.required(pair.distance, -pair.rate, stop)))
        if stops:
            self._stop(stops, states, tau)
        for torque, push in zip(tau, self._pushes):
            _add(torque, push, torque)

    def _push(self, pair: Pair, responses: Sequence[Vector]) -> None:
        """Add the push of one pair."""
        depth = pair.begin - max(pair.distance, 0.0)
        force = self._slope * depth * depth
        if pair.rate < 0.0:
            inverse = _TINY
            for gradient, response in zip(pair.gradients, responses):
                inverse += _dot(gradient, response)
            stiffness = 2.0 * self._slope * depth
            force -= 2.0 * self.params.damping_ratio * math.sqrt(stiffness / inverse) * pair.rate
        for arm, gradient in zip(pair.arms, pair.gradients):
            if arm < len(self._pushes):
                push = self._pushes[arm]
                _add(push, force * gradient, push)

    def _stop(
        self, stops: Sequence[Stop], states: Sequence[ArmState], tau: Sequence[Vector]
    ) -> None:
        """Take from the law's torques what drives bodies together."""
        accelerations = self._accelerations
        for arm, state in enumerate(states):
            most, torque = self._limits[arm], tau[arm]
            _minimum(torque, most, out=torque)
            _maximum(torque, -most, out=torque)
            accelerations[arm][:] = self._masses[arm].solve(_subtract(torque, state.coriolis))
        settle(stops, accelerations)
        for stop in stops:
            if stop.force > 0.0:
                for part in stop.gradients:
                    _add(tau[part.arm], stop.force * part.value, tau[part.arm])
