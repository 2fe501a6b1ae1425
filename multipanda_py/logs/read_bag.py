# SPDX-License-Identifier: Apache-2.0
"""Joint states that others recorded: rosbag2, as sqlite3 or MCAP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import LogError, MissingExtra
from multipanda_py.extras import needed
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.logs.log import Log
from multipanda_py.robots import MODELS

BAGS = (".db3", ".mcap")
_JOINT_STATE = "sensor_msgs/msg/JointState"
_NAME = re.compile(r"(?P<prefix>.*?)_?(?P<joint>joint_?\d+)$")
_ROBOTS = {"panda": "fer"}
"""What others call a robot, by the name here."""


def read_bag(path: Path, robot: str | None = None) -> Log:
    """Read the joint states in a bag; every topic of them is an arm, named by its namespace.

    Args:
        path: A ``.db3`` or ``.mcap`` file, or the folder of a bag.
        robot: Name of the model; None to take it from the names of joints.

    Raises:
        LogError: If it cannot be read, or has no joint states.
    """
    highlevel, typesys = needed("rosbags.highlevel"), needed("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    try:
        with highlevel.AnyReader([path], default_typestore=store) as bag:
            told = [c for c in bag.connections if c.msgtype == _JOINT_STATE]
            measured = [c for c in told if c.topic.endswith("joint_states")] or told
            samples: dict[str, list[Any]] = {c.topic: [] for c in measured}
            for connection, time, raw in bag.messages(connections=measured):
                message = bag.deserialize(raw, connection.msgtype)
                samples[connection.topic].append((time, message))
    except (LogError, MissingExtra):
        raise
    except Exception as error:  # rosbags has errors of its own for each kind of bag
        raise LogError(f"{path}: cannot be read as a bag: {error}") from error
    filled = {topic: found for topic, found in samples.items() if found}
    if not filled:
        raise LogError(f"{path}: no {_JOINT_STATE} in it, which is all that is read of bags")
    logs = [_arm_of_topic(topic, found, robot, path) for topic, found in filled.items()]
    return Log({log.arm: log for log in logs}, (path,))


def _arm_of_topic(topic: str, samples: list[Any], robot: str | None, path: Path) -> ArmLog:
    names = list(samples[0][1].name)
    matches = {name: _NAME.match(name) for name in names if "finger" not in name}
    chosen = [name for name, match in matches.items() if match] or list(matches)
    chosen.sort(key=lambda name: (len(name), name))
    at = [names.index(name) for name in chosen]
    first = matches[chosen[0]]
    prefix = first["prefix"].split("_")[-1] if first else ""
    found = robot or _ROBOTS.get(prefix, prefix if prefix in MODELS else None)
    joints = tuple(match["joint"] if (match := matches[name]) else name for name in chosen)
    stamps = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for _, m in samples])
    if not (np.diff(stamps) > 0.0).all():  # nobody filled them in: when they were written then
        written = np.array([time for time, _ in samples])
        logged = (written - written[0]) * 1e-9
        stamps = logged if (np.diff(logged) > 0.0).all() else stamps
    if any(list(m.name) != names for _, m in samples):
        raise LogError(f"{path}: {topic} changes the names of its joints")

    def column(name: str) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        rows = [getattr(m, name) for _, m in samples]
        if any(len(row) != len(names) for row in rows):
            return None
        values = np.array(rows, dtype=np.float64)[:, at]
        return None if np.isnan(values).all() else np.ascontiguousarray(values)

    q = column("position")
    if q is None:
        raise LogError(f"{path}: {topic} has no positions")
    arm = topic.rpartition("/")[0].strip("/").replace("/", "_") or path.stem
    return ArmLog(arm, found, joints, stamps - stamps[0], q, column("velocity"), column("effort"))
