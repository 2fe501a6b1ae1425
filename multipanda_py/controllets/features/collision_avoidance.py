# SPDX-License-Identifier: Apache-2.0
"""Keep own arms away from other arms, themselves and the scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import eigenpy
import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.impedance.modal_damping import LEAST_RATIO
from multipanda_py.control.safety.collision_forces import ApproachBarrier, Pair, push_apart, settle
from multipanda_py.control.safety.proximity import Proximity
from multipanda_py.feature import Feature
from multipanda_py.parameters import choice, flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import Target

_dot, _subtract, _add = np.dot, np.subtract, np.add
_minimum, _maximum = np.minimum, np.maximum
_CONTACT = 0.005
"""Distance of capsules, which are larger than links, at which bodies may be touching [m]."""
_ROUNDING = 1e-6
"""Speed of approach up to which it is rounding of a zero gradient [m/s]."""
_MOVING = 0.05
"""Speed of approach at which no contact force is credited any more [m/s]."""
_LEAST_ROOM = 0.002
"""Minimum distance over which the credit of a contact force fades in [m]."""
_PARTS = ("all", "without_hand", "ignore")


@dataclass(frozen=True, eq=False)
class CollisionAvoidanceParams:
    """What :class:`CollisionAvoidance` keeps away from, and how strongly."""

    distance: float = number(
        0.03, unit="m", low=0.001, high=0.5, doc="between surfaces, from where it pushes"
    )
    max_force: float = number(
        200.0, unit="N", low=0, high=2000,
        doc="of each pair of capsules that touches; less on light links, which would swing",
    )  # fmt: skip
    damping_ratio: float = number(
        0.7, low=LEAST_RATIO, high=5, doc="of approaching, for the local stiffness and inertia"
    )
    stop_distance: float = number(
        0.015, unit="m", low=0, high=0.5, doc="at which the law can drive bodies no nearer"
    )
    deceleration: float = number(
        8.0, unit="m/s^2", low=0.5, high=50, doc="with which an approach is braked before it"
    )
    bandwidth: float = number(
        20.0, unit="1/s", low=0, high=30, doc="of braking; 0 leaves it out and only pushes"
    )
    arms: bool = flag(True, doc="keep away from all other arms of the cell")
    itself: bool = flag(True, doc="keep links of one arm apart, neighbours left out")
    fixed_objects: str = choice(
        "by_law", options=("by_law", *_PARTS),
        doc="what keeps away from things that rest and the floor; by_law: without_hand for laws "
        "whose hands are meant to touch things, all for joint laws",
    )  # fmt: skip
    movable_objects: str = choice(
        "without_hand", options=_PARTS, doc="what keeps away from things that can be moved"
    )
    floor: bool = flag(
        True, doc="keep away from the plane z = 0 of the world, or of the lowest base below it"
    )


def parts_kept_off(fixed_objects: str, touches: Sequence[str]) -> str:
    """Return ``all``, ``without_hand`` or ``ignore``: what keeps off things that rest.

    Args:
        fixed_objects: The parameter.
        touches: What the law's hands are for.
    """
    if fixed_objects != "by_law":
        return fixed_objects
    return "without_hand" if "things" in touches else "all"


class CollisionAvoidance(Feature[CollisionAvoidanceParams]):
    r"""Stop bodies that come near each other, and push them apart.

    For every pair of capsules at distance :math:`d < d_0`, with the gradients :math:`g_i` of
    the distance by the joints of both arms,

    .. math::
        U = \frac{F_{max}}{3 d_0^2} (d_0 - d)^3, \qquad
        \dot d = g_1^T \dot q_1 + g_2^T \dot q_2, \\
        F = \max(0, -U'(d) - 2 \zeta \sqrt{U''(d)\, m}\, \dot d), \qquad
        m = \left( g_1^T M_1^{-1} g_1 + g_2^T M_2^{-1} g_2 \right)^{-1}, \qquad
        \tau_i = s F g_i

    with a share s for pairs that act on the same motion, and U' and the damping no stiffer than
    late arms can stand (:mod:`~multipanda_py.control.safety.collision_forces`).

    That is soft, and any law that pushes harder would win. So what the law asks for is stopped
    before: forces :math:`\lambda_j \ge 0` along the normals of all pairs that come near,

    .. math::
        \tau {+}= \sum_j g_j \lambda_j

    are the smallest for which the law's own torque satisfies :class:`.ApproachBarrier`. That
    torque is clipped to the torque limits. The part that a measured contact force balances at rest
    is subtracted. Approach is slowed down from a
    distance that grows with the speed, and ends at ``stop_distance``. Motion along the obstacle
    stays free. The push comes on top, and answers to what the law does not know of.

    Only own arms get torque; a controllet on the other arm does its own part. Where an arm that a
    hand leads meets one that follows it, only the follower is parted from it; the leader is braked
    as it comes nearer itself, and never pushed: the follower would follow that. Pairs that
    interpenetrate are treated as touching, so that the force stays finite. What is nearer than
    :math:`d_0` when the law is activated is not pushed away: for this pair it all begins where
    it is, until it has parted, and what touches then may go on pressing until it has. Objects
    count as being at rest. Pairs that ``collisions.touching`` of the cell file names are left
    out.

    Capsules are those of the robots' own models; positions come from the measured joint
    positions, distances from coal (:class:`.Proximity`). Where closest
    points are not unique (parallel capsules) they may jump along the capsules; the distance
    does not. Sources: Dietrich et al., IEEE Trans. Robotics 2012 (repulsion and inertia-aware
    damping); Ames et al., European Control Conference 2019 (barriers).

    Attributes:
        near: Pairs of links and obstacles, with their distances.
        pairs: Pairs that were near in the last cycle.
    """

    Params = CollisionAvoidanceParams
    last = True

    def __init__(self, context: Context, params: CollisionAvoidanceParams) -> None:
        self._barrier = ApproachBarrier()
        self.near = Proximity(context, self._barrier.reach)
        self.pairs: list[Pair] = []
        self._ahead = 0.0
        self._slowest: Pair | None = None
        self._states: Sequence[ArmState] = ()
        sizes = [arm.n_joints for arm in (*context.arms, *context.other_arms)]
        self._masses = [eigenpy.LLT(np.eye(size)) for size in sizes]
        self._limits = [arm.limits.torque for arm in context.arms]
        self._width, self._own = sum(sizes), sum(sizes[: context.n_arms])
        self._slices = [slice(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes))]
        self._accelerations, self._yielded = np.zeros((2, self._own))
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Choose the groups, and look at all of them in the next cycle."""
        p = self.params
        kinds = {"arms": p.arms, "self": p.itself, "floor": p.floor}
        fixed = parts_kept_off(p.fixed_objects, self.context.touches)
        kinds["floor_hand"] = p.floor and fixed != "without_hand"
        for name, parts in (("fixed", fixed), ("movable", p.movable_objects)):
            kinds[name], kinds[f"{name}_hand"] = parts != "ignore", parts == "all"
        self._slope = p.max_force / p.distance**2
        self._barrier.set(p.stop_distance, p.deceleration, p.bandwidth)
        self.near.choose({kind for kind, chosen in kinds.items() if chosen}, p.distance)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Look at everything anew; what is near already is let be where it is."""
        self._follow(states)
        self.near.start()
        self.pairs, self._ahead = [], 0.0

    @property
    def may_slow(self) -> bool:
        """Whether anything was near in the last cycle, or where a reference is."""
        return bool(self.pairs)

    def foresee(self, ahead: float, speed: float) -> None:
        """Look as far as it takes to stop a reference that a soft arm does not keep up with."""
        self._ahead = max(self._ahead, ahead + self._barrier.reach(speed))

    @property
    def stops_at(self) -> float:
        """Distance at which :meth:`pace` stops a reference [m]; 0 where it stops none.

        Pairs that were nearer at the activation stop nearer, until they have parted.
        """
        p = self.params
        return 0.5 * (p.distance + min(p.stop_distance, p.distance)) if p.bandwidth > 0.0 else 0.0

    def kept_apart(self) -> set[tuple[frozenset[str], bool]]:
        """Return the names of bodies that are kept apart, and whether a gripper is one of them.

        An object in a gripper has its own name. A pair within one arm has one name.
        """
        return {
            (frozenset((first.body, second.body)), first.is_hand or second.is_hand)
            for group in self.near.groups
            for first, second in group.solids
        }

    def measure(self, states: Sequence[ArmState], ahead: float = 0.0) -> Sequence[Pair]:
        """Measure the pairs that are near, for :meth:`pace`, without any torque.

        Args:
            states: States of the controllet's arms.
            ahead: Distance up to which pairs are measured in any case [m].

        Thread: control; or that of a planner, which has its own instance.
        """
        self._follow(states)
        self.pairs = self.near.find(ahead)
        return self.pairs

    def pace(self, arm: int, dq: Vector, ahead: Vector | None = None) -> float:
        """Slow a reference down that leads into an obstacle, and let it not get there.

        It ends half-way between where pushing begins and ``stop_distance``, and the direction
        of its motion stays. What else moves counts as it was measured. A reference that is ahead
        of a soft arm is judged by where it is itself.
        """
        share, barrier = 1.0, self._barrier
        for pair in self.pairs:
            if arm not in pair.arms or pair.begin <= _CONTACT:
                continue
            gradient, distance = pair.gradients[pair.arms.index(arm)], pair.distance
            speed = -float(_dot(gradient, dq))
            if speed <= _ROUNDING:
                continue
            end = 0.5 * (pair.begin + min(self.params.stop_distance, pair.begin))
            if ahead is not None:
                distance += min(0.0, float(_dot(gradient, ahead)))
            allowed = max(barrier.allowed(distance, end)[0], 0.0)
            if allowed < share * speed:
                share, self._slowest = allowed / speed, pair
        return share

    def in_the_way(self, arm: int, dq: Vector, ahead: Vector | None = None) -> str:
        """Name the pair that slows a reference down most, and how far it is apart."""
        self._slowest = None
        self.pace(arm, dq, ahead)
        pair = self._slowest
        return f"{pair} are {max(pair.distance, 0.0):.3f} m apart" if pair else ""

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of all pairs that are near."""
        if states is not self._states:
            self._follow(states)
        self.pairs = pairs = self.near.find(self._ahead)
        if self._ahead:
            self._ahead = 0.0
            pairs = [pair for pair in pairs if pair.is_near]
        if pairs:
            self._act(pairs, states, tau)

    def _follow(self, states: Sequence[ArmState]) -> None:
        self._states = states
        self._everyone = (*states, *self.context.other_states)
        self.near.follow(self._everyone)

    def _act(
        self, pairs: Sequence[Pair], states: Sequence[ArmState], tau: Sequence[Vector]
    ) -> None:
        """Add the torques of pairs."""
        for mass, state in zip(self._masses, self._everyone):
            mass.compute(state.mass)
        gradients = np.zeros((len(pairs), self._width))
        responses = np.zeros((len(pairs), self._width))
        for row, pair in enumerate(pairs):
            spared = self._spared(pair)
            for arm, gradient in zip(pair.arms, pair.gradients):
                if arm in spared:
                    continue
                columns = self._slices[arm]
                gradients[row, columns] = gradient
                responses[row, columns] = self._masses[arm].solve(gradient)
        depths = np.array([pair.begin - max(pair.distance, 0.0) for pair in pairs])
        rates, coupling = np.array([pair.rate for pair in pairs]), _dot(gradients, responses.T)
        forces = push_apart(depths, rates, coupling, self._slope, self.params.damping_ratio)
        own = self._own
        if self.params.bandwidth > 0.0:
            self._stop(pairs, gradients[:, :own], responses[:, :own], states, tau)
        for torque, columns in zip(tau, self._slices):
            _add(torque, _dot(forces, gradients[:, columns]), torque)

    def _spared(self, pair: Pair) -> tuple[int, ...]:
        """Return the arms that get no force of a pair: those that lead what they meet."""
        led = self.context.led
        if led and any(arm not in led and arm < self.context.n_arms for arm in pair.arms):
            return led
        return ()

    def _brake_led(
        self, pairs: Sequence[Pair], states: Sequence[ArmState]
    ) -> tuple[Matrix, Matrix, list[float]]:
        """Return what brakes the approach of led arms: gradients, responses, needs.

        Only of arms that come nearer themselves, and never to part: so it only takes energy. An
        approach that slows down by itself is left out, as every row costs time.
        """
        coming = []
        for pair in pairs:
            for arm in self._spared(pair):
                if arm in pair.arms and pair.begin > _CONTACT:
                    gradient = pair.gradients[pair.arms.index(arm)]
                    speed = -float(_dot(gradient, states[arm].dq))
                    if speed <= 0.0:
                        continue
                    end = min(self.params.stop_distance, pair.begin, pair.distance)
                    need = self._barrier.required(pair.distance, speed, end)
                    if need > float(_dot(gradient, self._accelerations[self._slices[arm]])):
                        coming.append((arm, gradient, need))
        rows, answers = np.zeros((2, len(coming), self._own))
        for row, (arm, gradient, _) in enumerate(coming):
            rows[row, self._slices[arm]] = gradient
            answers[row, self._slices[arm]] = self._masses[arm].solve(gradient)
        return rows, answers, [need for _, _, need in coming]

    def _stop(
        self,
        pairs: Sequence[Pair],
        gradients: Matrix,
        responses: Matrix,
        states: Sequence[ArmState],
        tau: Sequence[Vector],
    ) -> None:
        """Take from the law's torques what drives bodies together."""
        accelerations, columns, yielded = self._accelerations, self._slices, self._yielded
        for arm, state in enumerate(states):
            yielded[columns[arm]] = self._masses[arm].solve(state.tau_ext)
            most, torque = self._limits[arm], tau[arm]
            _minimum(torque, most, out=torque)
            _maximum(torque, -most, out=torque)
            accelerations[columns[arm]] = self._masses[arm].solve(
                _subtract(torque, state.coriolis)
            )
        end, required = self.params.stop_distance, self._barrier.required
        needs = [
            required(pair.distance, -pair.rate, min(end, pair.begin))
            if pair.begin > _CONTACT
            else -math.inf
            for pair in pairs
        ]
        if self.context.led:
            rows, answers, braked = self._brake_led(pairs, states)
            if braked:
                gradients = np.vstack([gradients, rows])
                responses = np.vstack([responses, answers])
                needs += braked
        held_back = self._held_back(pairs, gradients[: len(pairs)])
        needs[: len(pairs)] = [need - held for need, held in zip(needs, held_back.tolist())]
        forces = settle(needs, gradients, responses, accelerations)
        if forces is not None:
            for arm, torque in enumerate(tau):
                _add(torque, _dot(forces, gradients[:, columns[arm]]), torque)

    def _held_back(self, pairs: Sequence[Pair], gradients: Matrix) -> Vector:
        r"""Return the approach by the law that contact forces balance, (pairs,) [m/s^2].

        .. math::
            \sigma_v \sigma_d \min(g^T M^{-1} \tau_{ext}, -g^T \ddot q), \qquad
            \sigma_v = 1 + \dot d / v_0, \qquad \sigma_d = (d - d_{stop}) / (d_0 - d_{stop})

        with both factors clipped to [0, 1]. A wrong estimate therefore lets no pair pass its end,
        and does not weaken the braking of an approaching arm.
        """
        driven = np.maximum(-_dot(gradients, self._accelerations), 0.0)
        held: Vector = np.minimum(np.maximum(_dot(gradients, self._yielded), 0.0), driven)
        stop = self.params.stop_distance
        for row in held.nonzero()[0].tolist():
            pair = pairs[row]
            room = max(pair.distance - min(stop, pair.begin), 0.0)
            still = max(1.0 + min(pair.rate, 0.0) / _MOVING, 0.0)
            held[row] *= still * min(room / max(pair.begin - stop, _LEAST_ROOM), 1.0)
        return held
