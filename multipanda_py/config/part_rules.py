# SPDX-License-Identifier: Apache-2.0
"""Rules for the parts of a cell: actuators, links, cameras, channels, interfaces, grippers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py import registry
from multipanda_py.config.actuator_section import (
    WITH_MOTORS,
    ActuatorConfig,
    LinkPidConfig,
    MotorConfig,
)
from multipanda_py.config.arm_section import ArmConfig, ToolConfig
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.describe import describe_arm, first_arm_without_simulation
from multipanda_py.config.renamed_keys import ACTUATOR_PARAMETERS
from multipanda_py.exceptions import ActuatorRejected, ConfigurationError
from multipanda_py.feature import Feature, feature_names
from multipanda_py.robots.geometry import rpy_from_rotation
from multipanda_py.robots.inertial import Load, combined, moments_of
from multipanda_py.state import COMMAND_INTERFACES
from multipanda_py.targets import Channel, channel_table, refuse_twin

if TYPE_CHECKING:
    from multipanda_py.config.arm_section import ArmConfig
    from multipanda_py.config.sections import CellSections
    from multipanda_py.controllet import Controllet


def actuator_faults(name: str, arm: ArmConfig) -> Iterator[str]:
    """Yield error messages on the section ``actuators`` of an arm.

    All other keys of the arm must be valid.
    """
    if not arm.actuators:
        return
    path = f"arms.{name}.actuators"
    try:
        if not find_backend(arm.backend).simulates_actuators:
            yield (
                f"{path}: backend {arm.backend} cannot simulate compliant actuators. Use backend "
                "mujoco"
            )
            return
    except ConfigurationError:  # The check of backends reports a backend that is not usable.
        return
    if not arm.transmission.is_default:
        yield (
            f"{path}: cannot be combined with arms.{name}.transmission, because both are the "
            "spring between motor and joint. Remove one of them"
        )
    joints = tuple(joint.name for joint in arm.robot.joints)
    yield from _joint_name_faults(path, arm, joints)
    for key, group in arm.actuators.items():
        yield from _group_faults(f"{path}.{key}", group, len(group.joints or joints))
    slides = [j for j, is_one in zip(joints, arm.robot.limits.slides) if is_one]
    for key, group in arm.actuators.items():
        for joint in group.joints or joints:
            if joint in slides:
                yield f"{path}.{key}.joints: {joint} is prismatic. Use revolute joints only"


def command_faults(
    path: str,
    law: type[Controllet[Any, Any]],
    kind: str,
    config: CellSections,
    arms: Sequence[str],
    values: Mapping[str, Any],
    section: str = "params",
) -> Iterator[str]:
    """Yield error messages on parameters of a controllet, and on missing compliant actuators.

    Args:
        path: Path of the controllet in the cell file.
        law: Controllet class.
        kind: Type name of the controllet.
        config: Configuration of a cell without other errors.
        arms: Names of the controllet's arms.
        values: Parameter values by name.
        section: Section of the controllet that contains these values.
    """
    rigid = [name for name in arms if not config.arms[name].actuators]
    if law.commands_actuators and rigid:
        yield (
            f"{path}.type: {kind} commands compliant actuators, which arm {rigid[0]} does not "
            f"have. Add a section actuators to the arm, or use another type"
        )
        return
    described = {name: describe_arm(name, config.arms[name]) for name in arms}
    yield from (f"{path}.{section}.{reason}" for reason in law.check_params(values, described))


def _joint_name_faults(path: str, arm: ArmConfig, known_joints: Sequence[str]) -> Iterator[str]:
    owner: dict[str, str] = {}
    for key, group in arm.actuators.items():
        for joint in group.joints or known_joints:
            if joint not in known_joints:
                yield (
                    f"{path}.{key}.joints: got {joint!r}, which does not exist; known: "
                    f"{', '.join(known_joints)}"
                )
            elif joint in owner:
                yield (
                    f"{path}.{key}.joints: {joint} already belongs to group {owner[joint]}. Name "
                    "each joint once"
                )
            owner[joint] = key


def _group_faults(location: str, group: ActuatorConfig, n_joints: int) -> Iterator[str]:
    for name in group.params:
        if new := ACTUATOR_PARAMETERS.get((group.type, name)):
            yield f"{location}.params.{name}: renamed to {new}"
            return
    try:
        springs = group.actuator(n_joints)
    except (ConfigurationError, ActuatorRejected) as error:
        of_file = bool(group.identified) and str(error).startswith(group.identified)
        path = "identified" if of_file else "type"
        path = "params" if isinstance(error, ActuatorRejected) else path
        yield f"{location}.{path}: {error}"
    else:
        if group.motor_2 is not None and springs.n_motors == 1:
            yield f"{location}.motor_2: {group.type} has only one motor. Remove the key"
        try:
            springs.checked_preset(group.preset)
        except ActuatorRejected as error:
            yield f"{location}.preset: {error}"
    for joint, max_value in enumerate(group.exertable(n_joints)):
        if max_value == 0.0 and not group.actuator(n_joints).torque_limit(group.preset)[joint]:
            yield (
                f"{location}.preset: the springs of joint {joint + 1} of the group exert no "
                f"torque "
                "at this preset. Use one that stiffens them"
            )
        elif max_value == 0.0:
            yield (
                f"{location}.motor.max_torque: the springs of joint {joint + 1} of the group need "
                "more than this at the preset alone, including friction. Raise it, or change the "
                "preset"
            )
    if group.mode in WITH_MOTORS and group.motor is None:
        yield (
            f"{location}.motor: missing for mode {group.mode}. Give it, or use a mode without "
            "motors: equilibrium, spring_references, link_torque or link_pid"
        )
    lists = {"output_inertia": group.output_inertia}
    for key in ("motor", "motor_2"):
        motor: MotorConfig | None = getattr(group, key)
        if motor is None:
            continue
        lists |= {f"{key}.{own}": getattr(motor, own) for own in MotorConfig.model_fields}
        yield from _reversed_stops(f"{location}.{key}", motor, n_joints)
    lists |= {
        f"link_pid.{key}": getattr(group.link_pid, key) for key in LinkPidConfig.model_fields
    }
    if group.mode == "link_pid" and not np.all(group.link_pid.p):
        yield (
            f"{location}.link_pid.p: got {group.link_pid.p}, allowed more than 0 in mode "
            f"link_pid, "
            "because no other torque drives the link"
        )
    for key, values in lists.items():
        if isinstance(values, list) and len(values) != n_joints:
            yield (
                f"{location}.{key}: got {len(values)} numbers, allowed one number or a list of "
                f"{n_joints}, one per joint of the group"
            )


def _reversed_stops(path: str, motor: MotorConfig, n_joints: int) -> Iterator[str]:
    try:
        low, high = (
            np.broadcast_to(stops, n_joints) for stops in (motor.min_position, motor.max_position)
        )
    except ValueError:  # Another check reports lists of the wrong length.
        return
    for joint in np.flatnonzero(low >= high)[:1]:
        owner = f" for joint {joint + 1} of the group" if n_joints > 1 else ""
        yield (
            f"{path}.min_position: got {low[joint]:g}{owner}, allowed less than max_position = "
            f"{high[joint]:g}"
        )


_IDENTIFIED_FILES = {"identified": "robot_of_laws", "perturbation.parameters": "robot_of_body"}
"""Keys of an arm that name files, and the property that reads each of them."""


def part_faults(config: CellSections) -> Iterator[str]:
    """Yield error messages on unreadable files of arms, and on duplicate link or joint names."""
    owner: dict[str, str] = {}
    for name, section in config.arms.items():
        try:
            arm = describe_arm(name, section)
        except ConfigurationError as error:
            yield from (f"arms.{name}: {fault}" for fault in error.faults)
            continue
        for key, attribute in _IDENTIFIED_FILES.items():
            try:
                getattr(section, attribute)
            except ConfigurationError as error:
                yield from (f"arms.{name}.{key}: {fault}" for fault in error.faults)
        parts = (*arm.link_names, *arm.joint_names)
        if taken := next((part for part in parts if owner.setdefault(part, name) != name), None):
            yield (
                f"arms.{name}: its link or joint {taken} has the name of one of arm "
                f"{owner[taken]}. Rename the arm or its model"
            )


OVERVIEW_CAMERA = "overview"
"""Name of the camera that every scene has."""
FREE_VIEW = "free"
"""Name of the initial view of the viewer, which every scene has."""
VIEW_KEYS = ("position", "look_at", "fovy")
"""Keys of a camera that the built-in overview camera does not accept."""
_MIN_VIEW_DISTANCE = 1e-3  # Minimum distance between a camera and the point that it looks at [m].


def camera_faults(config: CellSections) -> Iterator[str]:
    """Yield error messages on the cameras of a cell."""
    if not config.cameras:
        return
    # The check of backends reports a backend that is not usable.
    with contextlib.suppress(ConfigurationError):
        if real := first_arm_without_simulation(config):
            yield f"cameras: need a cell of simulated arms, got {real}. Remove the cameras"
    for name, camera in config.cameras.items():
        path = f"cameras.{name}"
        if name in (FREE_VIEW, *config.arms, *config.objects):
            yield f"{path}: an arm, an object or the free view has this name. Choose another"
        values = [key for key in VIEW_KEYS if getattr(camera, key) is not None]
        if name == OVERVIEW_CAMERA:
            for key in values:
                yield f"{path}.{key}: the scene sets it for this camera. Remove the key"
        elif missing := [key for key in VIEW_KEYS[:2] if key not in values]:
            yield f"{path}.{missing[0]}: missing. Give a point in the world [m]"
        elif math.dist(camera.position or (), camera.look_at or ()) < _MIN_VIEW_DISTANCE:
            yield f"{path}.look_at: equals the position. Give a point in front of the camera"


def channel_faults(config: CellSections) -> Iterator[str]:
    """Yield error messages on channels with the same name or topic as another channel."""
    known: list[Channel] = []
    for name, controllet in config.controllets.items():
        law = registry.find("controllets", controllet.type)
        parts = [
            registry.find("features", part) for part in feature_names(law, controllet.features)
        ]
        declared = (channel for part in (law.Target, *parts) for channel in part.channels)
        for channel in channel_table(declared).values():
            try:
                for other in known:
                    refuse_twin(channel, other)
            except ConfigurationError as error:
                yield f"controllets.{name}.type: {controllet.type}: {error}"
            else:
                known.append(channel)


def only_adds_torques(feature: type[Feature[Any]]) -> bool:
    """Return True if the only effect of a feature is a torque.

    Such a feature needs a controllet with the command interface ``effort``.
    """
    has = [name for name in ("add", "prepare", "velocity_scale") if name in _own(feature)]
    return has == ["add"]


def _own(feature: type[Feature[Any]]) -> set[str]:
    return {name for kind in feature.__mro__ if kind is not Feature for name in vars(kind)}


def interfaces_of(arm: ArmConfig) -> tuple[str, ...]:
    """Return the command interfaces of an arm, in the order of :data:`.COMMAND_INTERFACES`.

    Raises:
        ConfigurationError: If its backend cannot be loaded.
    """
    offered = find_backend(arm.backend).interfaces_with(arm.settings)
    return tuple(name for name in COMMAND_INTERFACES if name in (arm.interfaces or offered))


def interface_faults(config: CellSections) -> Iterator[str]:
    """Yield error messages on arms with a command interface that their backend does not offer."""
    for name, arm in config.arms.items():
        offered = find_backend(arm.backend).interfaces_with(arm.settings)
        for desired in arm.interfaces:
            if desired not in offered:
                yield (
                    f"arms.{name}.interfaces: got {desired}, allowed {', '.join(offered)} with "
                    f"backend {arm.backend}"
                )


def interface_mismatches(
    path: str,
    law: type[Controllet[Any, Any]],
    kind: str,
    config: CellSections,
    arms: Sequence[str],
) -> Iterator[str]:
    """Yield error messages on arms that lack the command interface of their controllet.

    Args:
        path: Path of the controllet in the cell file, for messages.
        law: Controllet class.
        kind: Type name of the controllet, for messages.
        config: Configuration of the cell.
        arms: Names of the controllet's arms.
    """
    for name in arms:
        taken = interfaces_of(config.arms[name])
        if law.command_interface not in taken:
            yield (
                f"{path}.type: {kind} commands {law.command_interface}, which arm {name} does "
                f"not offer. Use controllets that command {' or '.join(taken)}"
            )


def with_rigid_hand(arm: ArmConfig) -> ArmConfig:
    """Replace the gripper of an arm, and its tool if any, by one rigid tool.

    Mass, inertia and end-effector frame equal those of gripper and tool, with open fingers. An arm
    without a gripper stays unchanged.
    """
    described = describe_arm("arm", arm)
    gripper, tool = described.gripper, described.tool
    if gripper is None:
        return arm
    load, tip = gripper.load, gripper.pose_tcp_in_flange
    if tool is not None:
        load = combined([load, Load(tool.mass, tool.com_in_flange, tool.inertia)])
        tip = tool.pose_tcp_in_flange
    rigid = ToolConfig(
        mass=float(load.mass),
        com=load.com.tolist(),
        inertia=list(moments_of(load.inertia)),
        position=tip[:3, 3].tolist(),
        rpy=list(rpy_from_rotation(tip[:3, :3])),
        friction=tool.friction if tool is not None else 0.0,
    )
    return arm.model_copy(update={"gripper": False, "tool": rigid})
