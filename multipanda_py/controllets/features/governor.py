# SPDX-License-Identifier: Apache-2.0
"""Reference governor: motion to the targets of a controllet within the limits of the arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.force.contact_force import ToolContact
from multipanda_py.control.reference.differential_ik import CommandedPoseGovernor
from multipanda_py.control.reference.governor_base import (
    GovernorParams,
    ReferenceGovernor,
    cycles_of,
)
from multipanda_py.control.reference.joint_governor import JointGovernor
from multipanda_py.control.reference.object_governor import ObjectGovernor
from multipanda_py.control.reference.pose_governor import PoseGovernor
from multipanda_py.controllet import Controllet
from multipanda_py.feature import Feature
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import JointTarget

BOUND_UPDATE_CYCLES = 32
"""Number of cycles between updates of the feasible bounds while a reference moves."""


class Governor(Feature[GovernorParams]):
    """Reference governor, which limits the motion of targets to what the arms can follow.

    The controllet receives a reference that moves to the target with bounded velocity,
    acceleration and jerk, without overshoot (``TrajectoryGenerator``). The acceleration bounds are
    scaled by the largest s <= 1 with::

        s |tau_i| <= sigma tau_max,i
        2 s |tau_i| / T_s <= sigma dtau_max,i

    - tau: Torques at the bounds: J^T Lambda a for a pose, the rows of M diag(a) for joints [Nm].
    - a: Acceleration bounds; M: inertia matrix; J: Jacobian; Lambda: task-space inertia.
    - tau_max, dtau_max: Limits of torque [Nm] and torque rate [Nm/s].
    - T_s: ``smoothing`` [s].
    - sigma: ``limit_scale``, the usable fraction of the limits.

    The joint speeds M^-1 J^T Lambda v at a tool speed v are limited in the same manner.

    *Obstacles.* Before an obstacle known to another feature, the reference slows down and stops
    (``velocity_scale`` of that feature), without a change of its direction.

    *Contact.* While the tool is in contact, the reference is limited to ``contact_linear_speed``
    and ``contact_angular_speed``. If the target moves faster, the limit is 1.1 times its speed.
    Contact is detected from the desired force *and* the opposing external force (``ToolContact``).
    A payload carried by a desired force looks like a contact, so set its mass in the robot
    instead.

    *Held references.* A reference that was held back during a stream of targets catches up at no
    more than 1.1 times the speed of the stream (``ReferenceCap``). Events report a reference that
    is held back for more than 0.3 s, with the reason, and its end.

    *Scope.* Every controllet for poses or configurations has the governor by default, unless it
    plans its motion itself (``plans_motion``). During streams, controllets whose target class has
    ``motion`` also receive velocity and acceleration of the reference.

    With ``response: direct``, a Cartesian impedance receives velocity and acceleration also after
    a jump of the target. The tool then arrives at the same time as the reference, but it presses
    harder on an unexpected obstacle.

    Source: Garone, Di Cairano and Kolmanovsky, Automatica 2017 (reference governors).

    Attributes:
        governed: Governor of each channel, by channel name and arm index.
    """

    Params = GovernorParams

    def __init__(self, context: Context, params: GovernorParams) -> None:
        self.governed: dict[tuple[str, int], ReferenceGovernor] = {}
        self._all: list[ReferenceGovernor] = []
        # Governors that are still moving and receive changed parameters when they are at rest.
        self._waiting: list[ReferenceGovernor] = []
        self._contacts: list[ToolContact] = []
        self._is_idle = True
        self._rotations, self._moves_object = context.rotations_base_in_world, False
        self._clock = 0
        super().__init__(context, params)

    @classmethod
    def is_implicit_for(cls, controllet_class: type[Controllet[Any, Any]]) -> bool:
        """Return True if a controllet of this class has the governor by default."""
        governed = {"pose", "joint", "object"}
        return not controllet_class.plans_motion and not governed.isdisjoint(
            controllet_class.Target.channels
        )

    def on_parameters(self) -> None:
        """Set the bounds of all references, also while they move."""
        self._rate_cycles = cycles_of(self.params.rate_timeout, self.context.period)
        for channel in self._all:
            channel.apply_parameters(self.params, self.context.period)
        self._waiting = [channel for channel in self._all if channel.is_moving]

    def _apply_waiting_parameters(self) -> None:
        for channel in self._waiting:
            if not channel.is_moving:
                channel.apply_parameters(self.params, self.context.period)
        self._waiting = [channel for channel in self._waiting if channel.is_moving]

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Start every reference at the target of the controllet, with the measured velocity."""
        self._start(states, target, False)

    def on_enable(self, states: Sequence[ArmState], target: Any) -> None:
        """Start every reference at rest, at the current target of the controllet."""
        self._start(states, target, True)

    def _start(self, states: Sequence[ArmState], target: Any, at_rest: bool) -> None:
        if not self._all:
            self._create_governors(states, target)
        self._clock, self._waiting = 0, []
        for contact in self._contacts:
            contact.reset()
        for channel in self._all:
            channel.forget()  # Discard the last motion, whose bounds must not limit the next one.
            channel.start(self.params, self.context.period, at_rest)

    def _create_governors(self, states: Sequence[ArmState], target: Any) -> None:
        data, channels = target.data, self.governed
        motions = getattr(target, "motion", None)
        kind = CommandedPoseGovernor if getattr(target, "is_commanded", False) else PoseGovernor
        for index, state in enumerate(states):
            if "pose" in data:
                motion = None if motions is None else motions[index]
                channels["pose", index] = kind(data["pose"][index], motion, state, index)
            if "joint" in data:
                joints = target if isinstance(target, JointTarget) else None
                record = data["joint"][index]
                channels["joint", index] = JointGovernor(record, state, joints, index)
        if "object" in data:
            self._moves_object = True
            channels["object", 0] = ObjectGovernor(data["object"][0], self.context, states)
        self._all = list(channels.values())
        self._attach_contact_detection(target)
        for channel in self._all:
            channel.pacers = self.reference_limiters

    def _attach_contact_detection(self, target: Any) -> None:
        context = self.context
        wrenches = target.data.get("wrench", ())
        of_arms = [ToolContact(context.period) for _ in wrenches]
        of_all = ToolContact(context.period)
        self._contacts = [*of_arms, of_all] if of_arms else []
        for (kind, index), channel in self.governed.items():
            is_configuration = kind == "joint" and not isinstance(target, JointTarget)
            if kind == "object":
                name, contact = "object", of_all if of_arms else None
            else:
                name = context.arms[index].name
                contact = of_arms[index] if of_arms and not is_configuration else None
            channel.attach(context, name, contact)

    def _end_idle_state(self) -> None:
        self._is_idle = False
        for channel in self._all:
            channel.skip()
        for contact in self._contacts:
            contact.pause()

    def _update_contact_detection(
        self, states: Sequence[ArmState], wrenches: Sequence[Vector]
    ) -> None:
        for state, wrench, contact in zip(states, wrenches, self._contacts):
            requested = wrench[:3].tolist()
            if contact.is_on or any(requested):
                contact.update(requested, state.wrench_ext_in_base[:3].tolist())
        if self._moves_object:
            forces, reactions = np.zeros((2, 3))
            for state, wrench, rotation in zip(states, wrenches, self._rotations):
                forces += rotation.dot(wrench[:3])
                reactions += rotation.dot(state.wrench_ext_in_base[:3])
            self._contacts[-1].update(forces.tolist(), reactions.tolist())

    def on_target(self, channel: str, arm_index: int, target: Any) -> None:
        """Pass a target to its governor. A target velocity expires after ``rate_timeout``."""
        if self._is_idle:
            self._end_idle_state()
        if (governor := self.governed.get((channel, arm_index))) is not None:
            governor.record_target()
        if channel == "joint":
            rate = target.data["joint"][arm_index][target.joints[arm_index] :]
            self.governed["joint", arm_index].renew(rate.copy(), self._rate_cycles)
        elif channel == "twist":
            self.governed["pose", arm_index].renew(
                target.data["twist"][arm_index], self._rate_cycles
            )

    def prepare(self, states: Sequence[ArmState], target: Any, period: float) -> None:
        """Move every reference towards its target, and write it to ``target``."""
        self._clock = clock = self._clock - 1 if self._clock else BOUND_UPDATE_CYCLES
        if self._is_idle:
            self._end_idle_state()
        if self._contacts:
            self._update_contact_detection(states, target.data["wrench"])
        presses = is_busy = False
        for contact in self._contacts:
            if contact.is_on:
                presses = True
        for channel in self._all:
            if not clock:
                channel.check()
            if channel.target_changed():
                was_busy = channel.busy
                channel.set_goal()
                if not was_busy:
                    channel.update_bounds()
            elif not channel.busy:
                if channel.held.cycles:
                    channel.report_held()
                continue
            if not clock:
                channel.update_bounds()
            channel.advance(period)
            if presses or channel.is_limited or channel.held.cycles:
                channel.report_held()
            if channel.busy:
                is_busy = True
        if self._waiting:
            self._apply_waiting_parameters()
        self._is_idle = not (is_busy or any(channel.may_move for channel in self._all))

    @property
    def idle(self) -> bool:
        """True if ``prepare`` has no effect before the next target."""
        return self._is_idle

    @property
    def settled(self) -> bool:
        """True if all references have arrived at their targets."""
        return not any(channel.busy for channel in self._all)
