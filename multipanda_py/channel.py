# SPDX-License-Identifier: Apache-2.0
"""A channel: one kind of request to a law, declared once.

From the declaration follow the record in shared memory, the check at the gate, the method of
the handle, the ROS topic and the documentation. The built-in ones are in ``channels/``, one a
file; a law or feature of another package names its own in its ``channels``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py import registry
from multipanda_py.exceptions import (
    ConfigurationError,
    MultipandaError,
    TargetRejected,
    UnknownName,
)
from multipanda_py.limits import ArmLimits, GateLimits
from multipanda_py.pose import Pose, are_finite
from multipanda_py.report import Reports
from multipanda_py.state import ArmSnapshot, Matrix, Vector

if TYPE_CHECKING:
    from multipanda_py.channels.stream import Stream
    from multipanda_py.robots.actuated_joints import ActuatedJoints

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
