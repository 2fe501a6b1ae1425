# SPDX-License-Identifier: Apache-2.0
"""From the toolbox's tags in a URDF to the section ``actuators`` of an arm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from multipanda_py.config.actuator_section import Mode
from multipanda_py.robots.read_gazebo import GazeboActuator, read_gazebo

_PRESETS = {"awas2": 0.005}
"""Where the toolbox's 0 until one is commanded is no spring at all: its paper's soft one [m]."""


def actuators_of(urdf: Path, joints: Sequence[str]) -> dict[str, Any]:
    """Return the section that a URDF's plug-ins make, empty if it has none.

    Joints with the same type and mode, and the same parameters given, are one group, named after
    its type: springs are computed group by group. Joints of the URDF that the arm does not have,
    as those of another arm, are left out.

    Args:
        urdf: The file.
        joints: Names of the arm's joints.

    Raises:
        ConfigurationError: If a tag is not what it has to be.
    """
    mine = [actuator for actuator in read_gazebo(urdf) if actuator.joint in joints]
    alike: dict[tuple[Any, ...], list[GazeboActuator]] = {}
    for actuator in mine:
        given = (tuple(actuator.params), *(tuple(motor) for motor in actuator.motors))
        alike.setdefault((actuator.type, actuator.mode, given), []).append(actuator)
    groups: dict[str, Any] = {}
    for members in alike.values():
        first = members[0]
        name = next(text for text in _names(first.type) if text not in groups)
        motors = [
            {key: [member.motors[k][key] for member in members] for key in first.motors[k]}
            for k in range(len(first.motors))
        ]
        groups[name] = {
            "type": first.type,
            "joints": [member.joint for member in members],
            "params": {key: [member.params[key] for member in members] for key in first.params},
            "mode": get_args(Mode)[first.mode],
            "motor": motors[0],
            **({"preset": _PRESETS[first.type]} if first.type in _PRESETS else {}),
            **({"motor_2": motors[1]} if len(motors) > 1 else {}),
        }
    return groups


def _names(kind: str) -> list[str]:
    return [kind, *(f"{kind}_{number}" for number in range(2, 65))]
