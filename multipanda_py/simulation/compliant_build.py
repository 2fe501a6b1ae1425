# SPDX-License-Identifier: Apache-2.0
"""From the section ``actuators`` of an arm to its springs and motors."""

from __future__ import annotations

from itertools import chain
from typing import Any

import mujoco
import numpy as np

from multipanda_py.actuator import Actuator
from multipanda_py.compliance.joints import CompliantJoints
from multipanda_py.compliance.mode import OperationMode
from multipanda_py.compliance.motors import Motors
from multipanda_py.config.actuator_section import ActuatorConfig, MotorConfig, places_of
from multipanda_py.config.sections import ArmConfig
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.compliant_arm import CompliantArm
from multipanda_py.simulation.link_torque import LinkTorque
from multipanda_py.state import Vector

MOTOR_KEYS = tuple(MotorConfig.model_fields)


def elastic_of(settings: ArmConfig) -> list[int]:
    """Return which joints of an arm are compliant, counted from 0, in the order of the joints."""
    names = tuple(joint.name for joint in settings.robot.joints)
    return sorted(chain.from_iterable(places_of(settings.actuators, names).values()))


def groups_of(settings: ArmConfig) -> list[tuple[ActuatorConfig, list[int]]]:
    """Return the groups of an arm, with the places of their joints among the compliant ones."""
    names, elastic = tuple(joint.name for joint in settings.robot.joints), elastic_of(settings)
    places = places_of(settings.actuators, names)
    return [
        (group, [elastic.index(joint) for joint in places[key]])
        for key, group in settings.actuators.items()
    ]


def springs_of(settings: ArmConfig) -> list[tuple[Actuator[Any], list[int]]]:
    """Return the springs of an arm, with the places of their joints among the compliant ones.

    All of one type are one object, as they are computed together.
    """
    found = []
    groups = groups_of(settings)
    for kind in dict.fromkeys(group.type for group, _ in groups):
        parts = [(group.actuator(len(at)), at) for group, at in groups if group.type == kind]
        order = np.argsort([place for _, at in parts for place in at])
        params = {
            name: np.concatenate([springs.of[name] for springs, _ in parts])[order]
            for name in parts[0][0].of
        }
        at = sorted(place for _, own in parts for place in own)
        found.append((type(parts[0][0])(len(at), params), at))
    return found


def presets_of(settings: ArmConfig) -> Vector:
    """Return the stiffness presets of an arm's compliant joints, (m,)."""
    found = np.zeros(len(elastic_of(settings)))
    for group, places in groups_of(settings):
        found[places] = group.preset
    return found


def modes_of(settings: ArmConfig) -> list[OperationMode]:
    """Return the mode of every compliant joint of an arm."""
    found = [OperationMode.EQUILIBRIUM] * len(elastic_of(settings))
    for group, places in groups_of(settings):
        for place in places:
            found[place] = OperationMode.of(group.mode)
    return found


def motors_of(settings: ArmConfig) -> Motors | None:
    """Return the motors of an arm's compliant joints; None if no group has any.

    Groups without motors get the default ones, which no mode of theirs uses. A second motor that
    moves a pivot does so by a pinion, if nothing is said of it.
    """
    groups = groups_of(settings)
    if not any(group.motor for group, _ in groups):
        return None
    given: dict[str, Any] = {key: np.zeros(len(elastic_of(settings))) for key in MOTOR_KEYS}
    for group, places in groups:
        for key in MOTOR_KEYS:
            given[key][places] = getattr(group.motor or MotorConfig(), key)
    both = Motors.of(springs_of(settings), **given)
    rows = {key: getattr(both, key).copy() for key in MOTOR_KEYS}
    for group, places in groups:
        for key in MOTOR_KEYS if group.motor_2 else ():
            rows[key][1, places] = getattr(group.motor_2, key)
    return Motors(**rows)


def compliant_joints(settings: ArmConfig) -> CompliantJoints:
    """Return the compliant joints of an arm, with what its section says."""
    return CompliantJoints(
        springs_of(settings), len(elastic_of(settings)), motors_of(settings), modes_of(settings)
    )


def compliant_arm(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    arm: ArmDescription,
    settings: ArmConfig,
    period: float,
) -> CompliantArm:
    """Return what lies between commanded torques and the joints of a compliant arm.

    Args:
        model: The world.
        data: Its state.
        arm: The arm, as its laws and its robot believe it to be.
        settings: Its section of the cell file.
        period: Of a cycle [s].
    """
    joints, elastic = compliant_joints(settings), elastic_of(settings)
    modes, motors = modes_of(settings), motors_of(settings)
    drive = LinkTorque(joints, modes, motors, presets_of(settings), period)
    weight = settings.perturbation.inertia_scale  # of which the robot knows
    return CompliantArm(model, data, arm, joints, elastic, drive, weight)
