# SPDX-License-Identifier: Apache-2.0
"""Targets: the commands that users send to an active controllet.

A *channel* is one kind of target, such as a pose. The loop receives each target as a *record*, a
vector of fixed length. A :class:`Target` type names the channels of a controllet. Its attributes
are views of the newest records, which a controllet reads as ``target.position_ee_in_base[arm]``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from multipanda_py import registry
from multipanda_py.exceptions import (
    ConfigurationError,
    MultipandaError,
    ReportMissing,
    TargetRejected,
    UnknownName,
)
from multipanda_py.pose import Pose, are_finite
from multipanda_py.state import (
    JOINTS,
    MAX_REPORT_VALUES,
    ArmLimits,
    ArmSnapshot,
    ArmState,
    GateLimits,
    Matrix,
    Vector,
)

if TYPE_CHECKING:
    from multipanda_py.robots.actuated_joints import ActuatedJoints


@dataclass(frozen=True)
class Report:
    """Name and unit of a reported value: ``Report("distance", "m", "tool to line")``.

    As text it is ``distance [m]``, its key in :meth:`.Cell.report`.

    Attributes:
        name: Name of the value.
        unit: Unit of the value, empty if dimensionless.
        doc: Description in one line.
    """

    name: str
    unit: str = ""
    doc: str = ""

    def __str__(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name


class Reports(dict[str, float]):
    """Values that a controllet reported in its last cycle, by ``name [unit]``."""

    def value(self, report: Report) -> float:
        """Return one reported value.

        Raises:
            ReportMissing: If the controllet does not report it, or it is not finite.
        """
        result = self.get(str(report))
        if result is None:
            raise ReportMissing(f"{report} is not reported; reported: {', '.join(self) or 'none'}")
        if not math.isfinite(result):
            raise ReportMissing(f"{report}: got {result}, allowed a finite number")
        return result


def report_titles(declared: Iterable[Report | str]) -> tuple[str, ...]:
    """Return name and unit of each value in ``report_names``, such as ``distance [m]``.

    Raises:
        ConfigurationError: If the declaration is not a tuple of texts and Reports, is too long, or
            contains a name twice.
    """
    unusual = [declared] if isinstance(declared, str) else declared
    unusual = [part for part in unusual if part is declared or not isinstance(part, (Report, str))]
    if unusual:
        raise ConfigurationError(
            f"report_names: got {unusual[0]!r}, allowed a tuple of texts and Reports"
        )
    titles = tuple(str(report) for report in declared)
    if len(titles) > MAX_REPORT_VALUES:
        raise ConfigurationError(
            f"report_names: got {len(titles)} names, allowed up to {MAX_REPORT_VALUES}"
        )
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise ConfigurationError(f"report_names: got {', '.join(twice)} twice, allowed once each")
    return titles


STREAM_TIMEOUT = 1.0
"""Maximum time between two targets of one stream [s]; after a longer pause a new stream starts."""


class Stream:
    """Last target of one channel of an arm, to recognise a stream of targets.

    The gate clips a far target instead of rejecting it if the target continues a stream. The
    channel must have accepted a nearby target within the last :data:`STREAM_TIMEOUT`. An
    obstructed arm can thus follow its stream again later.

    Args:
        name: Name of arm and channel, the key in ``clipped``.
        clipped: Counter of clipped targets, by name.
    """

    def __init__(self, name: str, clipped: Counter[str]) -> None:
        self._name, self._clipped = name, clipped
        self._last: Any = None
        self._now, self._until = 0.0, 0.0
        self._law: tuple[str, int] = ("", 0)

    def for_activation(self, controllet: str, activation: int, now: float) -> Stream:
        """Prepare this stream for a new target, and return it.

        The last target is discarded if it is of another controllet or activation.

        Args:
            controllet: Name of the controllet that receives the new target.
            activation: Number of activations of this controllet until now.
            now: Current time [s]; simulated time in a cell with placement ``inline``.
        """
        if (controllet, activation) != self._law:
            self._last, self._law = None, (controllet, activation)
        self._now = now
        return self

    def continues(self, is_near: Callable[[Any], bool]) -> bool:
        """Return True if a new target continues this stream, and count it as clipped.

        The last target must be recent, and near the new one.

        Args:
            is_near: Function of the last target that returns True if the new target is near it.
        """
        goes_on = self._last is not None and self._now < self._until and is_near(self._last)
        self._clipped[self._name] += goes_on
        return goes_on

    def accept(self, target: Any) -> None:
        """Store an accepted target as the last one of the stream.

        Args:
            target: Target as the client requested it, before it is clipped to the gate.
        """
        self._last, self._until = target, self._now + STREAM_TIMEOUT


IDENTITY_POSE = Pose.identity()
"""Identity pose of a frame. Checks recognise this object, and then skip the transform."""
MAX_WIDTH = 4096
"""Maximum ``width`` and ``per_joint`` of a channel."""
NUMBERS = "std_msgs/msg/Float64MultiArray"
"""Default ROS message of a channel."""
PLAIN_MESSAGES = (
    "geometry_msgs/msg/PoseStamped",
    "sensor_msgs/msg/JointState",
    "geometry_msgs/msg/TwistStamped",
    "geometry_msgs/msg/WrenchStamped",
    NUMBERS,
    "std_msgs/msg/Float64",
)
"""ROS messages that need no ``read`` function of the channel."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MESSAGE = re.compile(r"[a-z][a-z0-9_]*/(msg|action)/[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True, eq=False)
class TargetRequest:
    """Data that a channel needs to check a target.

    Attributes:
        owner: Name of the arm, or of the controllet for a shared channel (of all arms).
        gate: Limits of the gate.
        frame: Pose of the target's frame in the base of the arm, or in the world for a shared
            channel. :data:`IDENTITY_POSE` means no transform.
        reports: Function that returns the values that the controllet reports.
    """

    owner: str
    gate: GateLimits
    frame: Pose
    reports: Callable[[], Reports]


@dataclass(frozen=True, eq=False)
class ArmTargetRequest(TargetRequest):
    """Data that a channel of one arm needs to check a target.

    Attributes:
        state: Newest state of the arm.
        limits: Limits of the joints of the arm.
        ungated_channels: Channels whose targets may be far from the measured state.
        stream: Function of a channel name that returns the :class:`Stream` of this channel.
        joint_fields: Quantities that the controllet accepts in channel ``joint``: ``q``, ``dq`` or
            both.
        jacobian: Function that returns the tool Jacobian at ``state.q``, (6, n), in base axes.
        actuated: Joints with compliant actuators; None without such joints.
        spring_equilibrium: Function that returns the equilibrium angles of the m joints with
            compliant actuators, (m,) [rad].
        parameters: Function that returns the values of the controllet's parameters by name.
        last_record: Function of the name of a channel with ``joint_topics`` that returns the last
            record. None without a target since activation or parameter change.
    """

    state: ArmSnapshot
    limits: ArmLimits
    ungated_channels: tuple[str, ...]
    stream: Callable[[str], Stream]
    joint_fields: tuple[str, ...]
    jacobian: Callable[[], Matrix]
    actuated: ActuatedJoints | None
    spring_equilibrium: Callable[[], Vector]
    parameters: Callable[[], Mapping[str, Any]]
    last_record: Callable[[str], Vector | None]


Check: TypeAlias = Callable[[Any, Any], Vector]
"""Function of a value and a :class:`TargetRequest` that returns the record or raises
TargetRejected."""


@dataclass(frozen=True, eq=False)
class Channel:
    """Declaration of one kind of target.

    Clients send a target as a value, for example a :class:`.Pose`. The loop receives it as a
    record, a vector of floats.

    Attributes:
        name: Name in lower case letters, digits and single underscores.
        width: Number of floats in a record, without the floats that ``per_joint`` adds.
        doc: Description in one line.
        unit: Unit of the floats.
        shared: True if the whole controllet has one target; otherwise each arm has one.
        low: Minimum of each number, used if ``check`` is None.
        high: Maximum of each number, used if ``check`` is None.
        check: Function of a value and a :class:`TargetRequest` that returns the record, or raises
            :class:`.TargetRejected`. None: a value is ``width`` finite numbers within the bounds.
        modified_by_features: True if features may modify the record, in every cycle from the
            requested record.
        message: ROS type of the topic or action of the channel.
        read: Function that converts a ROS message to a value; required for types that are not in
            :data:`PLAIN_MESSAGES`.
        topic: Topic name below the arm or controllet, by default ``target_<name>``.
        method: Python call that sets a target, for the documentation.
        per_joint: Number of floats that each joint of the arm adds to a record.
        is_scheduled: True if the second number of a record is the start time [s] (0 for
            immediately), and the third the number of arms that start together.
        joint_topics: Names of topics with one number per message, for each joint with a compliant
            actuator. ``check`` receives ``{joint name: number}``.

    Raises:
        ConfigurationError: If a name, message, width or bound is invalid.
    """

    name: str
    width: int
    doc: str = ""
    unit: str = ""
    shared: bool = False
    low: float = -np.inf
    high: float = np.inf
    check: Check | None = None
    modified_by_features: bool = False
    message: str = NUMBERS
    read: Callable[[Any], Any] | None = None
    topic: str = ""
    method: str = ""
    per_joint: int = 0
    is_scheduled: bool = False
    joint_topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.topic:
            object.__setattr__(self, "topic", f"target_{self.name}")
        if not self.method:
            name = "name" if self.shared else "arm"
            object.__setattr__(self, "method", f'set_channel({name}, "{self.name}", values)')
        path, names = f"channel {self.name!r}", "lower case letters, digits, single underscores"
        one_bound = "one number for all elements; use a `check` for bounds per element"
        wrong = [
            f"{path}: {description}: got {got!r}, allowed {allowed}"
            for description, got, is_right, allowed in (
                ("name", self.name, _fits(_NAME, self.name), names),
                ("topic", self.topic, _fits(_NAME, self.topic), names),
                (
                    "joint_topics",
                    self.joint_topics,
                    all(_fits(_NAME, topic) for topic in self.joint_topics),
                    names,
                ),
                ("message", self.message, _fits(_MESSAGE, self.message), "package/msg/Type"),
                (
                    "width",
                    self.width,
                    type(self.width) is int
                    and (0 if self.per_joint else 1) <= self.width <= MAX_WIDTH,
                    f"an integer from 1 to {MAX_WIDTH}",
                ),
                (
                    "per_joint",
                    self.per_joint,
                    type(self.per_joint) is int
                    and 0 <= self.per_joint <= (0 if self.shared else MAX_WIDTH),
                    "0 for a shared channel, which has no single arm"
                    if self.shared
                    else f"an integer from 0 to {MAX_WIDTH}",
                ),
                (
                    "message",
                    self.message,
                    not _fits(_MESSAGE, self.message)
                    or self.is_action
                    or self.read is not None
                    or self.message in PLAIN_MESSAGES,
                    f"{', '.join(PLAIN_MESSAGES)}, or another one with a `read` function",
                ),
                ("low", self.low, _is_bound(self.low), one_bound),
                ("high", self.high, _is_bound(self.high), one_bound),
                (
                    "low",
                    self.low,
                    not (_is_bound(self.low) and _is_bound(self.high)) or self.low <= self.high,
                    f"up to high, {self.high}",
                ),
            )
            if not is_right
        ]
        if wrong:
            raise ConfigurationError(*wrong)

    def __str__(self) -> str:
        return self.name

    @property
    def is_action(self) -> bool:
        """True if ROS clients use an action of the controllet, and not a topic."""
        return "/action/" in self.message

    @property
    def topic_path(self) -> str:
        """Name of the channel's topic or action below the cell: ``<arm>/target_pose``."""
        return f"<{'controllet' if self.shared or self.is_action else 'arm'}>/{self.topic}"

    def size(self, n_joints: int) -> int:
        """Return the number of floats in a record for an arm with ``n_joints`` joints."""
        return self.width + self.per_joint * n_joints

    def record_count(self, n_arms: int) -> int:
        """Return the number of records: 1 for a shared channel, otherwise ``n_arms``."""
        return 1 if self.shared else n_arms

    def record(self, value: Any, request: TargetRequest) -> Vector:
        """Check a target from a client, and return it as a record for the loop, (size,).

        Raises:
            TargetRejected: If the target is not allowed.
        """
        path = f"{request.owner}: {self.name}"
        size = (
            self.size(request.limits.n_joints)
            if isinstance(request, ArmTargetRequest)
            else self.width
        )
        if self.check is None:
            return self._within(path, value, size)
        try:
            result = _float_copy(self.check(value, request))
        except MultipandaError:
            raise
        except Exception as error:  # The check of a plug-in may raise any error.
            raise TargetRejected(
                f"{path}: the check of the channel raised {type(error).__name__}: {error}"
            ) from error
        if result.shape != (size,) or not are_finite(result):
            raise TargetRejected(
                f"{path}: the check of the channel returned {result.tolist()!s:.60} of shape "
                f"{result.shape}, allowed {size} finite numbers"
            )
        return result

    def _within(self, path: str, value: Any, size: int) -> Vector:
        result = finite_numbers(path, value, size)
        if (result < self.low).any() or (result > self.high).any():
            raise TargetRejected(
                f"{path}: got {result.tolist()}, allowed [{self.low:g}, {self.high:g}]"
                f"{f' {self.unit}' if self.unit else ''}"
            )
        return result


def finite_numbers(path: str, values: ArrayLike, width: int) -> Vector:
    """Return a copy of finite numbers, (width,).

    Args:
        path: Name of the target, with which an error message begins.
        values: Numbers to check.
        width: Required count of numbers.

    Raises:
        TargetRejected: If the values are not finite numbers, or their count differs.
    """
    try:
        array = _float_copy(values)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{path}: got {values!r:.60}, allowed {width} numbers") from None
    if array.shape != (width,) or not are_finite(array):
        count = f"{len(array)} numbers, " if array.ndim == 1 and len(array) != width else ""
        raise TargetRejected(
            f"{path}: got {count}{array.tolist()}, allowed {width} finite numbers"
        )
    return array


@cache
def built_in_channels() -> dict[str, Channel]:
    """Return the channels of this package by name."""
    return {name: registry.load("channels", name) for name in registry.built_in("channels")}


def channel_table(declared: Iterable[str | Channel]) -> dict[str, Channel]:
    """Return the channels of a controllet and its features by name.

    Args:
        declared: Channels: names of built-in ones, or new declarations.

    Raises:
        ConfigurationError: If a name is unknown, or two channels have the same name or topic.
    """
    table: dict[str, Channel] = {}
    known = built_in_channels()
    for entry in declared:
        if isinstance(entry, str):
            if entry not in known:
                raise UnknownName("channel", entry, list(known))
            channel = known[entry]
        else:
            channel = entry
            for other in (*known.values(), *table.values()):
                refuse_twin(channel, other)
        table[channel.name] = channel
    return table


def refuse_twin(channel: Channel, other: Channel) -> None:
    """Raise ConfigurationError for different channels with the same name or topic."""
    if channel is other:
        return
    for attribute in ("name", "topic"):
        got = getattr(channel, attribute)
        if got == getattr(other, attribute) and (
            attribute == "name" or channel.shared == other.shared
        ):
            raise ConfigurationError(
                f"channel {channel.name!r}: {attribute}: got {got!r}, which another channel has "
                f"({other.doc or other.name!r}). Choose another one."
            )


def _fits(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _is_bound(bound: object) -> bool:
    return isinstance(bound, (int, float)) and not isinstance(bound, bool) and bound == bound


def _float_copy(values: ArrayLike) -> Vector:
    # NumPy would also convert texts and complex numbers.
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"got {array.dtype}, allowed real numbers")
    return array.astype(np.float64)


TRAJECTORY_POINTS = 128
"""Maximum number of points of one trajectory."""
TRAJECTORY_CONTROLLETS = ("joint_trajectory", "joint_position", "optimization_augmented")
"""Controllets that follow trajectories and report their progress."""
Joints: TypeAlias = "int | Sequence[int]"
"""Number of joints of all arms, or one number per arm."""


class Target:
    """Base class of target types. An object has the newest targets of one controllet instance.

    Args:
        n_arms: Number of arms of the controllet.
        extra: Channels of its features: names of built-in ones, or new declarations.
        n_joints: Number of joints: one number for all arms, or one number per arm.

    Attributes:
        joints: Number of joints of each arm.
        data: Records by channel: one record per arm, or a single record for a shared channel.
        modified_channels: Channels whose records features may modify in every cycle.
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    """Channels that users may write to, in the order of their records: names of built-in ones, or
    declarations of new ones."""
    internal_channels: ClassVar[tuple[str | Channel, ...]] = ()
    """Further channels that the controllet needs. Clients cannot write to them, unless a feature
    adds the channel."""
    ungated: ClassVar[tuple[str, ...]] = ()
    """Channels whose targets may be far from the measured state, because the controllet limits its
    own motion."""
    ungated_if_governed: ClassVar[tuple[str, ...]] = ()
    """Channels of secondary targets, such as the nullspace configuration. Their targets may be far
    from the measured state if a governor moves the reference. Without a governor the arm would
    move there at once."""
    joint_fields: ClassVar[tuple[str, ...]] = ("q", "dq")
    """Parts of channel ``joint`` that are used: positions, velocities. Others are rejected."""

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        table = channel_table((*self.channels, *self.internal_channels, *extra))
        self.joints = (n_joints,) * n_arms if isinstance(n_joints, int) else tuple(n_joints)
        self.data: dict[str, list[Vector]] = {
            name: [np.zeros(channel.size(n)) for n in self.joints[: channel.record_count(n_arms)]]
            for name, channel in table.items()
        }
        self.modified_channels = tuple(
            name for name, channel in table.items() if channel.modified_by_features
        )

    def clear(self) -> None:
        """Set all records to zero, at the start of an activation."""
        for records in self.data.values():
            for record in records:
                record[:] = 0.0


class JointTarget(Target):
    """Joint positions and velocities of every arm.

    Attributes:
        q: Joint positions per arm, (n,) [rad].
        dq: Joint velocities per arm, (n,) [rad/s].
        max_reference_lead: Maximum distance of the reference from the measured positions, per arm,
            (2, n) [rad], set by the controllet. Row 0 is for a moving reference, in addition to
            its initial distance. Row 1 is for a reference at rest.
        moving: True while a governor moves ``q``, per arm.
        ddq: Accelerations of this motion, per arm, (n,) [rad/s^2].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        records = list(zip(self.data["joint"], self.joints))
        self.q: list[Vector] = [data[:n] for data, n in records]
        self.dq: list[Vector] = [data[n:] for data, n in records]
        self.max_reference_lead: list[Matrix] = [np.full((2, n), np.inf) for n in self.joints]
        self.moving = [False] * n_arms
        self.ddq: list[Vector] = [np.zeros(n) for n in self.joints]

    def clear(self) -> None:
        super().clear()
        self.moving[:] = [False] * len(self.moving)


class JointVelocityTarget(JointTarget):
    """Joint target that uses velocities only."""

    joint_fields: ClassVar[tuple[str, ...]] = ("dq",)


class HeldConfiguration(JointTarget):
    """Joint target that users cannot set: the configuration measured at activation."""

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    internal_channels: ClassVar[tuple[str | Channel, ...]] = ("joint",)


class TrajectoryTarget(JointTarget):
    """Joint configuration or joint trajectory, whichever arrived last.

    Attributes:
        count: Number of valid rows of ``points``, per arm, (1,).
        points: Trajectory points per arm, (128, 1 + 3 n): time since the arrival of the target
            [s], positions, velocities and accelerations [rad, rad/s, rad/s^2].
        tolerances: Tolerances per arm, (2 n + 1,): n for the path and n for the goal [rad], and
            one for the time of arrival [s].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("joint", "trajectory")
    ungated: ClassVar[tuple[str, ...]] = ("joint",)
    joint_fields: ClassVar[tuple[str, ...]] = ("q",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        records = list(zip(self.data["trajectory"], self.joints))
        self.count: list[Vector] = [data[:1] for data, _ in records]
        self.points: list[Matrix] = [
            data[3 : -(2 * n + 1)].reshape(TRAJECTORY_POINTS, 1 + 3 * n) for data, n in records
        ]
        self.tolerances: list[Vector] = [data[-(2 * n + 1) :] for data, n in records]


class CartesianTarget(Target):
    """Tool pose in the arm's base, and preferred joint configuration of the nullspace.

    Attributes:
        position_ee_in_base: Position per arm, (3,) [m].
        rotation_ee_in_base: Rotation matrix per arm, (3, 3).
        nullspace_configuration: Preferred joint positions per arm, (n,) [rad].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("pose", "joint")
    ungated_if_governed: ClassVar[tuple[str, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        poses = self.data["pose"]
        self.position_ee_in_base: list[Vector] = [data[:3] for data in poses]
        self.rotation_ee_in_base: list[Matrix] = [data[3:].reshape(3, 3) for data in poses]
        self.nullspace_configuration: list[Vector] = [
            data[:n] for data, n in zip(self.data["joint"], self.joints)
        ]

    def seed(self, states: Sequence[ArmState]) -> None:
        """Set the target to the measured poses and joint positions."""
        for arm, state in enumerate(states):
            self.position_ee_in_base[arm][:] = state.position_ee_in_base
            self.rotation_ee_in_base[arm][:] = state.rotation_ee_in_base
            self.nullspace_configuration[arm][:] = state.q

    def displace(self, arm: int, error: Vector) -> None:
        """Displace the target pose of an arm.

        Args:
            arm: Index of the arm in the controllet.
            error: Translation, then rotation vector along the base axes, (6,) [m, rad].
        """
        self.position_ee_in_base[arm][:] += error[:3]
        self.rotation_ee_in_base[arm][:] = pin.exp3(error[3:]) @ self.rotation_ee_in_base[arm]


class HeldPose(CartesianTarget):
    """Cartesian target that users cannot set: the pose measured at activation."""

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    internal_channels: ClassVar[tuple[str | Channel, ...]] = CartesianTarget.channels


class ReferenceMotion:
    """Velocity and acceleration of a moving reference pose.

    Attributes:
        moving: True if the reference moves; twist and acceleration are valid only then.
        twist: Linear and angular velocity, (6,) [m/s, rad/s].
        acceleration: Linear and angular acceleration, (6,) [m/s^2, rad/s^2].
    """

    __slots__ = ("acceleration", "moving", "twist")

    def __init__(self) -> None:
        self.moving = False
        self.twist, self.acceleration = np.zeros(6), np.zeros(6)


class CartesianImpedanceTarget(CartesianTarget):
    """Cartesian target with twist and stiffness.

    Attributes:
        twist_ee_in_base: Linear and angular velocity per arm, (6,) [m/s, rad/s].
        stiffness: Stiffness matrix per arm, (6, 6) [N/m, Nm/rad].
        motion: Motion of the reference pose, per arm.
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("pose", "joint", "twist", "stiffness")

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        self.twist_ee_in_base: list[Vector] = self.data["twist"]
        self.stiffness: list[Matrix] = [data.reshape(6, 6) for data in self.data["stiffness"]]
        self.motion = [ReferenceMotion() for _ in range(n_arms)]

    def clear(self) -> None:
        super().clear()
        for motion in self.motion:
            motion.moving = False


class ForceTarget(CartesianTarget):
    """Cartesian target with stiffness, and with a wrench that the tool has to exert.

    Attributes:
        stiffness: Stiffness matrix per arm, (6, 6) [N/m, Nm/rad].
        wrench_in_base: Force and torque on the environment at the tool point, per arm, (6,) [N,
            Nm].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = (
        *CartesianTarget.channels,
        "stiffness",
        "wrench",
    )

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        self.stiffness: list[Matrix] = [data.reshape(6, 6) for data in self.data["stiffness"]]
        self.wrench_in_base: list[Vector] = self.data["wrench"]


class ObjectTarget(Target):
    """Pose of an object that several arms hold, internal force, and joint configurations.

    Attributes:
        position_object_in_world: Position of the object, (3,) [m].
        rotation_object_in_world: Rotation matrix of the object, (3, 3).
        internal_force: Internal force with which the arms press the object, (1,) [N].
        nullspace_configuration: Preferred joint positions per arm, (n,) [rad].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("object", "internal_force", "joint")
    ungated_if_governed: ClassVar[tuple[str, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        pose = self.data["object"][0]
        self.position_object_in_world: Vector = pose[:3]
        self.rotation_object_in_world: Matrix = pose[3:].reshape(3, 3)
        self.internal_force: Vector = self.data["internal_force"][0]
        self.nullspace_configuration: list[Vector] = [
            data[:n] for data, n in zip(self.data["joint"], self.joints)
        ]
