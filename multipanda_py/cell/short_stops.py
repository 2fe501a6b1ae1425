# SPDX-License-Identifier: Apache-2.0
"""Which motors of springs stop before their joints do, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multipanda_py.config.actuator_section import WITHOUT_SPRINGS, ActuatorConfig, places_of
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.sections import ArmConfig


def short_stops(config: CellConfig) -> list[str]:
    """Say, once for an arm, where stops of motors are in the way of their joints.

    Springs without a load have their motors at the joint, or a preset to either side of it. What
    the weight needs besides is looked at when a cell starts, where it starts.
    """
    found = []
    for name, arm in config.arms.items():
        names = tuple(joint.name for joint in arm.rigid_robot.joints)
        parts = [
            part
            for key, at in places_of(arm.actuators, names).items()
            for part in _short_of(arm, arm.actuators[key], at)
        ]
        if parts:
            found.append(
                f"arms.{name}.actuators: motors stop before their joints, further on springs "
                f"bend until they end, and a load takes more of that: {'; '.join(parts)}"
            )
    return found


def _short_of(arm: ArmConfig, group: ActuatorConfig, at: list[int]) -> Iterator[str]:
    if group.motor is None or group.mode in WITHOUT_SPRINGS:
        return
    springs, (start, end) = group.actuator(len(at)), arm.rigid_robot.limits.span
    joint_low, joint_high, q = start[at], end[at], np.array(arm.q_start)[at]
    ahead = springs.references(np.zeros(len(at)), np.zeros(len(at)) + group.preset)
    both = (group.motor, group.motor_2 or group.motor)[: 2 if springs.is_antagonistic else 1]
    low = np.max([np.subtract(motor.low, one) for motor, one in zip(both, ahead)], axis=0)
    high = np.min([np.subtract(motor.high, one) for motor, one in zip(both, ahead)], axis=0)
    short = (low > np.where(np.isfinite(joint_low), joint_low, q)) | (
        high < np.where(np.isfinite(joint_high), joint_high, q)
    )
    for i in np.flatnonzero(short):
        lost = "" if low[i] <= q[i] <= high[i] else f", and starts at {q[i]:.3g}"
        yield (
            f"{arm.rigid_robot.joints[at[i]].name} at {low[i]:.3g} and {high[i]:.3g} rad, it goes "
            f"from {joint_low[i]:.3g} to {joint_high[i]:.3g}{lost}"
        )
