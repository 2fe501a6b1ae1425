# SPDX-License-Identifier: Apache-2.0
"""From the section ``actuators`` of an arm to what may be asked of its joints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.config.actuator_section import places_of
from multipanda_py.robots.actuated_joints import ActuatedJoints

if TYPE_CHECKING:
    from multipanda_py.config.sections import ArmConfig


def actuated_joints(arm: ArmConfig) -> ActuatedJoints | None:
    """Return the joints of an arm that have compliant actuators; None without any.

    Raises:
        ConfigurationError: If its file of identified springs cannot be read.
        ActuatorRefused: If a parameter of springs is out of bounds.
    """
    names = tuple(joint.name for joint in arm.robot.joints)
    found: dict[int, tuple[Any, ...]] = {}
    for key, places in places_of(arm.actuators, names).items():
        group = arm.actuators[key]
        springs = group.actuator(len(places))
        for number, place in enumerate(places):
            found[place] = (
                group.mode, group.motor is not None, bool(springs.preset_unit),
                springs.is_antagonistic, springs.preset_low[number], springs.preset_high[number],
                springs.preset_unit,
            )  # fmt: skip
    if not found:
        return None
    order = sorted(found)
    modes, motors, second, antagonistic, low, high, units = zip(*(found[place] for place in order))
    return ActuatedJoints(
        tuple(names[place] for place in order), np.array(order), modes, np.array(motors),
        np.array(second), np.array(antagonistic), np.array(low), np.array(high),
        units,
    )  # fmt: skip
