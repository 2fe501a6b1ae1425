# SPDX-License-Identifier: Apache-2.0
"""Let targets move no faster than torques can follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.force.contact_force import ToolContact
from multipanda_py.control.reference.governor import GovernedChannel, GovernorParams, cycles_of
from multipanda_py.control.reference.governor_commanded_pose import GovernedCommandedPose
from multipanda_py.control.reference.governor_joints import GovernedJoints
from multipanda_py.control.reference.governor_object import GovernedObject
from multipanda_py.control.reference.governor_pose import GovernedPose
from multipanda_py.controllet import Controllet
from multipanda_py.feature import Feature
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import JointTarget

CHECK_CYCLES = 32
"""Cycles between two looks at what the posture allows, while a reference moves."""


class Governor(Feature[GovernorParams]):
    r"""Shape the targets of a law by what its arms can follow.

    The law sees a reference that moves towards what was asked for with bounded velocity,
    acceleration and jerk, does not pass it, and ends on it exactly
    (:class:`.Tracker`). An arm that follows it takes the torque
    :math:`\tau = M \ddot q_r`, so while it moves its acceleration bounds are scaled by the
    largest :math:`s \le 1` with

    .. math::
        s\, |\tau_i| \le \sigma\, \tau_{max,i}, \qquad
        2 s\, |\tau_i| / T_s \le \sigma\, \dot\tau_{max,i}

    for the torques at the bounds, :math:`J^T \Lambda a` for a pose and the rows of
    :math:`M\, diag(a)` for joints, the smoothing time :math:`T_s` and the share :math:`\sigma`;
    the speed of a pose likewise by the joint speeds :math:`M^{-1} J^T \Lambda v`. Torques then
    change because the reference does, and not by what the rate limit lets through, which turns
    a stiff spring into a limit cycle.

    Where the way leads into an obstacle that another feature knows of, the reference slows down
    and stops in front of it, as far as those features' ``pace`` asks for. The direction of
    its motion stays, and a goal elsewhere is headed for at once.

    While the tool is in contact, the reference moves at ``contact_speed`` and
    ``contact_turn_speed`` at most, or 1.1 times as fast as its target moved in the last second. A
    target that jumps does not throw the tool across a surface, and a stream wipes at its own
    speed. Contact is estimated from the requested force *and* the external force against it
    (:class:`.ToolContact`), so an unknown payload or a biased
    sensor slows nothing. A tool that presses by its spring alone is not bounded. A payload that a
    requested force carries looks like a contact: set its mass in the robot instead.

    A reference that was held back while a stream went on follows again at 1.1 times the speed of
    that stream at most (:class:`.ReferenceCap`). A
    reference that is held back for more than 0.3 s is reported as an event with the reason, such
    as a pair of bodies and their distance. A second event reports that it follows again.

    It stands in front of every law that takes poses or postures and does not plan its motion
    itself, whatever features the cell file names. It begins with the measured velocity, so that
    an arm taken over in motion brakes within the bounds. Laws whose targets have ``motion`` are
    given the reference's velocity and acceleration in streams.

    With ``response: direct`` a Cartesian impedance also receives those of the path to a target
    that has jumped. Joints then use 0.35 of their speed limits at most. The tool arrives with the
    reference instead of after it. On an obstacle it presses with the torques of that motion as
    well. They fade out as the error grows from 50 % to 100 % of ``error_clip``.

    Source of the idea of reference governors: Garone, Di Cairano and Kolmanovsky, Automatica 2017.

    Attributes:
        governed: Shaped references by channel and arm.
    """

    Params = GovernorParams

    def __init__(self, context: Context, params: GovernorParams) -> None:
        self.governed: dict[tuple[str, int], GovernedChannel] = {}
        self._all: list[GovernedChannel] = []
        self._waiting: list[GovernedChannel] = []  # for their rest, to take new parameters over
        self._contacts: list[ToolContact] = []
        self._is_idle = True
        self._turns, self._moves_object = context.rotations_base_in_world, False
        self._clock = 0
        super().__init__(context, params)

    @classmethod
    def stands_before(cls, law: type[Controllet[Any, Any]]) -> bool:
        """Whether the targets of a law are governed."""
        governed = {"pose", "joint", "object"}
        return not law.plans_motion and not governed.isdisjoint(law.Target.channels)

    def on_parameters(self) -> None:
        """Hand the bounds over; a motion under way goes on with them."""
        self._rate_cycles = cycles_of(self.params.rate_timeout, self.context.period)
        for channel in self._all:
            channel.take(self.params, self.context.period)
        self._waiting = [channel for channel in self._all if channel.is_moving]

    def _take_waiting(self) -> None:
        """Let references that have come to rest take over what they could not in motion."""
        for channel in self._waiting:
            if not channel.is_moving:
                channel.take(self.params, self.context.period)
        self._waiting = [channel for channel in self._waiting if channel.is_moving]

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Begin where the law begins, with the measured velocity."""
        self._start(states, target, False)

    def on_enable(self, states: Sequence[ArmState], target: Any) -> None:
        """Begin at rest at what the law has seen until now: what was asked for."""
        self._start(states, target, True)

    def _start(self, states: Sequence[ArmState], target: Any, at_rest: bool) -> None:
        if not self._all:
            self._find_channels(states, target)
        self._clock, self._waiting = 0, []
        for contact in self._contacts:
            contact.reset()
        for channel in self._all:
            channel.forget()  # or a motion under way would bound the next one
            channel.start(self.params, self.context.period, at_rest)

    def _find_channels(self, states: Sequence[ArmState], target: Any) -> None:
        """Bind the records to shape; they stay where they are."""
        data, channels = target.data, self.governed
        motions = getattr(target, "motion", None)
        kind = GovernedCommandedPose if getattr(target, "is_commanded", False) else GovernedPose
        for place, state in enumerate(states):
            if "pose" in data:
                motion = None if motions is None else motions[place]
                channels["pose", place] = kind(data["pose"][place], motion, state, place)
            if "joint" in data:
                joints = target if isinstance(target, JointTarget) else None
                record = data["joint"][place]
                channels["joint", place] = GovernedJoints(record, state, joints, place)
        if "object" in data:
            self._moves_object = True
            channels["object", 0] = GovernedObject(data["object"][0], self.context, states)
        self._all = list(channels.values())
        self._attach(target)
        for channel in self._all:
            channel.pacers = self.pacers

    def _attach(self, target: Any) -> None:
        """Give every channel a reporter, and the contact estimate of its tool."""
        context = self.context
        wrenches = target.data.get("wrench", ())
        of_arms = [ToolContact(context.period) for _ in wrenches]
        of_all = ToolContact(context.period)
        self._contacts = [*of_arms, of_all] if of_arms else []
        for (kind, place), channel in self.governed.items():
            is_posture = kind == "joint" and not isinstance(target, JointTarget)
            if kind == "object":
                name, contact = "object", of_all if of_arms else None
            else:
                name = context.arms[place].name
                contact = of_arms[place] if of_arms and not is_posture else None
            channel.attach(context, name, contact)

    def _wake(self) -> None:
        """After idle cycles, account for them in the channels and contact estimates."""
        self._is_idle = False
        for channel in self._all:
            channel.skip()
        for contact in self._contacts:
            contact.pause()

    def _estimate(self, states: Sequence[ArmState], wrenches: Sequence[Vector]) -> None:
        """Update the contact estimates of all arms, and of the object that they move together."""
        for state, wrench, contact in zip(states, wrenches, self._contacts):
            requested = wrench[:3].tolist()
            if contact.is_on or any(requested):
                contact.update(requested, state.wrench_ext_in_base[:3].tolist())
        if self._moves_object:
            forces, reactions = np.zeros((2, 3))
            for state, wrench, turn in zip(states, wrenches, self._turns):
                forces += turn.dot(wrench[:3])
                reactions += turn.dot(state.wrench_ext_in_base[:3])
            self._contacts[-1].update(forces.tolist(), reactions.tolist())

    def on_target(self, channel: str, place: int, target: Any) -> None:
        """Note a velocity of the goal, which counts for a while."""
        if self._is_idle:
            self._wake()
        if (given := self.governed.get((channel, place))) is not None:
            given.give()
        if channel == "joint":
            rate = target.data["joint"][place][target.joints[place] :]
            self.governed["joint", place].renew(rate.copy(), self._rate_cycles)
        elif channel == "twist":
            self.governed["pose", place].renew(target.data["twist"][place], self._rate_cycles)

    def prepare(self, states: Sequence[ArmState], target: Any, period: float) -> None:
        """Move every reference on towards what the target holds, and write it there."""
        self._clock = clock = self._clock - 1 if self._clock else CHECK_CYCLES
        if self._is_idle:
            self._wake()
        if self._contacts:
            self._estimate(states, target.data["wrench"])
        presses = is_busy = False
        for contact in self._contacts:
            if contact.is_on:
                presses = True
        for channel in self._all:
            if not clock:
                channel.check()
            if channel.has_news():
                was_busy = channel.busy
                channel.aim()
                if not was_busy:
                    channel.look()
            elif not channel.busy:
                if channel.held.cycles:
                    channel.watch()
                continue
            if not clock:
                channel.look()
            channel.advance(period)
            if presses or channel.is_limited or channel.held.cycles:
                channel.watch()
            if channel.busy:
                is_busy = True
        if self._waiting:
            self._take_waiting()
        self._is_idle = not (is_busy or any(channel.is_watching for channel in self._all))

    @property
    def idle(self) -> bool:
        """Whether every reference has arrived, and none is tied to the arm."""
        return self._is_idle

    @property
    def settled(self) -> bool:
        """Whether the law sees what was asked for, so that shaping can end without a step."""
        return not any(channel.busy for channel in self._all)
