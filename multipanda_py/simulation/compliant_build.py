# SPDX-License-Identifier: Apache-2.0
"""From the sections ``actuators`` of arms to the springs and motors of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from multipanda_py.actuator import Actuator
from multipanda_py.compliance.joints import CompliantJoints
from multipanda_py.compliance.mode import OperationMode
from multipanda_py.compliance.motors import LinkPid, Motors
from multipanda_py.config.actuator_section import (
    ActuatorConfig,
    LinkPidConfig,
    MotorConfig,
    places_of,
)
from multipanda_py.config.sections import ArmConfig
from multipanda_py.simulation.kept_motors import KeptMotors
from multipanda_py.simulation.link_torque import LinkTorque
from multipanda_py.state import Vector

MOTOR_KEYS = tuple(MotorConfig.model_fields)


def elastic_of(settings: ArmConfig) -> list[int]:
    """Return which joints of an arm are compliant, counted from 0, in the order of the joints."""
    names = tuple(joint.name for joint in settings.robot.joints)
    return sorted(chain.from_iterable(places_of(settings.actuators, names).values()))


class CompliantGroups:
    """The groups of compliant joints of several arms, which are computed together.

    Their joints are numbered arm by arm, and within an arm in the order of its joints.

    Args:
        arms: Sections of the cell file.

    Attributes:
        count: Number of compliant joints, n.
        groups: Sections of the groups, and the numbers of their joints.
    """

    def __init__(self, arms: Sequence[ArmConfig]) -> None:
        self.count, self.groups = 0, list[tuple[ActuatorConfig, list[int]]]()
        most: list[float] = []
        speed: list[float] = []
        for arm in arms:
            names, elastic = tuple(joint.name for joint in arm.robot.joints), elastic_of(arm)
            numbers = {joint: self.count + place for place, joint in enumerate(elastic)}
            for key, joints in places_of(arm.actuators, names).items():
                self.groups.append((arm.actuators[key], [numbers[joint] for joint in joints]))
            self.count += len(elastic)
            most += arm.robot.limits.torque[elastic].tolist()
            speed += arm.robot.limits.velocity[elastic].tolist()
        self._most: Vector = np.array(most)
        self._speed: Vector = np.array(speed)

    @property
    def springs(self) -> list[tuple[Actuator[Any], list[int]]]:
        """The springs, all of one type as one object."""
        found = []
        for kind in dict.fromkeys(group.type for group, _ in self.groups):
            parts = [(group.actuator(len(at)), at) for group, at in self.groups
                     if group.type == kind]  # fmt: skip
            joints = [joint for _, at in parts for joint in at]
            order = np.argsort(joints)
            params = {
                name: np.concatenate([springs.of[name] for springs, _ in parts])[order]
                for name in parts[0][0].of
            }
            found.append((type(parts[0][0])(len(joints), params), sorted(joints)))
        return found

    @property
    def presets(self) -> Vector:
        """Stiffness presets, (n,)."""
        found = np.zeros(self.count)
        for group, at in self.groups:
            found[at] = group.preset
        return found

    @property
    def modes(self) -> list[OperationMode]:
        """What is commanded of each."""
        found = [OperationMode.EQUILIBRIUM] * self.count
        for group, at in self.groups:
            for joint in at:
                found[joint] = OperationMode.of(group.mode)
        return found

    @property
    def motors(self) -> Motors | None:
        """The motors; None if no group has any.

        Groups without motors get the default ones, which no mode of theirs uses. A second motor
        that moves a pivot does so by a pinion, if nothing is said of it.
        """
        if not any(group.motor for group, _ in self.groups):
            return None
        given: dict[str, Any] = {key: np.zeros(self.count) for key in MOTOR_KEYS}
        for group, at in self.groups:
            for key in MOTOR_KEYS:
                given[key][at] = getattr(group.motor or MotorConfig(), key)
        both = Motors.of(self.springs, **given)
        rows = {key: getattr(both, key).copy() for key in MOTOR_KEYS}
        for group, at in self.groups:
            for key in MOTOR_KEYS if group.motor_2 else ():
                rows[key][1, at] = getattr(group.motor_2, key)
        return Motors(**rows)

    @property
    def link_pid(self) -> LinkPid:
        """The controllers of links, with torques up to those of their joints."""
        given = {key: np.zeros(self.count) for key in LinkPidConfig.model_fields}
        for group, at in self.groups:
            for key, values in given.items():
                own = getattr(group.link_pid, key)
                values[at] = self._most[at] if own is None else own
        return LinkPid.of(self.count, **given)

    def drive(self, period: float) -> LinkTorque:
        """Return the joints, as torque laws drive them in cycles of a length [s]."""
        motors, modes = self.motors, self.modes
        joints = CompliantJoints(self.springs, self.count, motors, modes, link_pid=self.link_pid)
        kept = None if motors is None else KeptMotors(joints, motors, self._speed, period)
        return LinkTorque(joints, modes, motors, self.presets, period, kept)
