# SPDX-License-Identifier: Apache-2.0
"""Logs of cells, their events, and checks of recorded data."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.exceptions import LogError, UnknownName
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.recording.arm_log import JOINT_COLUMNS, ArmLog, joined
from multipanda_py.realtime.recording.measured_motion import (
    clipped_torques,
    constant_joints,
    other_joints,
    saturated,
    wrong_positions,
    wrong_times,
    wrong_torques,
    wrong_velocities,
)
from multipanda_py.realtime.recording.messages import Layout, Numbers, Part, definition
from multipanda_py.registry import needed
from multipanda_py.robots import MODELS

if TYPE_CHECKING:
    import pandas as pd


EVENTS_TOPIC_NAME = "/events"
SCHEMA = "rcl_interfaces/msg/Log"
EVENTS_TOPIC = (EVENTS_TOPIC_NAME, SCHEMA, definition(SCHEMA))
_INFO, _WARN, _ERROR = 20, 30, 40  # Severities of ``rcl_interfaces/msg/Log``.


@dataclass(frozen=True)
class EventMessage:
    """Serialised message of the topic ``/events``, which contains the events of a loop.

    Attributes:
        time: Time since the epoch [ns].
        data: Serialised message.
    """

    time: int
    data: bytes


def event_message(event: LoopEvent, time: int) -> EventMessage:
    """Convert an event to a ``rcl_interfaces/Log`` message.

    The field ``name`` of the message is the arm, ``file`` the controllet, and ``function`` the
    kind of the event.

    Args:
        event: Event of a loop.
        time: Time since the epoch [ns].
    """
    level = _ERROR if event.event.is_fault else _WARN
    if event.event is Event.NOTICE or event.event.is_routine:
        level = _INFO
    kind = event.event.name.lower()
    parts: list[Part] = [
        Numbers("sec", "i4"), Numbers("nanosec", "u4"), Numbers("level", "u1"),
        event.arm, event.text, event.controllet, kind, Numbers("line", "u4"),
    ]  # fmt: skip
    layout = Layout(SCHEMA, parts)
    data = np.frombuffer(bytearray(layout.template), layout.dtype)
    data["sec"], data["nanosec"] = divmod(time, 1_000_000_000)
    data["level"] = level
    return EventMessage(time, data.tobytes())


@dataclass(frozen=True)
class Mark:
    """Event at one instant of a log, such as a fault or a change of the controllet.

    Attributes:
        time: Robot time [s].
        arm: Name of the arm; empty for the cell.
        kind: ``fault``, ``recovered``, ``law`` (new controllet of the arm) or ``event`` (event of
            the loop).
        text: Description.
    """

    time: float
    arm: str
    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Log:
    """Data of arms that were recorded together, or in succession in one experiment.

    Attributes:
        arms: Logs of the arms, by name.
        source: Paths of the files from which the log was read.
        about: Metadata of the log: versions, date, number of lost records.
        cell: Cell file as JSON if a cell recorded the log, otherwise empty.
        marks: Events in the order of robot time; for joined logs, those of the first log.
    """

    arms: Mapping[str, ArmLog]
    source: tuple[Path, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    cell: str = ""
    marks: tuple[Mark, ...] = ()

    def the_arm(self, name: str | None = None) -> ArmLog:
        """Return an arm by name, or the only arm of the log.

        Raises:
            LogError: If the arm does not exist, or ``name`` is None and there are several arms.
        """
        if name is None and len(self.arms) == 1:
            return next(iter(self.arms.values()))
        if name is None or name not in self.arms:
            description = "no arm was named" if name is None else f"no arm {name!r}"
            raise LogError(
                f"{self.source_description}: {description}; there are {', '.join(self.arms)}"
            )
        return self.arms[name]

    @property
    def source_description(self) -> str:
        """Paths of the files, for messages."""
        return ", ".join(map(str, self.source)) or "log"

    def to_pandas(self) -> pd.DataFrame:
        """Return one table of all arms in succession; the column ``arm`` is the name of the arm.

        :meth:`.ArmLog.to_pandas` describes the other columns.
        """
        tables = []
        for name, log in self.arms.items():
            table = log.to_pandas()
            table.insert(0, "arm", name)
            tables.append(table)
        return needed("pandas").concat(tables, ignore_index=True)


def joined_logs(logs: Sequence[Log]) -> Log:
    """Join several logs of one experiment in the given order: the samples of each arm are joined.

    Cell file and events are those of the first log.

    Raises:
        LogError: If the logs of an arm cannot be joined, see :func:`.joined`.
    """
    if len(logs) == 1:
        return logs[0]
    names = dict.fromkeys(name for log in logs for name in log.arms)
    arms = {name: joined([log.arms[name] for log in logs if name in log.arms]) for name in names}
    about = dict(logs[0].about)
    about |= next(({"torn": log.about["torn"]} for log in logs if "torn" in log.about), {})
    if dropped := sum(int(log.about.get("dropped", "0")) for log in logs):
        about["dropped"] = f"{dropped}"
    return Log(
        arms,
        tuple(path for log in logs for path in log.source),
        about,
        logs[0].cell,
        logs[0].marks,
    )


def marks_of(arms: Mapping[str, ArmLog]) -> tuple[Mark, ...]:
    """Return the starts and ends of faults and the changes of controllets, ordered by time."""
    marks: list[Mark] = []
    for name, log in arms.items():
        fault = log.columns.get("fault")
        if fault is not None:
            before = np.concatenate([[0], fault[:-1]])
            for k in np.flatnonzero(fault != before):
                kind = "fault" if fault[k] else "recovered"
                marks.append(Mark(float(log.time[k]), name, kind, fault_name(int(fault[k]))))
        owner = log.columns.get("owner")
        if owner is not None and log.laws:
            marks += [
                Mark(float(log.time[k]), name, "law", log.laws[int(owner[k])])
                for k in np.flatnonzero(np.diff(owner, prepend=-1))
            ]
    return tuple(sorted(marks, key=lambda mark: mark.time))


def fault_name(number: int) -> str:
    """Return the name of a fault by its number in :class:`.Event`; empty for 0."""
    try:
        return Event(number).name.lower() if number else ""
    except ValueError:
        return f"fault {number}"


def read_event(message: bytes, time: float) -> Mark:
    """Convert an event message (``rcl_interfaces/Log``) to a mark.

    Args:
        message: Message in CDR format.
        time: Robot time [s].
    """
    at = 4 + 9
    texts = []
    for _ in range(4):
        at += -(at - 4) % 4
        (length,) = struct.unpack_from("<I", message, at)
        texts.append(message[at + 4 : at + 4 + length - 1].decode("utf-8", "replace"))
        at += 4 + length
    arm, text, law, kind = texts
    return Mark(time, arm, "event", f"{kind}: {text}" + (f" ({law})" if law else ""))


_MAX_GAP_FRACTION = 0.05
"""Fraction of the duration of a log in gaps, above which the log is reported as incomplete."""


def check_log(
    log: ArmLog, robot: str | None = None, shortest: float = 0.0, *, moves: bool = True
) -> list[str]:
    """Check a log for missing data, wrong units, joints at rest and saturated torques.

    Args:
        log: Log of one arm.
        robot: Name of the expected robot model; by default that of the log. If both are unknown,
            limits are not checked.
        shortest: Minimum duration [s].
        moves: True to report joints that do not move.

    Returns:
        One message per problem.

    Raises:
        UnknownName: If the robot model does not exist.
    """
    name = robot or known_robot(log)
    result = _of_another_robot(log, name) + check_completeness(log, shortest)
    if result:
        return result  # Further checks would report the same problem again.
    result = check_columns(log, name)
    more = constant_joints(log.q, log.joints) if moves else []
    if log.tau is not None:
        known = [] if name is None else saturated(log.tau, log.joints, MODELS[name].limits)
        more += known or clipped_torques(log.tau, log.joints)
    return result + [f"{log.arm}: {sentence}" for sentence in more]


def check_columns(log: ArmLog, robot: str | None = None) -> list[str]:
    """Check a log for a wrong robot, wrong units or swapped columns.

    Samples with non-finite numbers are ignored.

    Args:
        log: Log of one arm.
        robot: Name of the expected robot model; by default that of the log. If both are unknown,
            limits are not checked.

    Returns:
        One message per problem.

    Raises:
        UnknownName: If the robot model does not exist.
    """
    name = robot or known_robot(log)
    if result := _of_another_robot(log, name):
        return result
    if result := wrong_times(log.time):  # Wrong times would also fail the check of velocities.
        return [f"{log.arm}: {sentence}" for sentence in result]
    numbers = np.hstack([log[column] for column in JOINT_COLUMNS if column in log.names])
    fine = np.isfinite(numbers).all(axis=1)
    if not fine.any():
        return []
    if not fine.all():
        log = log.with_columns({column: log[column][fine] for column in log.names})
    result = []
    if log.dq is not None:
        result += wrong_velocities(log.time, log.q, log.dq, log.joints, log.segments())
    if name is not None:
        limits = MODELS[name].limits
        result += wrong_positions(log.q, log.joints, limits)
        if log.tau is not None:
            result += wrong_torques(log.tau, log.joints, limits)
    return [f"{log.arm}: {sentence}" for sentence in result]


def check_recording(log: Log) -> list[str]:
    """Return messages about a truncated recording and lost cycle records."""
    result = []
    if torn := log.about.get("torn"):
        result.append(f"{log.source_description}: the recording is truncated: {torn}")
    if (dropped := log.about.get("dropped", "0")) != "0":
        result.append(f"{log.source_description}: {dropped} cycle records were lost")
    return result


def known_robot(log: ArmLog) -> str | None:
    """Return the robot model of a log; None if it is not in :data:`.MODELS`."""
    return log.robot if log.robot in MODELS else None


def check_completeness(log: ArmLog, shortest: float = 0.0) -> list[str]:
    """Return messages about non-finite numbers, a short duration and gaps.

    Args:
        log: Log of one arm.
        shortest: Minimum duration [s].
    """
    holes = _not_numbers(log)
    if log.duration < shortest:
        holes.append(
            f"{log.arm}: got a duration of {log.duration:.1f} s, allowed >= {shortest:g} s"
        )
    lacking = float(np.diff(log.gaps(), axis=1).sum())
    if lacking > _MAX_GAP_FRACTION * log.duration:
        holes.append(
            f"{log.arm}: {lacking:.2f} of {log.duration:.2f} s lie in {len(log.gaps())} gaps"
        )
    return holes


def _of_another_robot(log: ArmLog, name: str | None) -> list[str]:
    if name is None:
        return []
    if name not in MODELS:
        raise UnknownName("robot", name, list(MODELS))
    result = other_joints(log.joints, MODELS[name])
    if len(log.joints) == MODELS[name].n_joints and known_robot(log) not in (None, name):
        result = [f"recorded on {log.robot}, not on {name}"]
    return [f"{log.arm}: {sentence}" for sentence in result]


def _not_numbers(log: ArmLog) -> list[str]:
    not_numbers = []
    for name in ("q", "dq", "tau", "tau_commanded"):
        if name in log.names and not np.isfinite(log[name]).all():
            at = np.argwhere(~np.isfinite(log[name]))
            k, joint = at[0].tolist()
            not_numbers.append(
                f"{log.arm}: {name} of {log.joints[joint]} is {log[name][k, joint]} at "
                f"{log.time[k]:.3f} s, and {len(at) - 1} more numbers are not finite"
            )
    return not_numbers
