# SPDX-License-Identifier: Apache-2.0
"""Check targets and send them to the controllets of a running cell."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from multipanda_py.cell.commanded_motions import REPLACED_BY, CommandedMotions
from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.goals import Frames
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.controllets.targets.joint import TRAJECTORY, Trajectory
from multipanda_py.exceptions import TargetRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.robots.actuated_joints import COMMAND_ALIASES
from multipanda_py.robots.dynamics.arm_dynamics import ToolJacobian
from multipanda_py.state import ArmSnapshot, Vector
from multipanda_py.targets import ArmTargetRequest, Stream, TargetRequest


def refuse_unused(
    spec: InstanceSpec, channel: str, parameters: Callable[[str], Mapping[str, Any]]
) -> None:
    """Check that a controllet, or one of its enabled features, uses targets of a channel.

    Raises:
        TargetRejected: If neither the controllet nor an enabled feature uses the channel.
    """
    if channel in spec.controllet_channels:
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
            f"{spec.name}: {channel}: no enabled feature uses this target: "
            f"{off or 'add a feature that reads it in the cell file'}"
        )


class _Record(NamedTuple):
    channel: str
    arm_index: int
    values: Vector


class TargetWriter:
    """Check targets and send them to the loop.

    Args:
        names: Names of arms and controllets of the cell.
        connection: Connection to the control loop.
        reader: State reader of the cell.
        counts: Counters of rejected requests.
        parameters: Function that returns the parameters of a controllet, by name.
        equilibrium: Function that returns the positions of the m compliant joints of an arm at
            which their springs exert no torque, (m,) [rad].

    Attributes:
        frames: Frames in which targets may be given.
        motions: Newest motion commanded to each arm.
    """

    def __init__(
        self,
        names: CellNames,
        connection: Connection,
        reader: StateReader,
        counts: Counts,
        parameters: Callable[[str], Mapping[str, Any]],
        equilibrium: Callable[[str], Vector],
    ) -> None:
        self._names, self._connection, self._equilibrium = names, connection, equilibrium
        self._reader, self._counts, self._parameters = reader, counts, parameters
        self.frames = Frames(names.config)
        self._gate = names.config.gate.limits()
        self.motions = CommandedMotions(connection, lambda: reader.time, names.config.cell.rate)
        self._tools: dict[str, ToolJacobian] = {}
        self._streams: dict[tuple[str, str], Stream] = {}
        self._last_records: dict[tuple[int, str, int], tuple[int, Vector]] = {}

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
        """Set new targets of one arm for the controllet that owns it, all in one cycle.

        Args:
            arm: Name of the arm.
            pose: Tool pose in ``frame``.
            frame: Frame of pose, twist and wrench: ``world`` or the base of an arm; the base of
                this arm by default.
            q: Joint positions, (n,) [rad]: the target of a joint-space controllet, or the
                preferred configuration of a Cartesian one.
            dq: Joint velocities, (n,) [rad/s]; without ``q`` for a joint-velocity controllet, zero
                for one that plans its own motion to ``q``.
            twist: Linear and angular velocity of the tool, (6,) [m/s, rad/s].
            wrench: Force and torque that the tool exerts on the environment, (6,) [N, Nm].
            stiffness: Cartesian stiffness: diagonal elements, (6,), or a positive semidefinite
                matrix, (6, 6) [N/m, Nm/rad].

        Raises:
            TargetRejected: If a target is invalid. The arm keeps its present targets.
        """
        joint = None if q is None and dq is None else (q, dq)
        values = {"pose": pose, "joint": joint, "twist": twist, "wrench": wrench}
        self._send_to_arm(arm, _requested({**values, "stiffness": stiffness}), frame)

    def follow_trajectory(
        self,
        arm: str,
        points: ArrayLike,
        *,
        path_tolerance: ArrayLike | None = None,
        goal_tolerance: ArrayLike | None = None,
        goal_time: float | None = None,
        start: float | None = None,
    ) -> None:
        """Send a trajectory to the controllet that owns an arm.

        For tolerances and ``goal_time``, None or 0 stands for the parameter of the controllet with
        this name. A negative value disables the check.

        Args:
            arm: Name of the arm.
            points: Trajectory points, (p, 1 + 3 n), as returned by :func:`.complete`: time from
                the start [s], positions [rad], velocities [rad/s] and accelerations [rad/s^2] of
                the n joints. A first point at time 0 must be near the measured configuration, and
                the last point at rest. ``[]`` requests a smooth stop.
            path_tolerance: Maximum error along the path, (n,) or one number [rad].
            goal_tolerance: Maximum error at the goal, (n,) or one number [rad].
            goal_time: Maximum time from the end of the trajectory until the errors are within
                ``goal_tolerance`` [s].
            start: Start in cell time (:attr:`.ArmSnapshot.time`), the same cycle for arms with
                equal start [s]; immediately by default.

        Raises:
            TargetRejected: If the trajectory is invalid. The arm keeps its present targets.
        """
        trajectory = Trajectory(points, path_tolerance, goal_tolerance, goal_time, start)
        self._send_to_arm(arm, {"trajectory": trajectory})

    def follow_trajectories(self, name: str, trajectories: Mapping[str, Trajectory]) -> None:
        """Send a trajectory to every arm of a controllet, so that all arms start in one cycle.

        Args:
            name: Name of an active controllet.
            trajectories: Trajectories by arm, as for :meth:`follow_trajectory`. Empty points
                request a stop.

        Raises:
            TargetRejected: If a trajectory is invalid. All arms keep their present targets.
        """
        try:
            spec = self._names.spec(name)
            self._reject_if_loop_blocked(name)
            if not self._connection.mailbox.active[spec.index]:
                raise TargetRejected(f"{name}: is not active. Switch to it first")
            arms = spec.config.arms
            if set(trajectories) != set(arms):
                raise TargetRejected(
                    f"{name}: trajectories: got {', '.join(trajectories) or 'none'}, allowed one "
                    f"for each of {', '.join(arms)}"
                )
            now = self._reader.state(arms[0]).time
            start = max(now, *(one.start or 0.0 for one in trajectories.values()))
            records = [
                self._checked_records(
                    spec, spec.config.arms.index(arm), {TRAJECTORY.name: one}, context
                )
                for arm in arms
                for context in [self._request(arm, spec)]
                for one in [trajectories[arm]._replace(start=start, together=len(arms))]
            ]
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{name} target"] += 1
            raise
        self._send_together(spec, list(itertools.chain.from_iterable(records)))

    def set_object_target(
        self,
        name: str,
        pose: Pose | None = None,
        *,
        internal_force: float | None = None,
        frame: str = "",
    ) -> None:
        """Set the target pose of an object that several arms hold, or their squeezing force.

        Args:
            name: Name of the controllet of these arms.
            pose: Pose of the object in ``frame``.
            internal_force: Force with which the arms squeeze the object [N].
            frame: Frame of the pose: ``world`` (default), or the base of an arm.

        Raises:
            TargetRejected: If a target is invalid. The controllet keeps its present targets.
        """
        self._send_to_controllet(
            name, _requested({"object": pose, "internal_force": internal_force}), frame
        )

    def command_actuators(self, arm: str, **commands: Any) -> None:
        """Command springs and motors of an arm with compliant actuators, all in one cycle.

        Args:
            arm: Name of the arm.
            commands: Values by command name [rad, m, Nm], see :data:`.COMMAND_CHANNELS` and
                ``external_torque``. A value is a number for all compliant joints, a number for
                each, or a mapping by joint.

        Raises:
            TargetRejected: If there is no command, a command is invalid, or the operation mode of
                a joint does not accept it. The arm keeps its present targets.
        """
        if not commands:
            self._counts.rejected[f"{arm} target"] += 1
            raise TargetRejected(f"{arm}: got no command, allowed one or more")
        self._send_to_arm(
            arm, {COMMAND_ALIASES.get(name, name): value for name, value in commands.items()}
        )

    def set_channel(self, name: str, channel: str, value: Any, *, frame: str = "") -> None:
        """Set a target by the name of its channel (kind of target), which a plug-in may define.

        Args:
            name: Name of the arm, or of the controllet for a channel of all its arms.
            channel: Name of the channel.
            value: Target in the format of the channel, usually an array of numbers.
            frame: Frame of the target, as for :meth:`set_target`; without effect on channels such
                as ``joint``.

        Raises:
            TargetRejected: If the target is invalid. The controllet keeps its present targets.
        """
        give = self._send_to_arm if name in self._names.arms else self._send_to_controllet
        give(name, {channel: value}, frame)

    def _send_to_arm(self, arm: str, values: Mapping[str, Any], frame: str = "") -> None:
        try:
            self._names.arm_index(arm)
            self._reject_if_loop_blocked(arm)
            spec = self._owner(arm)
            context = self._request(arm, spec, frame)
            records = self._checked_records(spec, spec.config.arms.index(arm), values, context)
            is_soft = not values.keys().isdisjoint(
                spec.controllet_class.Target.ungated_if_governed
            )
            self._send_together(spec, records, context.ungated_channels if is_soft else None)
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{arm} target"] += 1
            raise

    def _request(self, arm: str, spec: InstanceSpec, frame: str = "") -> ArmTargetRequest:
        state = self._reader.state(arm)
        return ArmTargetRequest(
            arm,
            self._gate,
            self.frames.base_from(frame, arm),
            partial(self._reader.report, spec.name),
            state,
            self._names.limits(arm),
            self._ungated_channels(spec),
            partial(self._stream, spec, state),
            spec.controllet_class.Target.joint_fields,
            lambda: self._tool_jacobian(arm).compute(state.q),
            self._names.descriptions[arm].actuated,
            partial(self._equilibrium, arm),
            partial(self._parameters, spec.name),
            partial(self._last_record, spec, spec.config.arms.index(arm)),
        )

    def _last_record(self, spec: InstanceSpec, index: int, channel: str) -> Vector | None:
        beginning, record = self._last_records.get((spec.index, channel, index), (0, None))
        return (
            record if beginning == self._connection.mailbox.activation_counts[spec.index] else None
        )

    def forget(self, name: str) -> None:
        """Forget the last joint commands to a controllet, after its parameters have changed.

        A later command for some joints then does not repeat them for the other joints.
        """
        index = self._names.spec(name).index
        for key in [key for key in self._last_records if key[0] == index]:
            del self._last_records[key]

    def _ungated_channels(self, spec: InstanceSpec) -> tuple[str, ...]:
        soft_channels = spec.controllet_class.Target.ungated_if_governed
        if not (soft_channels and self._parameters(spec.name).get("governor.enabled")):
            return spec.ungated_channels
        return (*spec.ungated_channels, *soft_channels)

    def _send_to_controllet(self, name: str, values: Mapping[str, Any], frame: str = "") -> None:
        try:
            spec = self._names.spec(name)
            self._reject_if_loop_blocked(name)
            if not self._connection.mailbox.active[spec.index]:
                raise TargetRejected(f"{name}: is not active. Switch to it first")
            context = TargetRequest(
                name,
                self._gate,
                self.frames.world_from(frame),
                partial(self._reader.report, name),
            )
            records = self._checked_records(spec, None, values, context)
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{name} target"] += 1
            raise
        self._send_together(spec, records)

    def _stream(self, spec: InstanceSpec, state: ArmSnapshot, channel: str) -> Stream:
        arm, is_stepped = state.name, self._names.config.cell.placement == "inline"
        stream = self._streams.get((arm, channel))
        if stream is None:
            stream = Stream(f"{arm} {channel}", self._counts.clipped)
            self._streams[arm, channel] = stream
        beginning = self._connection.mailbox.activation_counts[spec.index]
        return stream.for_activation(
            spec.name, beginning, state.time if is_stepped else time.monotonic()
        )

    def _reject_if_loop_blocked(self, name: str) -> None:
        if reason := self._reader.stall_reason():
            raise TargetRejected(f"{name}: {reason}")

    def _tool_jacobian(self, arm: str) -> ToolJacobian:
        if arm not in self._tools:
            self._tools[arm] = ToolJacobian(describe_arm(arm, self._names.arm_config(arm)))
        return self._tools[arm]

    def _owner(self, arm: str) -> InstanceSpec:
        flags, specs = self._connection.mailbox.active, self._names.specs_of(arm)
        for spec in specs:
            if flags[spec.index]:
                return spec
        return specs[0]  # The first one is hold.

    def _checked_records(
        self,
        spec: InstanceSpec,
        arm_index: int | None,
        values: Mapping[str, Any],
        context: TargetRequest,
    ) -> list[_Record]:
        records = []
        for name, value in values.items():
            channel = spec.channel_table.get(name)
            if channel is None:
                takes = ", ".join(spec.channels) or "no targets"
                raise TargetRejected(
                    f"{spec.name} accepts {takes}, got {name}. Switch to another controllet first"
                )
            refuse_unused(spec, name, self._parameters)
            if channel.shared != (arm_index is None):
                owner = f"the controllet {spec.name}" if channel.shared else "one of its arms"
                raise TargetRejected(
                    f"{context.owner}: {name} is a target of {owner}. Name it instead"
                )
            records.append(_Record(name, arm_index or 0, channel.record(value, context)))
        return records

    def _send_together(
        self,
        spec: InstanceSpec,
        records: Sequence[_Record],
        ungated_at_check: tuple[str, ...] | None = None,
    ) -> None:
        with self._connection.lock:
            if ungated_at_check is not None and ungated_at_check != self._ungated_channels(spec):
                raise TargetRejected(
                    f"{spec.name}: governor.enabled changed while the target was checked. Send "
                    "it again"
                )
            box = self._connection.mailbox
            slots = box.targets[spec.index]
            for name, index, record in records:
                slots[name][index].write(record)
                if spec.channel_table[name].joint_topics:
                    self._last_records[spec.index, name, index] = (
                        box.activation_counts[spec.index],
                        record,
                    )
                if TRAJECTORY.name in slots and name in REPLACED_BY:
                    self.motions.store(spec, name, index, record)
                    # A joint target replaces a trajectory, and vice versa, even if the loop
                    # receives both in one cycle. The older one is therefore withdrawn.
                    older = slots[REPLACED_BY[name]][index]
                    if older.taken < older.written:
                        older.withdraw(older.written)
            box.notify_targets()


def _requested(values: Mapping[str, Any]) -> dict[str, Any]:
    return {channel: value for channel, value in values.items() if value is not None}
