# SPDX-License-Identifier: Apache-2.0
"""Topics of a recorded cell, and the conversion of cycle records to their messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.cycle_record import (
    ARM_FIELDS,
    RECORD_FIELDS,
    TRACED_CHANNELS,
    Field,
    RecordLayout,
)
from multipanda_py.realtime.recording.messages import (
    Layout,
    Numbers,
    Part,
    definition,
    header,
    record_definition,
)

CELL_FILE = "cell.json"
"""Attachment of every log: the configuration of the cell."""


@dataclass(frozen=True)
class ArmPlan:
    """Description of one arm for a recorder.

    Attributes:
        name: Name in the cell.
        joints: Joint names with the prefix of the arm.
        base: Name of the base frame.
    """

    name: str
    joints: tuple[str, ...]
    base: str


@dataclass(frozen=True)
class CellPlan:
    """Description of a cell that a recorder needs instead of the cell file and controllets.

    Attributes:
        name: Name of the cell.
        rate: Number of cycles per second.
        records: Layout of the cycle records in shared memory.
        arms: Arms in order.
        laws: Names of the controllets, by their index in the cycle record.
        attachments: Texts attached to every recording, by name: cell file, robot descriptions.
        about: Metadata of every file.
    """

    name: str
    rate: float
    records: RecordLayout
    arms: tuple[ArmPlan, ...]
    laws: tuple[str, ...]
    attachments: dict[str, str] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the description as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CellPlan:
        """Return the description from a text of :meth:`to_json`."""
        data: dict[str, Any] = json.loads(text)
        location = data.pop("records")
        arms = tuple(
            ArmPlan(arm["name"], tuple(arm["joints"]), arm["base"]) for arm in data.pop("arms")
        )
        laws = tuple(data.pop("laws"))
        sizes = tuple(location.pop("sizes"))
        return cls(records=RecordLayout(**location, sizes=sizes), arms=arms, laws=laws, **data)


def quaternions(rotations: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return unit quaternions of rotation matrices in the order x y z w, (n, 4).

    With :math:`t = \operatorname{tr} R`, the squares of x, y and z are :math:`(1 + 2 R_{kk} - t) /
    4` for k = 1, 2, 3, and the square of w is :math:`(1 + t) / 4`. The component with the largest
    square is computed first (S. W. Shepperd, 1978).

    Args:
        rotations: Rotation matrices R, (n, 3, 3).
    """
    R = np.asarray(rotations, dtype=np.float64)
    x, y, z = (R[:, k, k] for k in range(3))
    trace = x + y + z
    products = np.empty((len(R), 4, 4))  # Four times the products of two quaternion components.
    for k, diagonal in enumerate((x, y, z)):
        products[:, k, k] = 1.0 + 2.0 * diagonal - trace
    products[:, 3, 3] = 1.0 + trace
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        products[:, i, j] = products[:, j, i] = R[:, j, i] + R[:, i, j]
        products[:, k, 3] = products[:, 3, k] = R[:, j, i] - R[:, i, j]
    largest = np.argmax(products[:, range(4), range(4)], axis=1)
    quaternions = products[np.arange(len(R)), largest]
    return np.asarray(quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True))


Rows = NDArray[np.void]
Columns = Mapping[str, NDArray[Any]]
CYCLES_TOPIC = "/cycles"
"""Topic of the fields of a cycle record that describe the whole cell."""
WHOLE_RECORD = "whole"
"""Name of the one field with all numbers, in a message that is an unchanged record."""
CYCLE_FIELDS = tuple(field for field in RECORD_FIELDS if field.name != "arms")


@dataclass(frozen=True)
class Topic:
    """Topic of a log.

    Attributes:
        name: Name as in ROS.
        layout: Layout of its messages.
        definition: Definition of its message type, as text.
        columns: Function that converts n cycle records to the numbers of n messages: an array (n,
            ...) for each :class:`.Numbers` of the layout, by name.
        chosen: Function that returns a flag for each cycle record, True to convert it to a
            message; None to convert all records.
        is_stamped: True if its messages begin with a header.
    """

    name: str
    layout: Layout
    definition: str
    columns: Callable[[Rows], Columns]
    chosen: Callable[[Rows], NDArray[np.bool_]] | None = None
    is_stamped: bool = True


def rows_topic(arm: str) -> str:
    """Return the name of the topic with all fields of an arm."""
    return f"/{arm}/row"


def topics_of(plan: CellPlan, dtype: np.dtype[np.void]) -> list[Topic]:
    """Return the topics of a recording; ``dtype`` is the type of a cycle record."""
    cycle = cycle_dtype(dtype)
    topics = [
        _raw_topic(CYCLES_TOPIC, "Cycle", CYCLE_FIELDS, cycle, lambda rows: packed(rows, cycle))
    ]
    for index, arm in enumerate(plan.arms):
        topics += _topics_of_arm(index, arm, dtype["arms"].base)
    return topics


def cycle_dtype(dtype: np.dtype[np.void]) -> np.dtype[np.void]:
    """Return the type of a cycle record without the field ``arms`` and without padding."""
    return np.dtype([(field.name, dtype[field.name]) for field in CYCLE_FIELDS])


def packed(rows: Rows, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Copy fields of cycle records to records without padding, (n,).

    Args:
        rows: Cycle records, (n,).
        dtype: Type of the result. Its names select the fields.
    """
    result = np.empty(len(rows), dtype)
    for name in dtype.names or ():
        result[name] = rows[name]
    return result


def _raw_topic(
    name: str,
    type_prefix: str,
    fields: tuple[Field, ...],
    record: np.dtype[np.void],
    extract: Callable[[Rows], NDArray[np.void]],
) -> Topic:
    raw = f"V{record.itemsize}"
    return Topic(
        name,
        Layout(f"multipanda_py/msg/{type_prefix}Row", [Numbers(WHOLE_RECORD, raw)]),
        record_definition(fields, [record[field.name].shape for field in fields]),
        lambda rows: {WHOLE_RECORD: np.ascontiguousarray(extract(rows)).view(raw)},
        is_stamped=False,
    )


def _topics_of_arm(index: int, arm: ArmPlan, record: np.dtype[np.void]) -> Iterator[Topic]:
    # The first topic contains all fields of the arm, the others are topics of the ROS node.
    name = rows_topic(arm.name)
    yield _raw_topic(name, "Arm", ARM_FIELDS, record, lambda rows: rows["arms"][:, index])
    n = len(arm.joints)
    for topic, (kind, columns) in _VIEWS.items():
        schema, parts = _PARTS[kind](arm.joints)
        channel = topic.removeprefix("target_") if topic.startswith("target_") else ""
        yield Topic(
            f"/{arm.name}/{topic}",
            Layout(schema, [*header(arm.base), *parts]),
            definition(schema),
            partial(_columns, columns, index, n),
            _follows(index, channel) if channel else None,
        )


def _columns(
    columns: Callable[[Rows, int], Columns], index: int, joints: int, rows: Rows
) -> Columns:
    return columns(rows["arms"][:, index], joints)


def _follows(index: int, channel: str) -> Callable[[Rows], NDArray[np.bool_]]:
    bit = 1 << TRACED_CHANNELS.index(channel)
    return lambda rows: (rows["arms"]["target_channels"][:, index] & bit) != 0


def _joints(joints: tuple[str, ...]) -> tuple[str, list[Part]]:
    numbers = [Numbers(name, "f8", (len(joints),), counted=True) for name in _JOINT_STATE]
    return "sensor_msgs/msg/JointState", [joints, *numbers]


def _geometry(name: str, count: int) -> Callable[[tuple[str, ...]], tuple[str, list[Part]]]:
    parts: list[Part] = [Numbers("x", "f8", (count,))]
    return lambda joints: (f"geometry_msgs/msg/{name}", parts)


def _pose(position: NDArray[np.float64], rotation: NDArray[np.float64]) -> Columns:
    turned = quaternions(rotation.reshape(-1, 3, 3))
    return {"x": np.concatenate([position, turned], axis=1)}


def _joint_states(*columns: NDArray[np.float64] | None) -> Columns:
    known = next(column for column in columns if column is not None)
    # Missing columns become NaN.
    nothing = np.full_like(known, np.nan)
    return dict(zip(_JOINT_STATE, (nothing if c is None else c for c in columns)))


def _joint_commands(arms: Rows, n: int) -> Columns:
    command = arms["joint_command"][:, :2, :n].copy()
    effort = arms["tau"][:, :n].copy()
    is_effort = arms["interface"] == 0
    command[is_effort] = np.nan
    effort[~is_effort] = np.nan
    return _joint_states(command[:, 0], command[:, 1], effort)


_JOINT_STATE = ("position", "velocity", "effort")
_PARTS: dict[str, Callable[[tuple[str, ...]], tuple[str, list[Part]]]] = {
    "joints": _joints,
    "pose": _geometry("PoseStamped", 7),
    "twist": _geometry("TwistStamped", 6),
    "wrench": _geometry("WrenchStamped", 6),
}
_VIEWS: dict[str, tuple[str, Callable[[Rows, int], Columns]]] = {
    "joint_states": (
        "joints",
        lambda arms, n: _joint_states(*(arms[name][:, :n] for name in ("q", "dq", "tau_J"))),
    ),
    "joint_commands": ("joints", _joint_commands),
    "current_pose": (
        "pose", lambda arms, n: _pose(arms["position_ee_in_base"], arms["rotation_ee_in_base"]),
    ),
    "current_twist": ("twist", lambda arms, n: {"x": arms["twist_ee_in_base"]}),
    "external_wrench": ("wrench", lambda arms, n: {"x": arms["wrench_ext_in_base"]}),
    "target_pose": (
        "pose", lambda arms, n: _pose(arms["target_pose"][:, :3], arms["target_pose"][:, 3:]),
    ),
    "target_joint": (
        "joints",
        lambda arms, n: _joint_states(*np.moveaxis(arms["target_joint"][:, :, :n], 1, 0), None),
    ),
    "target_twist": ("twist", lambda arms, n: {"x": arms["target_twist"]}),
    "target_wrench": ("wrench", lambda arms, n: {"x": arms["target_wrench"]}),
}  # fmt: skip
"""Topics of standard types by name: kind of message, and function that returns the numbers of
messages from records of an arm with n joints. Topics of targets have messages only while the
controllet of the arm follows such a target."""
