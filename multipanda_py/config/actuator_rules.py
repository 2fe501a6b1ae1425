# SPDX-License-Identifier: Apache-2.0
"""The compliant actuators of an arm fit the arm, its backend and one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.config.actuator_section import (
    WITH_MOTORS,
    ActuatorConfig,
    LinkPidConfig,
    MotorConfig,
)
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ActuatorRefused, ConfigurationError

if TYPE_CHECKING:
    from multipanda_py.config.cell_sections import CellSections
    from multipanda_py.config.sections import ArmConfig
    from multipanda_py.controllet import Controllet


def actuator_faults(name: str, arm: ArmConfig) -> Iterator[str]:
    """Yield what is wrong with an arm's actuators; its other sections are well formed."""
    if not arm.actuators:
        return
    where = f"arms.{name}.actuators"
    try:
        if not find_backend(arm.backend).simulates_actuators:
            yield (
                f"{where}: got compliant actuators with backend {arm.backend}, allowed with "
                "backend mujoco: they are simulated"
            )
            return
    except ConfigurationError:  # of a backend that is missing, as is said of it
        return
    if not arm.joints.is_default:
        yield (
            f"{where}: got compliant actuators beside arms.{name}.joints, allowed one of them: "
            "both are the spring between a motor and its joint"
        )
    joints = tuple(joint.name for joint in arm.robot.joints)
    yield from _taken(where, arm, joints)
    for key, group in arm.actuators.items():
        yield from _group_faults(f"{where}.{key}", group, len(group.joints or joints))
    slides = [j for j, is_one in zip(joints, arm.robot.limits.slides) if is_one]
    for key, group in arm.actuators.items():
        for joint in group.joints or joints:
            if joint in slides:
                yield f"{where}.{key}.joints: got {joint}, which slides, allowed joints that turn"


def command_faults(
    where: str,
    law: type[Controllet[Any, Any]],
    kind: str,
    config: CellSections,
    arms: Sequence[str],
    values: Mapping[str, Any],
) -> Iterator[str]:
    """Yield what is wrong with a law and its parameters on arms of a cell without other faults.

    Args:
        where: Path of the controllet.
        law: Its class.
        kind: Its name.
        config: The cell.
        arms: Names of its arms, which exist.
        values: Its parameters by name.
    """
    rigid = [name for name in arms if not config.arms[name].actuators]
    if law.commands_actuators and rigid:
        yield (
            f"{where}.type: {kind} commands motors and springs, which arm {rigid[0]} does not "
            f"have; allowed for arms with a section actuators"
        )
        return
    described = {name: describe_arm(name, config.arms[name]) for name in arms}
    yield from (f"{where}.params.{why}" for why in law.refuse(values, described))


def _taken(where: str, arm: ArmConfig, joints: Sequence[str]) -> Iterator[str]:
    """Yield a fault for joints that do not exist, or are there twice."""
    owner: dict[str, str] = {}
    for key, group in arm.actuators.items():
        for joint in group.joints or joints:
            if joint not in joints:
                yield (
                    f"{where}.{key}.joints: got {joint!r}, which does not exist; known: "
                    f"{', '.join(joints)}"
                )
            elif joint in owner:
                yield (
                    f"{where}.{key}.joints: got {joint}, which group {owner[joint]} has, allowed "
                    "each joint once"
                )
            owner[joint] = key


def _group_faults(where: str, group: ActuatorConfig, n_joints: int) -> Iterator[str]:
    try:
        springs = group.actuator(n_joints)
    except (ConfigurationError, ActuatorRefused) as error:
        of_file = bool(group.identified) and str(error).startswith(group.identified)
        place = "identified" if of_file else "type"
        place = "params" if isinstance(error, ActuatorRefused) else place
        yield f"{where}.{place}: {error}"
    else:
        if group.motor_2 is not None and springs.n_motors == 1:
            yield f"{where}.motor_2: got a second motor, allowed without: {group.type} has one"
        try:
            springs.checked_preset(group.preset)
        except ActuatorRefused as error:
            yield f"{where}.preset: {error}"
    for joint, most in enumerate(group.exertable(n_joints)):
        if most == 0.0 and not group.actuator(n_joints).exertable(group.preset)[joint]:
            yield (
                f"{where}.preset: got one at which the springs of joint {joint + 1} of the group "
                "exert nothing; allowed what stiffens them"
            )
        elif most == 0.0:
            yield (
                f"{where}.motor.max_torque: got less than the springs of joint {joint + 1} of the "
                "group take at the preset alone, friction included; allowed more, or another "
                "preset"
            )
    if group.mode in WITH_MOTORS and group.motor is None:
        yield (
            f"{where}.motor: missing for mode {group.mode}; allowed without motors: modes "
            "equilibrium, spring_references, link_torque and link_pid"
        )
    lists = {"output_inertia": group.output_inertia}
    for key in ("motor", "motor_2"):
        motor: MotorConfig | None = getattr(group, key)
        if motor is None:
            continue
        lists |= {f"{key}.{own}": getattr(motor, own) for own in MotorConfig.model_fields}
        yield from _reversed_stops(f"{where}.{key}", motor, n_joints)
    lists |= {
        f"link_pid.{key}": getattr(group.link_pid, key) for key in LinkPidConfig.model_fields
    }
    if group.mode == "link_pid" and not np.all(group.link_pid.p):
        yield (
            f"{where}.link_pid.p: got {group.link_pid.p}, allowed more than 0 in mode link_pid: "
            "nothing else turns the link"
        )
    for key, values in lists.items():
        if isinstance(values, list) and len(values) != n_joints:
            yield (
                f"{where}.{key}: got {len(values)} numbers, allowed one or {n_joints}, one for "
                "each joint of the group"
            )


def _reversed_stops(where: str, motor: MotorConfig, n_joints: int) -> Iterator[str]:
    """Yield a fault for a lower stop that is not below the upper one."""
    try:
        low, high = (np.broadcast_to(stops, n_joints) for stops in (motor.low, motor.high))
    except ValueError:  # another number of them, as is said
        return
    for joint in np.flatnonzero(low >= high)[:1]:
        whose = f" for joint {joint + 1} of the group" if n_joints > 1 else ""
        yield f"{where}.low: got {low[joint]:g}{whose}, allowed less than high, {high[joint]:g}"
