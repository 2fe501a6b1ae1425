# SPDX-License-Identifier: Apache-2.0
"""What a user asks of an active controllet.

A target arrives through *channels*: fixed-width vectors that carry one kind of
request for one arm (:mod:`.channel`, ``channels/``). A target type names the channels
it listens to and gives them readable views. The loop refills the views in place, so a
law simply reads ``target.position_ee_in_base[arm]``.
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
    REPORT,
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
    """One number: ``Report("distance", "m", "of the tool from the line")``.

    As text it is ``distance [m]``, the key under which :meth:`.Cell.report` has it.

    Attributes:
        name: What it is.
        unit: Its unit, empty for none.
        doc: A line for the documentation.
    """

    name: str
    unit: str = ""
    doc: str = ""

    def __str__(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name


class Reports(dict[str, float]):
    """What a law has reported of its last cycle, by ``name [unit]``."""

    def value(self, report: Report) -> float:
        """Return one number, to decide something by it.

        Raises:
            ReportMissing: If the law does not report it, or what it says is not finite.
        """
        found = self.get(str(report))
        if found is None:
            raise ReportMissing(
                f"{report}: is not reported; reported: {', '.join(self) or 'none'}"
            )
        if not math.isfinite(found):
            raise ReportMissing(f"{report}: got {found}, allowed a finite number")
        return found


def report_titles(declared: Iterable[Report | str]) -> tuple[str, ...]:
    """Return the texts of a law's reports, in order.

    Raises:
        ConfigurationError: If they are something else, too many, or two have one name.
    """
    odd = [declared] if isinstance(declared, str) else declared
    odd = [part for part in odd if part is declared or not isinstance(part, (Report, str))]
    if odd:
        raise ConfigurationError(
            f"report_names: got {odd[0]!r}, allowed a tuple of texts and Reports"
        )
    titles = tuple(str(report) for report in declared)
    if len(titles) > REPORT:
        raise ConfigurationError(f"report_names: got {len(titles)}, allowed up to {REPORT}")
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise ConfigurationError(f"report_names: got {', '.join(twice)} twice, allowed once each")
    return titles


PAUSE = 1.0
"""After this long without a target the next one begins a stream [s]."""


class Stream:
    """What one channel of an arm was asked for last.

    The gate refuses targets that are far from the measured state. An arm that something holds
    back stays behind its stream, though, and must come on when it is free again. So a target
    beyond the gate is clipped to it if it is near the one before it, which was accepted a moment
    ago, and only a jump is refused.

    Args:
        name: Of arm and channel, for the count.
        clipped: Where clipped targets are counted.
    """

    def __init__(self, name: str, clipped: Counter[str]) -> None:
        self._name, self._clipped = name, clipped
        self._last: Any = None
        self._now, self._until = 0.0, 0.0
        self._law: tuple[str, int] = ("", 0)

    def of(self, law: str, beginning: int, now: float) -> Stream:
        """Return it for a law, which knows nothing of what another one was asked for.

        Args:
            law: Its name.
            beginning: Which of its beginnings counts: one that was stopped, or began anew, knows
                nothing of what it was asked for before either.
            now: The machine's time; that of the world in a cell that is stepped by hand, which
                does the same on every machine [s].
        """
        if (law, beginning) != self._law:
            self._last, self._law = None, (law, beginning)
        self._now = now
        return self

    def goes_on(self, is_near: Callable[[Any], bool]) -> bool:
        """Return whether the last target is recent and near; count a clipped one then."""
        goes_on = self._last is not None and self._now < self._until and is_near(self._last)
        self._clipped[self._name] += goes_on
        return goes_on

    def asked(self, target: Any) -> None:
        """Remember a target that is accepted, as it was asked for."""
        self._last, self._until = target, self._now + PAUSE


HERE = Pose.identity()
"""Pose of a frame in itself: one object, so that a transform by it can be left out."""
MAX_WIDTH = 4096
NUMBERS = "std_msgs/msg/Float64MultiArray"
"""The message of a channel that names none."""
PLAIN_MESSAGES = (
    "geometry_msgs/msg/PoseStamped",
    "sensor_msgs/msg/JointState",
    "geometry_msgs/msg/TwistStamped",
    "geometry_msgs/msg/WrenchStamped",
    NUMBERS,
    "std_msgs/msg/Float64",
)
"""Messages that need no ``read`` of the channel's own."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MESSAGE = re.compile(r"[a-z][a-z0-9_]*/(msg|action)/[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True, eq=False)
class Asked:
    """What a check may look at besides the value.

    Attributes:
        who: The arm, or the controllet for a shared channel.
        gate: Limits of targets.
        frame: Pose of the frame that was named, in the arm's base, or in the world for a shared
            channel; :data:`HERE` if it is that.
        reports: Returns what the controllet reports.
    """

    who: str
    gate: GateLimits
    frame: Pose
    reports: Callable[[], Reports]


@dataclass(frozen=True, eq=False)
class AskedOfArm(Asked):
    """The same for a channel of one arm.

    Attributes:
        state: Newest state of the arm.
        limits: Of its joints.
        far: Channels whose targets may be far from the measured state: those that the law says,
            and those of features, such as a preferred posture.
        stream: Returns what one of its channels was asked for last.
        joint_parts: What of channel ``joint`` counts for the law: ``q``, ``dq`` or both.
        jacobian: Returns J of the tool at ``state.q``, (6, n), along the axes of the base.
        actuated: Its joints with compliant actuators; None if there is none.
        at_rest: Returns where the springs of these would be at rest, (m,) [rad].
        parameters: Returns those of the controllet.
        given: Returns the record that one of its channels was given last, since the controllet
            has begun and its parameters are what they are; None if there is none.
    """

    state: ArmSnapshot
    limits: ArmLimits
    far: tuple[str, ...]
    stream: Callable[[str], Stream]
    joint_parts: tuple[str, ...]
    jacobian: Callable[[], Matrix]
    actuated: ActuatedJoints | None
    at_rest: Callable[[], Vector]
    parameters: Callable[[], Mapping[str, Any]]
    given: Callable[[str], Vector | None]


Check: TypeAlias = Callable[[Any, Any], Vector]
"""Takes a value and an :class:`Asked`, returns the record; raises TargetRejected."""


@dataclass(frozen=True, eq=False)
class Channel:
    """One kind of request.

    Attributes:
        name: As laws, the handle and refusals call it; of lower case letters, digits and single
            underscores, since the topic is called after it.
        width: Floats of a record, besides those per joint.
        doc: A line for the documentation.
        unit: Of its numbers.
        shared: Whether it belongs to the whole controllet; else each of its arms has one.
        low: Smallest number, if there is no check.
        high: Largest number, if there is no check.
        check: Turns a value into a record, or refuses it. By default a value is ``width``
            finite numbers within the bounds.
        reshaped: Whether features may reshape it every cycle, beginning with what was asked for.
        message: ROS type of its topic, or of the action that gives it.
        read: Takes a message and returns the value; needed for types that the ROS adapter does
            not know. Stamp and frame of a header are taken care of.
        topic: Name below the arm or controllet, by default ``target_<name>``.
        method: How the documentation calls it on the handle.
        per_joint: Floats of a record for every joint of the arm, in addition to ``width``.
        later: Whether its records say when they count: the second number is the time [s], 0 for
            at once, the third how many arms of the law begin together.
        joint_topics: Further topics, below each joint with a compliant actuator, that take one
            number for it; its value may then be one for some of them, by name.

    Raises:
        ConfigurationError: If a name or width cannot be; says what was got and what is allowed.
    """

    name: str
    width: int
    doc: str = ""
    unit: str = ""
    shared: bool = False
    low: float = -np.inf
    high: float = np.inf
    check: Check | None = None
    reshaped: bool = False
    message: str = NUMBERS
    read: Callable[[Any], Any] | None = None
    topic: str = ""
    method: str = ""
    per_joint: int = 0
    later: bool = False
    joint_topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.topic:
            object.__setattr__(self, "topic", f"target_{self.name}")
        if not self.method:
            who = "name" if self.shared else "arm"
            object.__setattr__(self, "method", f'set_channel({who}, "{self.name}", values)')
        where, names = f"channel {self.name!r}", "lower case letters, digits, single underscores"
        one_bound = "one number for all, as a `check` may have bounds of each"
        wrong = [
            f"{where}: {what}: got {got!r}, allowed {allowed}"
            for what, got, is_right, allowed in (
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
                    f"a whole number from 1 to {MAX_WIDTH}",
                ),
                (
                    "per_joint",
                    self.per_joint,
                    type(self.per_joint) is int
                    and 0 <= self.per_joint <= (0 if self.shared else MAX_WIDTH),
                    "0 for a shared channel, which is of no single arm"
                    if self.shared
                    else f"a whole number from 0 to {MAX_WIDTH}",
                ),
                (
                    "message",
                    self.message,
                    not _fits(_MESSAGE, self.message)
                    or self.is_action
                    or self.read is not None
                    or self.message in PLAIN_MESSAGES,
                    f"{', '.join(PLAIN_MESSAGES)}, or another with a `read` of the channel's own",
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
        """Whether ROS asks for it by an action of the controllet, and not by a topic."""
        return "/action/" in self.message

    @property
    def place(self) -> str:
        """Where ROS has it, below the cell: ``<arm>/target_pose``."""
        return f"<{'controllet' if self.shared or self.is_action else 'arm'}>/{self.topic}"

    def size(self, n_joints: int) -> int:
        """Return the floats of a record for an arm with so many joints."""
        return self.width + self.per_joint * n_joints

    def places(self, n_arms: int) -> int:
        """Return how many records of it a controllet on ``n_arms`` arms has."""
        return 1 if self.shared else n_arms

    def record(self, value: Any, asked: Asked) -> Vector:
        """Return the record of a value that may go to the loop, (size,).

        Raises:
            TargetRejected: If it may not.
        """
        where = f"{asked.who}: {self.name}"
        size = self.size(asked.limits.n_joints) if isinstance(asked, AskedOfArm) else self.width
        if self.check is None:
            return self._within(where, value, size)
        try:
            found = _real(self.check(value, asked))
        except MultipandaError:
            raise
        except Exception as error:  # of a check that is other people's
            raise TargetRejected(
                f"{where}: its check raised {type(error).__name__}: {error}"
            ) from error
        if found.shape != (size,) or not are_finite(found):
            raise TargetRejected(
                f"{where}: its check returned {found.tolist()!s:.60} of shape {found.shape}, "
                f"allowed {size} finite numbers"
            )
        return found

    def _within(self, where: str, value: Any, size: int) -> Vector:
        found = finite_numbers(where, value, size)
        if (found < self.low).any() or (found > self.high).any():
            raise TargetRejected(
                f"{where}: got {found.tolist()}, allowed [{self.low:g}, {self.high:g}]"
                f"{f' {self.unit}' if self.unit else ''}"
            )
        return found


def finite_numbers(where: str, values: ArrayLike, width: int) -> Vector:
    """Return ``width`` finite numbers as an array of their own.

    Raises:
        TargetRejected: If they are not.
    """
    try:
        array = _real(values)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{where}: got {values!r:.60}, allowed {width} numbers") from None
    if array.shape != (width,) or not are_finite(array):
        count = f"{len(array)} numbers, " if array.ndim == 1 and len(array) != width else ""
        raise TargetRejected(
            f"{where}: got {count}{array.tolist()}, allowed {width} finite numbers"
        )
    return array


@cache
def built_in_channels() -> dict[str, Channel]:
    """Return the channels of this package by name."""
    return {name: registry.load("channels", name) for name in registry.built_in("channels")}


def channel_table(declared: Iterable[str | Channel]) -> dict[str, Channel]:
    """Return the channels of a law and its features by name, in order.

    Args:
        declared: Names of built-in channels, and channels of their own.

    Raises:
        ConfigurationError: If a name is unknown, or two channels have one name or topic.
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
    """Refuse two channels under one name.

    Raises:
        ConfigurationError: If they are not one and the same.
    """
    if channel is other:
        return
    for what in ("name", "topic"):
        got = getattr(channel, what)
        if got == getattr(other, what) and (what == "name" or channel.shared == other.shared):
            raise ConfigurationError(
                f"channel {channel.name!r}: {what}: got {got!r}, which another channel has "
                f"({other.doc or other.name!r}); allowed one of its own"
            )


def _fits(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _is_bound(bound: object) -> bool:
    return isinstance(bound, (int, float)) and not isinstance(bound, bool) and bound == bound


def _real(values: ArrayLike) -> Vector:
    """Return a copy as floats; numpy would take digits for numbers and drop imaginary parts."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"got {array.dtype}, allowed real numbers")
    return array.astype(np.float64)


TRAJECTORY_POINTS = 128
"""Most points of one trajectory."""
TRAJECTORY_CONTROLLETS = ("joint_trajectory", "joint_position", "optimization_augmented")
"""Controllets that follow trajectories and report their progress."""
Joints: TypeAlias = "int | Sequence[int]"
"""Number of joints of every arm, or one per arm."""


class Target:
    """Base of the target types: storage per channel and arm.

    Args:
        n_arms: Number of arms of the controllet.
        extra: Channels that its features take in addition: names of built-in ones, or their own.
        n_joints: Number of joints of each arm, n; or one per arm, where they differ.

    Attributes:
        joints: The same per arm.
        data: The records by channel, one per arm or one for all.
        reshaped: The channels that features may reshape every cycle.
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    """Channels that users may write to, in the order of their records: names of built-in ones,
    or declarations of the law's own."""
    stored: ClassVar[tuple[str | Channel, ...]] = ()
    """Channels that the law needs, written to by users or only at activation."""
    far: ClassVar[tuple[str, ...]] = ()
    """Channels whose targets may be far from the measured state: the law itself goes there
    within limits."""
    leaning: ClassVar[tuple[str, ...]] = ()
    """Channels that the law only leans towards, whose targets may be far while a governor moves
    there; without one a far posture would be swung to."""
    joint_parts: ClassVar[tuple[str, ...]] = ("q", "dq")
    """What of channel ``joint`` counts: positions, velocities. Anything else is refused."""

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        table = channel_table((*self.channels, *self.stored, *extra))
        self.joints = (n_joints,) * n_arms if isinstance(n_joints, int) else tuple(n_joints)
        self.data: dict[str, list[Vector]] = {
            name: [np.zeros(channel.size(n)) for n in self.joints[: channel.places(n_arms)]]
            for name, channel in table.items()
        }
        self.reshaped = tuple(name for name, channel in table.items() if channel.reshaped)

    def clear(self) -> None:
        """Forget everything, at the start of an activation."""
        for records in self.data.values():
            for record in records:
                record[:] = 0.0


class JointTarget(Target):
    """Joint positions and velocities for every arm.

    Attributes:
        q: Per arm, (n,) [rad].
        dq: Per arm, (n,) [rad/s].
        leash: Per arm, how far a reference may be from the measured positions, on the way beyond
            what it was at rest, and at rest; the law sets it for its stiffness, (2, n) [rad].
        moving: Whether a governor moves the positions, per arm.
        ddq: Accelerations with which it does, per arm, (n,) [rad/s^2].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        records = list(zip(self.data["joint"], self.joints))
        self.q: list[Vector] = [data[:n] for data, n in records]
        self.dq: list[Vector] = [data[n:] for data, n in records]
        self.leash: list[Matrix] = [np.full((2, n), np.inf) for n in self.joints]
        self.moving = [False] * n_arms
        self.ddq: list[Vector] = [np.zeros(n) for n in self.joints]

    def clear(self) -> None:
        """Forget everything, at the start of an activation."""
        super().clear()
        self.moving[:] = [False] * len(self.moving)


class RateTarget(JointTarget):
    """A joint target of which only the velocities count."""

    joint_parts: ClassVar[tuple[str, ...]] = ("dq",)


class HeldPosture(JointTarget):
    """A joint target that nobody can write to: what was measured at activation."""

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    stored: ClassVar[tuple[str | Channel, ...]] = ("joint",)


class TrajectoryTarget(JointTarget):
    """A posture to go to, or a trajectory to follow, whichever came last.

    Attributes:
        count: Number of points as the first element, per arm, (1,).
        points: Per arm, (128, 1 + 3 n): time since it came [s], q, dq and ddq [rad, s].
        tolerances: Per arm, (2 n + 1,): of path and goal (n each) [rad], time for it [s].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("joint", "trajectory")
    far: ClassVar[tuple[str, ...]] = ("joint",)
    joint_parts: ClassVar[tuple[str, ...]] = ("q",)

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
    """Tool pose in the arm's base, and the posture that the nullspace prefers.

    Attributes:
        position_ee_in_base: Per arm, (3,) [m].
        rotation_ee_in_base: Per arm, (3, 3).
        posture: Preferred joint positions, per arm, (n,) [rad].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("pose", "joint")
    leaning: ClassVar[tuple[str, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        poses = self.data["pose"]
        self.position_ee_in_base: list[Vector] = [data[:3] for data in poses]
        self.rotation_ee_in_base: list[Matrix] = [data[3:].reshape(3, 3) for data in poses]
        self.posture: list[Vector] = [data[:n] for data, n in zip(self.data["joint"], self.joints)]

    def seed(self, states: Sequence[ArmState]) -> None:
        """Take the measured poses and postures over."""
        for arm, state in enumerate(states):
            self.position_ee_in_base[arm][:] = state.position_ee_in_base
            self.rotation_ee_in_base[arm][:] = state.rotation_ee_in_base
            self.posture[arm][:] = state.q

    def displace(self, arm: int, error: Vector) -> None:
        """Move a seeded pose by an error (6,) [m, rad] along and about the axes of the base."""
        self.position_ee_in_base[arm][:] += error[:3]
        self.rotation_ee_in_base[arm][:] = pin.exp3(error[3:]) @ self.rotation_ee_in_base[arm]


class HeldPose(CartesianTarget):
    """A Cartesian target that nobody can write to: the law keeps what it measured."""

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    stored: ClassVar[tuple[str | Channel, ...]] = CartesianTarget.channels


class ReferenceMotion:
    """How a reference pose moves as its goal does, besides where it is.

    Attributes:
        moving: Whether it does; the rest counts only then.
        twist: (6,) [m/s, rad/s].
        acceleration: (6,) [m/s^2, rad/s^2].
    """

    __slots__ = ("acceleration", "moving", "twist")

    def __init__(self) -> None:
        self.moving = False
        self.twist, self.acceleration = np.zeros(6), np.zeros(6)


class MovingCartesianTarget(CartesianTarget):
    """A Cartesian target that may also say how fast to move and how stiff to be.

    Attributes:
        twist_ee_in_base: Per arm, (6,) [m/s, rad/s].
        stiffness: Per arm, (6, 6) [N/m, Nm/rad].
        motion: How a governor moves the pose, per arm.
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
        """Forget everything, at the start of an activation."""
        super().clear()
        for motion in self.motion:
            motion.moving = False


class ForceTarget(CartesianTarget):
    """A Cartesian target, how stiff to be, and the wrench that the tool exerts on the world.

    Attributes:
        stiffness: Per arm, (6, 6) [N/m, Nm/rad].
        wrench_in_base: Force and torque at the tool's point, per arm, (6,) [N, Nm].
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
    """Pose of an object that several arms hold, the force between them, and postures.

    Attributes:
        position_object_in_world: (3,) [m].
        rotation_object_in_world: (3, 3).
        squeeze: Force with which the arms press the object, (1,) [N].
        posture: Preferred joint positions, per arm, (n,) [rad].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("object", "squeeze", "joint")
    leaning: ClassVar[tuple[str, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        pose = self.data["object"][0]
        self.position_object_in_world: Vector = pose[:3]
        self.rotation_object_in_world: Matrix = pose[3:].reshape(3, 3)
        self.squeeze: Vector = self.data["squeeze"][0]
        self.posture: list[Vector] = [data[:n] for data, n in zip(self.data["joint"], self.joints)]
