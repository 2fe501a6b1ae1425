# SPDX-License-Identifier: Apache-2.0
"""What arms that ROS 2 drives require of a cell file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from multipanda_py.ros2_control.settings import Ros2ControlSettings

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig

_TOPIC = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*\Z")


def check_arms(config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong: rate, topics and names of joints."""
    owner: dict[str, str] = {}
    for name in arms:
        arm = config.arms[name]
        settings, where = arm.settings, f"arms.{name}.ros2_control"
        if not isinstance(settings, Ros2ControlSettings):
            continue
        if settings.rate != config.cell.rate:
            yield (
                f"{where}.rate: got {settings.rate:g} Hz, allowed that of the cell "
                f"(cell.rate: {config.cell.rate:g}): the arm sets the pace"
            )
        for key in ("state_topic", "command_topic"):
            topic = getattr(settings, key)
            if not _TOPIC.match(topic):
                yield f"{where}.{key}: got {topic!r}, allowed the name of a topic"
        if settings.command_topic in owner:
            yield (
                f"{where}.command_topic: got {settings.command_topic}, which arm "
                f"{owner[settings.command_topic]} has"
            )
        owner[settings.command_topic] = name
        names, n = settings.joint_names.split(), arm.robot.n_joints
        if names and (len(names) != n or len(set(names)) != n):
            yield (
                f"{where}.joint_names: got {len(set(names))} names in {settings.joint_names!r}, "
                f"allowed {n}, one per joint"
            )
