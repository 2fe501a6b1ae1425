# SPDX-License-Identifier: Apache-2.0
"""Targets on their way to the controllets of a running cell."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from multipanda_py.cell import goals as gate
from multipanda_py.cell.commanded_motions import OTHER, GivenMotions
from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.controllets.targets.joint import TRAJECTORY, Trajectory
from multipanda_py.exceptions import TargetRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.robots.actuated_joints import ALIASES
from multipanda_py.robots.dynamics.arm_model import ToolJacobian
from multipanda_py.state import ArmSnapshot, Vector
from multipanda_py.targets import Asked, AskedOfArm, Stream


def refuse_unused(
    spec: InstanceSpec, channel: str, parameters: Callable[[str], Mapping[str, Any]]
) -> None:
    """Refuse a target that is for features only, if the instance has none of them switched on.

    Args:
        spec: The active instance.
        channel: One of its channels, by name.
        parameters: Returns those of an instance by name.

    Raises:
        TargetRejected: If nobody would read it.
    """
    if channel in spec.own_channels:
        return
    readers = [
        name
        for name, feature in spec.features.items()
        if channel in feature.reads or channel in {str(brought) for brought in feature.channels}
    ]
    values = parameters(spec.name)
    if not any(values[f"{name}.enabled"] for name in readers):
        off = " and ".join(f"{name}.enabled is false" for name in readers)
        raise TargetRejected(
            f"{spec.name}: {channel}: got a target, allowed none: only a feature would use it; "
            f"{off or 'this controllet has no such feature'}"
        )


class _Record(NamedTuple):
    channel: str
    place: int
    values: Vector


class TargetWriter:
    """Check targets and hand them to the loop; a refusal changes nothing.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        reader: Of its states.
        counts: Where refusals go.
        parameters: Returns those of an instance by name.
        at_rest: Returns where springs of an arm would be at rest, (m,) [rad].

    Attributes:
        frames: The frames that targets may be given in.
        motions: Which motions arms were told last.
    """

    def __init__(
        self,
        names: CellNames,
        connection: Connection,
        reader: StateReader,
        counts: Counts,
        parameters: Callable[[str], Mapping[str, Any]],
        at_rest: Callable[[str], Vector],
    ) -> None:
        self._names, self._connection, self._at_rest = names, connection, at_rest
        self._reader, self._counts, self._parameters = reader, counts, parameters
        self.frames = gate.Frames(names.config)
        self._gate = names.config.gate.limits()
        self.motions = GivenMotions(connection, lambda: reader.time, names.config.cell.rate)
        self._tools: dict[str, ToolJacobian] = {}
        self._streams: dict[tuple[str, str], Stream] = {}
        self._given: dict[tuple[int, str, int], tuple[int, Vector]] = {}

    def set_target(
        self,
        arm: str,
        pose: Pose | None = None,
        *,
        frame: str = "",
        q: ArrayLike | None = None,
        dq: ArrayLike | None = None,
        twist: ArrayLike | None = None,
        wrench: ArrayLike | None = None,
        stiffness: ArrayLike | None = None,
    ) -> None:
        """Give the controllet that owns an arm new targets for it, all in one cycle.

        Args:
            arm: The arm.
            pose: Pose of the tool in ``frame``.
            frame: ``world`` or an arm's base; by default the base of this arm. Pose, twist and
                wrench are along its axes.
            q: Joint positions, (n,) [rad]: the target of a joint law, the preferred posture
                of a Cartesian one.
            dq: Joint velocities, (n,) [rad/s]. A law that moves at velocities takes these alone,
                one that plans its motions to positions takes none but zero.
            twist: Linear and angular velocity of the tool, (6,) [m/s, rad/s].
            wrench: Force and torque that the tool is to exert, (6,) [N, Nm].
            stiffness: Six diagonal elements or a positive semidefinite (6, 6) matrix.

        Raises:
            TargetRejected: If one is not acceptable; the arm keeps what it has.
        """
        joint = None if q is None and dq is None else (q, dq)
        values = {"pose": pose, "joint": joint, "twist": twist, "wrench": wrench}
        self._give_arm(arm, _given({**values, "stiffness": stiffness}), frame)

    def follow(
        self,
        arm: str,
        points: ArrayLike,
        *,
        path_tolerance: ArrayLike | None = None,
        goal_tolerance: ArrayLike | None = None,
        goal_time: float | None = None,
        start: float | None = None,
    ) -> None:
        """Give the controllet that owns an arm a trajectory, which starts now or later.

        Args:
            arm: The arm.
            points: One row per point, (p, 1 + 3 n): time from the start [s], positions, velocities
                and accelerations, as :func:`.complete` returns them;
                a row that comes at once should be near the measured posture, and the last one
                at rest. None at all (``[]``) ask for a smooth stop.
            path_tolerance: Largest error on the way, (n,) or one number [rad]; by default, and
                where it is 0, the controllet's parameter; negative for none.
            goal_tolerance: Largest error at the end, likewise.
            goal_time: Time after the end to come within that [s], likewise.
            start: Time of the controlled world, as in :attr:`.ArmSnapshot.time`, at which it
                begins [s]: arms that are given one start in one cycle. A newer target takes its
                place until then. By default, and if it is past, at once.

        Raises:
            TargetRejected: If it is not acceptable; the arm keeps what it has.
        """
        asked_for = Trajectory(points, path_tolerance, goal_tolerance, goal_time, start)
        self._give_arm(arm, {"trajectory": asked_for})

    def follow_together(self, name: str, trajectories: Mapping[str, Trajectory]) -> None:
        """Give every arm of a controllet a trajectory; all begin in one cycle, or none does.

        Args:
            name: The controllet, which has to be active.
            trajectories: By arm, each as for :meth:`follow`. No points at all ask for a stop.

        Raises:
            TargetRejected: If one is not acceptable; every arm keeps what it has.
        """
        try:
            spec = self._names.spec(name)
            self._refuse_if_silent(name)
            if not self._connection.mailbox.active[spec.index]:
                raise TargetRejected(f"{name}: is not active; switch to it first")
            arms = spec.config.arms
            if set(trajectories) != set(arms):
                raise TargetRejected(
                    f"{name}: trajectories: got {', '.join(trajectories) or 'none'}, allowed one "
                    f"for each of {', '.join(arms)}"
                )
            now = self._reader.state(arms[0]).time
            start = max(now, *(one.start or 0.0 for one in trajectories.values()))
            records = [
                self._records(spec, spec.config.arms.index(arm), {TRAJECTORY.name: one}, asked)
                for arm in arms
                for asked in [self._asked(arm, spec)]
                for one in [trajectories[arm]._replace(start=start, together=len(arms))]
            ]
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{name} target"] += 1
            raise
        self._write(spec, list(itertools.chain.from_iterable(records)))

    def set_object_target(
        self, name: str, pose: Pose | None = None, *, squeeze: float | None = None, frame: str = ""
    ) -> None:
        """Give a coupled controllet a target for the object that its arms hold.

        Args:
            name: The controllet.
            pose: Pose of the object in ``frame``.
            frame: ``world``, which is the default, or an arm's base.
            squeeze: Force with which the arms press it between them [N].

        Raises:
            TargetRejected: If it is not acceptable; the controllet keeps what it has.
        """
        self._give_controllet(name, _given({"object": pose, "squeeze": squeeze}), frame)

    def command_actuators(self, arm: str, **commands: Any) -> None:
        """Command springs and motors of an arm whose controllet does that, all in one cycle.

        Args:
            arm: The arm.
            commands: By name, of :data:`.COMMAND_CHANNELS` and their other names, and
                ``external_torque``: one number for all joints with compliant actuators, one for
                each, or some of them by the joint's name [rad, m, Nm].

        Raises:
            TargetRejected: If there is none, one is not acceptable, or its joint's mode does not
                take it; the arm keeps what it has.
        """
        if not commands:
            self._counts.rejected[f"{arm} target"] += 1
            raise TargetRejected(f"{arm}: got no command, allowed one or more")
        self._give_arm(arm, {ALIASES.get(name, name): value for name, value in commands.items()})

    def set_channel(self, who: str, channel: str, value: Any, *, frame: str = "") -> None:
        """Give a law a target by any channel, also one that a plug-in has brought.

        Args:
            who: The arm, or the controllet if the channel is shared by its arms.
            channel: Name of the channel.
            value: What its check takes; by default its numbers.
            frame: As for :meth:`set_target`, for checks that know frames.

        Raises:
            TargetRejected: If it is not acceptable; the law keeps what it has.
        """
        give = self._give_arm if who in self._names.arms else self._give_controllet
        give(who, {channel: value}, frame)

    def _give_arm(self, arm: str, values: Mapping[str, Any], frame: str = "") -> None:
        """Check values for channels of one arm, and post them together."""
        try:
            self._names.arm_index(arm)
            self._refuse_if_silent(arm)
            spec = self._owner(arm)
            asked = self._asked(arm, spec, frame)
            records = self._records(spec, spec.config.arms.index(arm), values, asked)
            leaning = not values.keys().isdisjoint(spec.law.Target.leaning)
            self._write(spec, records, asked.far if leaning else None)
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{arm} target"] += 1
            raise

    def _asked(self, arm: str, spec: InstanceSpec, frame: str = "") -> AskedOfArm:
        state = self._reader.state(arm)
        return AskedOfArm(
            arm,
            self._gate,
            self.frames.base_from(frame, arm),
            partial(self._reader.report, spec.name),
            state,
            self._names.limits(arm),
            self._far_channels(spec),
            partial(self._stream, spec, state),
            spec.law.Target.joint_parts,
            lambda: self._tool(arm).at(state.q),
            self._names.descriptions[arm].actuated,
            partial(self._at_rest, arm),
            partial(self._parameters, spec.name),
            partial(self._last_given, spec, spec.config.arms.index(arm)),
        )

    def _last_given(self, spec: InstanceSpec, place: int, channel: str) -> Vector | None:
        beginning, record = self._given.get((spec.index, channel, place), (0, None))
        return record if beginning == self._connection.mailbox.beginnings[spec.index] else None

    def forget(self, name: str) -> None:
        """Begin anew with commands of some joints of an arm, which add up while a law is active.

        Args:
            name: The controllet, which has other parameters now.
        """
        index = self._names.spec(name).index
        for key in [key for key in self._given if key[0] == index]:
            del self._given[key]

    def _far_channels(self, spec: InstanceSpec) -> tuple[str, ...]:
        """Return those whose targets may be far from the measured state, as of now."""
        leaning = spec.law.Target.leaning
        if not (leaning and self._parameters(spec.name).get("governor.enabled")):
            return spec.far_channels
        return (*spec.far_channels, *leaning)

    def _give_controllet(self, name: str, values: Mapping[str, Any], frame: str = "") -> None:
        """Check values for channels of a whole controllet, and post them together."""
        try:
            spec = self._names.spec(name)
            self._refuse_if_silent(name)
            if not self._connection.mailbox.active[spec.index]:
                raise TargetRejected(f"{name}: is not active; switch to it first")
            asked = Asked(
                name,
                self._gate,
                self.frames.world_from(frame),
                partial(self._reader.report, name),
            )
            records = self._records(spec, None, values, asked)
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{name} target"] += 1
            raise
        self._write(spec, records)

    def _stream(self, spec: InstanceSpec, state: ArmSnapshot, channel: str) -> Stream:
        arm, is_stepped = state.name, self._names.config.cell.placement == "inline"
        stream = self._streams.get((arm, channel))
        if stream is None:
            stream = Stream(f"{arm} {channel}", self._counts.clipped)
            self._streams[arm, channel] = stream
        beginning = self._connection.mailbox.beginnings[spec.index]
        return stream.of(spec.name, beginning, state.time if is_stepped else time.monotonic())

    def _refuse_if_silent(self, who: str) -> None:
        """Refuse what a loop that stands still would do when it goes on, seconds late."""
        if reason := self._reader.silence_reason():
            raise TargetRejected(f"{who}: {reason}")

    def _tool(self, arm: str) -> ToolJacobian:
        """Return what knows the tool's Jacobian; made when first asked for, in 20 ms."""
        if arm not in self._tools:
            self._tools[arm] = ToolJacobian(describe_arm(arm, self._names.arm_config(arm)))
        return self._tools[arm]

    def _owner(self, arm: str) -> InstanceSpec:
        flags, specs = self._connection.mailbox.active, self._names.specs_of(arm)
        for spec in specs:
            if flags[spec.index]:
                return spec
        return specs[0]  # hold, for whom every arm is that nobody has

    def _records(
        self, spec: InstanceSpec, place: int | None, values: Mapping[str, Any], asked: Asked
    ) -> list[_Record]:
        """Check everything, and return what goes to the loop; ``place`` is None for all arms."""
        records = []
        for name, value in values.items():
            channel = spec.channel_table.get(name)
            if channel is None:
                takes = ", ".join(spec.channels) or "no target"
                raise TargetRejected(
                    f"{spec.name} takes {takes}, got {name}; switch the controllet first"
                )
            refuse_unused(spec, name, self._parameters)
            if channel.shared != (place is None):
                whose = f"the controllet {spec.name}" if channel.shared else "one of its arms"
                raise TargetRejected(f"{asked.who}: {name} is asked of {whose}")
            records.append(_Record(name, place or 0, channel.record(value, asked)))
        return records

    def _write(
        self,
        spec: InstanceSpec,
        records: Sequence[_Record],
        far: tuple[str, ...] | None = None,
    ) -> None:
        """Hand records over in one go, unless others may be ``far`` by now than when checked."""
        with self._connection.lock:
            if far is not None and far != self._far_channels(spec):
                raise TargetRejected(
                    f"{spec.name}: governor.enabled changed while the target was checked; "
                    "give it again"
                )
            box = self._connection.mailbox
            slots = box.targets[spec.index]
            for name, place, record in records:
                slots[name][place].write(record)
                if spec.channel_table[name].joint_topics:
                    self._given[spec.index, name, place] = box.beginnings[spec.index], record
                if TRAJECTORY.name in slots and name in OTHER:
                    self.motions.note(spec, name, place, record)
                    # One cycle may take both, in whatever order: the newer one counts.
                    older = slots[OTHER[name]][place]
                    if older.taken < older.written:
                        older.withdraw(older.written)
            box.ring_for_targets()


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was not asked for."""
    return {channel: value for channel, value in values.items() if value is not None}
