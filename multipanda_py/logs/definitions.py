# SPDX-License-Identifier: Apache-2.0
"""What messages in a log look like, for readers that do not know: ROS 2 definitions as text."""

from __future__ import annotations

from collections.abc import Sequence

from multipanda_py.loop.row import Field

_FIELDS = {
    "builtin_interfaces/msg/Time": "int32 sec\nuint32 nanosec\n",
    "std_msgs/msg/Header": "builtin_interfaces/Time stamp\nstring frame_id\n",
    "std_msgs/msg/String": "string data\n",
    "geometry_msgs/msg/Point": "float64 x\nfloat64 y\nfloat64 z\n",
    "geometry_msgs/msg/Vector3": "float64 x\nfloat64 y\nfloat64 z\n",
    "geometry_msgs/msg/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n",
    "geometry_msgs/msg/Pose": (
        "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation\n"
    ),
    "geometry_msgs/msg/Twist": "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular\n",
    "geometry_msgs/msg/Wrench": "geometry_msgs/Vector3 force\ngeometry_msgs/Vector3 torque\n",
    "geometry_msgs/msg/PoseStamped": "std_msgs/Header header\ngeometry_msgs/Pose pose\n",
    "geometry_msgs/msg/TwistStamped": "std_msgs/Header header\ngeometry_msgs/Twist twist\n",
    "geometry_msgs/msg/WrenchStamped": "std_msgs/Header header\ngeometry_msgs/Wrench wrench\n",
    "sensor_msgs/msg/JointState": (
        "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n"
        "float64[] effort\n"
    ),
    "rcl_interfaces/msg/Log": (
        "builtin_interfaces/Time stamp\nuint8 level\nstring name\nstring msg\nstring file\n"
        "string function\nuint32 line\n"
    ),
}
_BAR = "=" * 80


def definition(schema: str) -> str:
    """Return the definition of a type followed by those it is made of, as logs have it.

    Raises:
        KeyError: If no log of ours has such a message.
    """
    parts: dict[str, str] = {}
    _collect(schema, parts)
    first = parts.pop(schema)
    rest = [f"{_BAR}\nMSG: {name.replace('/msg/', '/')}\n{text}" for name, text in parts.items()]
    return "".join([first, *rest])


def record_definition(fields: Sequence[Field], shapes: Sequence[tuple[int, ...]]) -> str:
    """Return the definition of a record of rows: its memory is the message.

    Args:
        fields: All of 8 bytes a number.
        shapes: Of each; several dimensions follow one another row by row.
    """
    lines = []
    for field, shape in zip(fields, shapes):
        count = 1
        for size in shape:
            count *= size
        if not count:  # of what no arm of the cell has
            continue
        size_text = f"[{count}]" if shape else ""
        kind = "int64" if field.kind == "i8" else "float64"
        unit = f" [{field.unit}]" if field.unit else ""
        lines.append(f"{kind}{size_text} {field.name.lower()}  # {field.doc}{unit}")
    return "\n".join(lines) + "\n"


def _collect(schema: str, parts: dict[str, str]) -> None:
    text = parts[schema] = _FIELDS[schema]
    for line in text.splitlines():
        package, _, name = line.split()[0].removesuffix("[]").partition("/")
        if name and (full := f"{package}/msg/{name}") not in parts:
            _collect(full, parts)
