# SPDX-License-Identifier: Apache-2.0
"""Collision avoidance between the arms of a controllet, other arms and the scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import eigenpy
import numpy as np
from numpy import add, dot, maximum, minimum, subtract

from multipanda_py.context import Context
from multipanda_py.control.impedance.modal_damping import MIN_DAMPING_RATIO
from multipanda_py.control.safety.collision_forces import (
    CollisionVelocityDamper,
    Pair,
    push_apart,
    settle,
)
from multipanda_py.control.safety.proximity import Proximity
from multipanda_py.feature import Feature
from multipanda_py.parameters import choice, flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import Target

_CONTACT_DISTANCE = 0.005
"""Distance of capsules below which bodies may be in contact [m]. Capsules are larger than
links."""
_ROUNDING_SPEED = 1e-6
"""Approach speed up to which a pair does not slow a reference, because it may be a rounding error
of a zero gradient [m/s]."""
_MAX_CONTACT_SPEED = 0.05
"""Approach speed above which a measured contact force is ignored [m/s]."""
_MIN_FADE_DISTANCE = 0.002
"""Minimum distance over which the effect of a contact force fades in [m]."""
_PARTS = ("all", "without_gripper", "ignore")


@dataclass(frozen=True, eq=False)
class CollisionAvoidanceParams:
    """Parameters of ``CollisionAvoidance``: distances, gains and avoided bodies."""

    distance: float = number(
        0.03, unit="m", low=0.001, high=0.5,
        doc="distance between surfaces below which the repulsion acts",
    )  # fmt: skip
    max_force: float = number(
        200.0, unit="N", low=0, high=2000,
        doc="repulsive force of each pair of capsules in contact; reduced on light links",
    )  # fmt: skip
    damping_ratio: float = number(
        0.7, low=MIN_DAMPING_RATIO, high=5,
        doc="damping ratio of the approach, for the local stiffness and inertia",
    )  # fmt: skip
    stop_distance: float = number(
        0.015, unit="m", low=0, high=0.5,
        doc="minimum distance to which the controllet can drive bodies",
    )  # fmt: skip
    deceleration: float = number(
        8.0, unit="m/s^2", low=0.5, high=50, doc="deceleration of an approach before stop_distance"
    )
    bandwidth: float = number(
        20.0, unit="1/s", low=0, high=30,
        doc="bandwidth of the braking; 0 disables it and leaves the repulsion",
    )  # fmt: skip
    arms: bool = flag(True, doc="keep away from all other arms of the cell")
    self_collision: bool = flag(True, doc="keep links of one arm apart, except neighbours")
    fixed_objects: str = choice(
        "by_law", options=("by_law", *_PARTS),
        doc="parts that keep away from fixed objects and the floor; by_law: without_gripper for "
        "controllets that are meant to touch objects, all for joint controllets",
    )  # fmt: skip
    movable_objects: str = choice(
        "without_gripper", options=_PARTS, doc="parts that keep away from movable objects"
    )
    floor: bool = flag(
        True,
        doc="keep away from the plane z = 0 of the world, or from that of a lower base",
    )


def avoided_bodies(fixed_objects: str, touches: Sequence[str]) -> str:
    """Return the arm parts that avoid fixed objects: ``all``, ``without_gripper`` or ``ignore``.

    Args:
        fixed_objects: Value of the parameter ``fixed_objects``.
        touches: Kinds of bodies that the controllet is meant to touch.
    """
    if fixed_objects != "by_law":
        return fixed_objects
    return "without_gripper" if "objects" in touches else "all"


class CollisionAvoidance(Feature[CollisionAvoidanceParams]):
    """Braking before collisions, and repulsion of near bodies.

    Links and obstacles consist of solids, such as capsules. Equations of the repulsion, for every
    pair of solids at a distance d < d_0::

        U     = F_max / (3 d_0^2) (d_0 - d)^3
        dd    = g_1^T dq_1 + g_2^T dq_2
        F     = max(0, -U'(d) - 2 zeta sqrt(U''(d) m) dd)
        m     = 1 / (g_1^T M_1^-1 g_1 + g_2^T M_2^-1 g_2)
        tau_i = s F g_i

    - U: Potential [J]; F: force [N]; F_max: ``max_force`` [N].
    - d, dd: Distance [m] and its rate [m/s]; d_0: ``distance`` [m].
    - g_i: Gradient of the distance by the joints of arm i, (n,) [m/rad].
    - dq_i, M_i: Joint velocities [rad/s] and inertia matrix of arm i.
    - zeta: ``damping_ratio``; m: effective inertia [kg].
    - s: Scale for several pairs that push the same motion, see ``push_apart``.
    - tau_i: Joint torques of arm i, (n,) [Nm].

    Braking acts first, by forces along the normals of all near pairs j::

        tau' = tau + sum_j g_j lambda_j,   lambda_j >= 0

    - tau, tau': Joint torques of the controllet, and with braking, (n,) [Nm].
    - lambda_j: Smallest forces with which all pairs satisfy ``CollisionVelocityDamper`` [N].

    An approach is slowed from a distance that increases with the speed, and ends at
    ``stop_distance``. Motion along an obstacle stays free. The repulsion also acts against pushes.

    *Arms.* Only the arms of this controllet receive torques. If a hand-guided leader meets its
    follower, the follower is repelled and the leader is only braked.

    *Contacts.* If two solids are nearer than d_0 at the activation, their distance replaces d_0,
    and grows as they separate. Solids that touch at the activation may press until they have
    separated. Objects are assumed to be at rest. Pairs in ``collisions.allowed_contacts`` of the
    cell file are excluded.

    Sources: Dietrich et al., IEEE Trans. Robotics 2012 (repulsion and inertia-dependent damping);
    Ames et al., European Control Conference 2019 (barriers).

    Attributes:
        near: Search for pairs of solids that are near each other.
        pairs: Near pairs of the last cycle.
    """

    Params = CollisionAvoidanceParams
    runs_last = True

    def __init__(self, context: Context, params: CollisionAvoidanceParams) -> None:
        self._barrier = CollisionVelocityDamper()
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
        """Select the groups of body pairs to keep apart."""
        p = self.params
        kinds = {"arms": p.arms, "self": p.self_collision, "floor": p.floor}
        fixed = avoided_bodies(p.fixed_objects, self.context.contact_classes)
        kinds["floor_hand"] = p.floor and fixed != "without_gripper"
        for name, parts in (("fixed", fixed), ("movable", p.movable_objects)):
            kinds[name], kinds[f"{name}_hand"] = parts != "ignore", parts == "all"
        self._slope = p.max_force / p.distance**2
        self._barrier.set(p.stop_distance, p.deceleration, p.bandwidth)
        self.near.choose({kind for kind, chosen in kinds.items() if chosen}, p.distance)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Restart the search for near solids.

        Solids that are already near are repelled only if they come nearer.
        """
        self._follow(states)
        self.near.start()
        self.pairs, self._ahead = [], 0.0

    @property
    def can_slow_down(self) -> bool:
        """True if solids were near each other in the last cycle, which may slow a reference."""
        return bool(self.pairs)

    def announce_reference(self, ahead: float, speed: float) -> None:
        """Search for near solids at a larger distance, because a reference is ahead of its arm."""
        self._ahead = max(self._ahead, ahead + self._barrier.reach(speed))

    @property
    def stops_at(self) -> float:
        """Distance at which ``velocity_scale`` stops a reference [m]; 0 without braking.

        It is lower for solids that were nearer at the activation, until they have separated.
        """
        p = self.params
        return 0.5 * (p.distance + min(p.stop_distance, p.distance)) if p.bandwidth > 0.0 else 0.0

    def avoided_pairs(self) -> set[tuple[frozenset[str], bool]]:
        """Return pairs of body names that are kept apart, each with True if it contains a gripper.

        A body is an arm or an object. A pair of links of one arm is the name of this arm only.
        """
        return {
            (frozenset((first.body, second.body)), first.is_gripper or second.is_gripper)
            for group in self.near.groups
            for first, second in group.solids
        }

    def measure(self, states: Sequence[ArmState], ahead: float = 0.0) -> Sequence[Pair]:
        """Find pairs of near solids for the next ``velocity_scale``, without adding torques.

        Args:
            states: States of the arms of the controllet.
            ahead: Distance below which solids count as near at any speed [m].

        Thread: control. A planner may use an instance in its own thread.
        """
        self._follow(states)
        self.pairs = self.near.find(ahead)
        return self.pairs

    def velocity_scale(self, arm: int, dq: Vector, ahead: Vector | None = None) -> float:
        """Return the fraction of a reference velocity that near obstacles allow, 0 to 1.

        A reference stops midway between the parameters ``distance`` and ``stop_distance``.

        Args:
            arm: Index of the arm.
            dq: Joint velocity of the reference, (n,) [rad/s].
            ahead: Reference minus measured joint positions, (n,) [rad]; None for zero.
        """
        scale, barrier = 1.0, self._barrier
        for pair in self.pairs:
            if arm not in pair.arms or pair.near_distance <= _CONTACT_DISTANCE:
                continue
            gradient, distance = pair.gradients[pair.arms.index(arm)], pair.distance
            speed = -float(dot(gradient, dq))
            if speed <= _ROUNDING_SPEED:
                continue
            end = 0.5 * (pair.near_distance + min(self.params.stop_distance, pair.near_distance))
            if ahead is not None:
                distance += min(0.0, float(dot(gradient, ahead)))
            allowed = max(barrier.allowed(distance, end)[0], 0.0)
            if allowed < scale * speed:
                scale, self._slowest = allowed / speed, pair
        return scale

    def blocked_by(self, arm: int, dq: Vector, ahead: Vector | None = None) -> str:
        """Return names and distance of the solids that slow a reference most; empty without any.

        Args:
            arm: Index of the arm.
            dq: Joint velocity of the reference, (n,) [rad/s].
            ahead: Reference minus measured joint positions, (n,) [rad]; None for zero.
        """
        self._slowest = None
        self.velocity_scale(arm, dq, ahead)
        pair = self._slowest
        return f"{pair} are {max(pair.distance, 0.0):.3f} m apart" if pair else ""

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add braking and repulsion of all near pairs to the torques."""
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
        for mass, state in zip(self._masses, self._everyone):
            mass.compute(state.mass_matrix)
        gradients = np.zeros((len(pairs), self._width))
        responses = np.zeros((len(pairs), self._width))
        for row, pair in enumerate(pairs):
            spared = self._arms_not_to_push(pair)
            for arm, gradient in zip(pair.arms, pair.gradients):
                if arm in spared:
                    continue
                columns = self._slices[arm]
                gradients[row, columns] = gradient
                responses[row, columns] = self._masses[arm].solve(gradient)
        depths = np.array([pair.near_distance - max(pair.distance, 0.0) for pair in pairs])
        rates, coupling = np.array([pair.rate for pair in pairs]), dot(gradients, responses.T)
        forces = push_apart(depths, rates, coupling, self._slope, self.params.damping_ratio)
        own = self._own
        if self.params.bandwidth > 0.0:
            self._add_braking_forces(pairs, gradients[:, :own], responses[:, :own], states, tau)
        for torque, columns in zip(tau, self._slices):
            add(torque, dot(forces, gradients[:, columns]), torque)

    def _arms_not_to_push(self, pair: Pair) -> tuple[int, ...]:
        # All leaders, if the pair includes a follower.
        led = self.context.leader_arms
        if led and any(arm not in led and arm < self.context.n_arms for arm in pair.arms):
            return led
        return ()

    def _leader_braking_conditions(
        self, pairs: Sequence[Pair], states: Sequence[ArmState]
    ) -> tuple[Matrix, Matrix, list[float]]:
        """Return k conditions that brake leaders while they approach a follower.

        Returns:
            Gradients of the distances, (k, joints) [m/rad], their products with the inverse
            inertia, and minimum accelerations of the distances, (k,) [m/s^2].
        """
        coming = []
        for pair in pairs:
            for arm in self._arms_not_to_push(pair):
                if arm in pair.arms and pair.near_distance > _CONTACT_DISTANCE:
                    gradient = pair.gradients[pair.arms.index(arm)]
                    speed = -float(dot(gradient, states[arm].dq))
                    if speed <= 0.0:
                        continue
                    end = min(self.params.stop_distance, pair.near_distance, pair.distance)
                    need = self._barrier.required(pair.distance, speed, end)
                    if need > float(dot(gradient, self._accelerations[self._slices[arm]])):
                        coming.append((arm, gradient, need))
        rows, answers = np.zeros((2, len(coming), self._own))
        for row, (arm, gradient, _) in enumerate(coming):
            rows[row, self._slices[arm]] = gradient
            answers[row, self._slices[arm]] = self._masses[arm].solve(gradient)
        return rows, answers, [need for _, _, need in coming]

    def _add_braking_forces(
        self,
        pairs: Sequence[Pair],
        gradients: Matrix,
        responses: Matrix,
        states: Sequence[ArmState],
        tau: Sequence[Vector],
    ) -> None:
        # ``responses`` are the gradients times the inverse inertia, (pairs, joints).
        accelerations, columns, yielded = self._accelerations, self._slices, self._yielded
        for arm, state in enumerate(states):
            yielded[columns[arm]] = self._masses[arm].solve(state.tau_ext)
            max_value, torque = self._limits[arm], tau[arm]
            minimum(torque, max_value, out=torque)
            maximum(torque, -max_value, out=torque)
            accelerations[columns[arm]] = self._masses[arm].solve(subtract(torque, state.coriolis))
        end, required = self.params.stop_distance, self._barrier.required
        needs = [
            required(pair.distance, -pair.rate, min(end, pair.near_distance))
            if pair.near_distance > _CONTACT_DISTANCE
            else -math.inf
            for pair in pairs
        ]
        if self.context.leader_arms:
            rows, answers, braked = self._leader_braking_conditions(pairs, states)
            if braked:
                gradients = np.vstack([gradients, rows])
                responses = np.vstack([responses, answers])
                needs += braked
        held_back = self._acceleration_held_by_contact(pairs, gradients[: len(pairs)])
        needs[: len(pairs)] = [need - held for need, held in zip(needs, held_back.tolist())]
        forces = settle(needs, gradients, responses, accelerations)
        if forces is not None:
            for arm, torque in enumerate(tau):
                add(torque, dot(forces, gradients[:, columns[arm]]), torque)

    def _acceleration_held_by_contact(self, pairs: Sequence[Pair], gradients: Matrix) -> Vector:
        """Return the approach acceleration that contact forces prevent, (pairs,) [m/s^2].

        Equations::

            a       = sigma_v sigma_d min(g^T M^-1 tau_ext, -g^T ddq)
            sigma_v = clip(1 + dd / v_0, 0, 1)
            sigma_d = clip((d - d_stop) / (d_0 - d_stop), 0, 1)

        - g: Gradient of the distance; M: inertia matrix; tau_ext: external joint torques [Nm].
        - ddq: Joint accelerations by the controllet [rad/s^2].
        - d, dd: Distance [m] and its rate [m/s]; d_0, d_stop: activation and stop distance [m].
        - v_0: ``_MAX_CONTACT_SPEED`` [m/s].
        """
        # At d_stop and above the speed v_0 the factors are zero, so that a wrong estimate of
        # tau_ext does not reduce the braking there.
        driven = np.maximum(-dot(gradients, self._accelerations), 0.0)
        held: Vector = np.minimum(np.maximum(dot(gradients, self._yielded), 0.0), driven)
        stop = self.params.stop_distance
        for row in held.nonzero()[0].tolist():
            pair = pairs[row]
            headroom = max(pair.distance - min(stop, pair.near_distance), 0.0)
            still = max(1.0 + min(pair.rate, 0.0) / _MAX_CONTACT_SPEED, 0.0)
            held[row] *= still * min(
                headroom / max(pair.near_distance - stop, _MIN_FADE_DISTANCE), 1.0
            )
        return held
