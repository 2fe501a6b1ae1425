# SPDX-License-Identifier: Apache-2.0
"""Desired configuration in the nullspace of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add

from multipanda_py.context import MAX_JOINT_ERROR, BumplessTransfer, Context
from multipanda_py.control.impedance.free_motion import ShiftedConfiguration, regular_motion
from multipanda_py.control.impedance.joint_spring import (
    PROJECTORS,
    ConfigurationSpring,
    missing_nullspace_warnings,
)
from multipanda_py.control.impedance.modal_damping import MIN_DAMPING_RATIO
from multipanda_py.control.impedance.nullspace_tank import NullspaceTank
from multipanda_py.feature import Feature
from multipanda_py.parameters import JointVector, choice, joint_vector, number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import CartesianTarget

ENERGY_CYCLES = 8
"""Number of cycles between two updates of the energy tanks."""
MIN_STIFFNESS = 0.1
"""Joint stiffness below which a joint takes over no torque at a switch [Nm/rad]."""


@dataclass(frozen=True, eq=False)
class NullspaceParams:
    """Parameters of ``Nullspace``: gains, projector and torque bound."""

    stiffness: JointVector = joint_vector(
        "posture_stiffness", unit="Nm/rad", low=0, high=100,
        doc="stiffness towards the desired configuration",
    )  # fmt: skip
    damping_ratio: JointVector = joint_vector(
        1.0, low=MIN_DAMPING_RATIO, high=5,
        doc="damping ratio for 1 kg m^2; the damping is limited to 12 Nm s/rad, to 3.4 without a "
        "projector, and to less for light rotors",
    )  # fmt: skip
    projector: str = choice(
        "dynamic", options=PROJECTORS,
        doc="quantity of the tool that the torques do not affect: acceleration (dynamic), static "
        "wrench (kinematic), or none (no projection)",
    )  # fmt: skip
    max_torque: JointVector = joint_vector(
        "lacking_torque", unit="Nm", low=0, high=100, doc="torque bound before the projection"
    )
    velocity_timeout: float = number(
        0.1, unit="s", low=0.001, high=10,
        doc="time without a new target after which the target velocity counts as zero",
    )  # fmt: skip


def _reference(target: CartesianTarget, arm: int) -> Vector | None:
    """Return the reference pose of an arm or of its object, (12,); None if there is no pose."""
    records = target.data.get("pose") or target.data.get("object")
    return None if records is None else records[arm if len(records) > 1 else 0]


class Nullspace(Feature[NullspaceParams]):
    """Joint spring towards a desired configuration, in the nullspace of the tool.

    Equations::

        tau   = N tau_0
        tau_0 = clamp(K_n (q_n - q) + 2 Z_n K_n^1/2 (dq_n - dq), -tau_max, tau_max)

    - tau: Joint torques, (n,) [Nm].
    - N: Projector of ``NullspaceProjector``, by default the dynamically consistent one, (n, n).
    - K_n: Diagonal stiffness, (n, n) [Nm/rad]; Z_n: damping ratios.
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_n, dq_n: Desired configuration and its velocity, (n,).
    - tau_max: ``max_torque``, (n,) [Nm].

    ``ConfigurationSpring`` computes the torque. If a direction of the tool has no stiffness
    (``Controllet.is_free``), the desired configuration follows the motion along this direction
    (``ShiftedConfiguration``). It also follows tool motion that the reference does not cause, once
    this motion has deflected the spring by 2 J (``NullspaceTank``). The spring thus stays passive.
    A target may contain the velocity dq_n, which the client must renew within
    ``velocity_timeout``.

    Sources: Khatib 1987; paper on the CRISP controllers, section III, equation 7. The default of
    ``max_torque`` is that of CRISP.
    """

    Params = NullspaceParams
    requires = ("nullspace_configuration",)
    reads = ("joint",)

    def __init__(self, context: Context, params: NullspaceParams) -> None:
        self._springs = [ConfigurationSpring(arm.robot) for arm in context.arms]
        self._guided = [ShiftedConfiguration(n, context.period) for n in context.joints]
        self._tanks = [NullspaceTank(ENERGY_CYCLES * context.period) for _ in context.arms]
        self._cycles = 0
        self._velocities = context.joint_zeros()
        self._left, self._free = [0] * context.n_arms, [False] * context.n_arms
        self._unsaid: list[str] = []
        self._idle_arms = tuple(missing_nullspace_warnings(context, "nullspace"))
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the gains of the springs."""
        p, per_arm = self.params, self.context.per_arm
        stiffness = per_arm(p.stiffness)
        # ``on_transfer`` divides torques by these values. For a joint without stiffness, infinity
        # yields a deflection of zero.
        self._presses = [np.where(own < MIN_STIFFNESS, np.inf, own) for own in stiffness]
        gains = zip(stiffness, per_arm(p.damping_ratio), per_arm(p.max_torque))
        for spring, own in zip(self._springs, gains):
            spring.set_gains(*own, p.projector)

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Discard earlier target velocities, and queue warnings about arms without nullspace."""
        self._left = [0] * len(states)
        if self.controllet is not None:
            self._free = self.controllet.is_free
        for guided, tank in zip(self._guided, self._tanks):
            guided.reset()
            tank.reset()
        self._unsaid = list(self._idle_arms)

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: CartesianTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> None:
        """Displace the desired configurations, so that nullspace torques continue at a switch."""
        for configuration, state, handover, presses in zip(
            target.nullspace_configuration, states, transfers, self._presses
        ):
            step = handover.tau - handover.wrench_in_base.dot(state.jacobian)
            step /= presses
            farthest = max(map(abs, step.tolist()))
            if farthest > MAX_JOINT_ERROR:
                step /= farthest / MAX_JOINT_ERROR
            configuration += step

    def on_target(self, channel: str, arm_index: int, target: CartesianTarget) -> None:
        """Store the velocity of a target, and restart its timeout."""
        if channel == "joint":
            self._velocities[arm_index] = target.data["joint"][arm_index][
                target.joints[arm_index] :
            ]
            moves = bool(self._velocities[arm_index].any())
            timeout = self.params.velocity_timeout
            self._left[arm_index] = round(timeout / self.context.period) if moves else 0

    def add(
        self,
        states: Sequence[ArmState],
        target: CartesianTarget,
        tau: Sequence[Vector],
        period: float,
    ) -> None:
        """Add the projected torques of all arms."""
        if self._unsaid:
            self._notify_of_missing_nullspace()
        updates_tank = self._updates_tank()
        for arm, state in enumerate(states):
            torque, spring = tau[arm], self._springs[arm]
            spring_torque = self._spring_torque(arm, state, target)
            if updates_tank:
                self._project(arm, state, target, spring_torque)
            elif spring.project is not None:
                spring.project(state, spring_torque)
            add(torque, spring_torque, torque)

    @property
    def is_projected(self) -> bool:
        """True if the torques are projected into the dynamically consistent nullspace."""
        return self.params.projector == "dynamic"

    def before_projection(
        self, states: Sequence[ArmState], target: CartesianTarget
    ) -> list[Vector | None]:
        """Return the torques of all arms before the projection, (n,) each [Nm]."""
        if self._unsaid:
            self._notify_of_missing_nullspace()
        torques: list[Vector | None] = [
            self._spring_torque(arm, state, target) for arm, state in enumerate(states)
        ]
        if self._updates_tank():
            for arm, (state, torque) in enumerate(zip(states, torques)):
                if torque is not None:
                    self._project(arm, state, target, torque.copy())
        return torques

    def _updates_tank(self) -> bool:
        """Count cycles; return True every ``ENERGY_CYCLES`` cycles."""
        self._cycles = (self._cycles + 1) % ENERGY_CYCLES
        return self._cycles == 0

    def _project(self, arm: int, state: ArmState, target: CartesianTarget, torque: Vector) -> None:
        """Project the torques of an arm in place, and account for the work of the projection."""
        spring, shifted = self._springs[arm], self._guided[arm]
        if spring.project is None:
            return
        shifting = float(torque.dot(shifted.step_taken)) if shifted.is_shifted else 0.0
        spring.project(state, torque)
        removed = float(spring.projector.wrench.dot(state.twist_ee_in_base))
        work = ENERGY_CYCLES * (self.context.period * removed - shifting)
        self._tanks[arm].update(_reference(target, arm), work)

    def _spring_torque(self, arm: int, state: ArmState, target: CartesianTarget) -> Vector:
        """Return the torques of an arm before the projection, (n,) [Nm]."""
        velocity = self._next_velocity(arm) if self._left[arm] else None
        configuration, spring = target.nullspace_configuration[arm], self._springs[arm]
        if self._free[arm] or self._guided[arm].is_shifted or self._tanks[arm].followed > 0.0:
            configuration, velocity = self._shifted_configuration(
                arm, state, configuration, velocity
            )
        return spring.apply(state, configuration, velocity)

    def _shifted_configuration(
        self, arm: int, state: ArmState, configuration: Vector, velocity: Vector | None
    ) -> tuple[Vector, Vector | None]:
        free, spring, followed = None, self._springs[arm], self._tanks[arm].followed
        if spring.project is None:
            return self._guided[arm].step(state, None, configuration, velocity)
        if self.controllet is not None and self._free[arm]:
            free = spring.orthogonal_motion(state, self.controllet.free_velocity(arm, state))
        if followed > 0.0:
            twist = state.twist_ee_in_base
            if free is not None:
                twist = twist - state.jacobian.dot(free)
            moved = followed * spring.orthogonal_motion(state, regular_motion(state, twist))
            free = moved if free is None else free + moved
        return self._guided[arm].step(state, free, configuration, velocity, 1.0 - followed)

    def _next_velocity(self, arm: int) -> Vector:
        self._left[arm] -= 1
        return self._velocities[arm]

    def _notify_of_missing_nullspace(self) -> None:
        if self.params.projector != "none":
            self.context.notify(self._unsaid.pop())
