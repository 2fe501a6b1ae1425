# SPDX-License-Identifier: Apache-2.0
"""Descriptions of arms and objects, built from the sections of a cell file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.config.actuator_section import joint_indices
from multipanda_py.config.backend_section import find_backend
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject, Tool
from multipanda_py.robots.actuated_joints import ActuatedJoints

if TYPE_CHECKING:
    from multipanda_py.config.arm_section import ArmConfig
    from multipanda_py.config.sections import CellSections


def actuated_joints(arm: ArmConfig) -> ActuatedJoints | None:
    """Return a description of the compliant joints of an arm; None if it has none.

    Raises:
        ConfigurationError: If the file of identified springs cannot be read.
        ActuatorRejected: If a spring parameter is out of bounds.
    """
    names = tuple(joint.name for joint in arm.robot.joints)
    columns: dict[int, tuple[Any, ...]] = {}
    for key, indices in joint_indices(arm.actuators, names).items():
        group = arm.actuators[key]
        springs = group.actuator(len(indices))
        for number, index in enumerate(indices):
            columns[index] = (
                group.mode, group.motor is not None, bool(springs.preset_unit),
                springs.is_antagonistic, springs.preset_low[number], springs.preset_high[number],
                springs.preset_unit,
            )  # fmt: skip
    if not columns:
        return None
    order = sorted(columns)
    modes, motors, second, antagonistic, low, high, units = zip(
        *(columns[index] for index in order)
    )
    return ActuatedJoints(
        tuple(names[index] for index in order), np.array(order), modes,
        np.array(motors), np.array(second), np.array(antagonistic), np.array(low), np.array(high),
        units,
    )  # fmt: skip


def describe_arm(name: str, arm: ArmConfig) -> ArmDescription:
    """Return a description of an arm by its robot model, without identified parameters."""
    base = Pose.from_rpy(arm.position, arm.rpy)
    tool = None
    if arm.tool is not None:
        xx, yy, zz, xy, xz, yz = arm.tool.inertia
        placed = Pose.from_rpy(arm.tool.position, arm.tool.rpy)
        transform = np.eye(4)
        transform[:3, :3], transform[:3, 3] = placed.rotation, placed.position
        tool = Tool(
            mass=arm.tool.mass,
            com_in_flange=np.array(arm.tool.com),
            inertia=np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]),
            pose_tcp_in_flange=transform,
            friction=arm.tool.friction,
        )
    return ArmDescription(
        name=name,
        model=arm.robot,
        position_base_in_world=np.array(base.position),
        rotation_base_in_world=np.array(base.rotation),
        hand=arm.gripper if isinstance(arm.gripper, bool) else arm.gripper.gripper,
        tool=tool,
        compensates_gravity=arm.compensates_gravity,
        joint_damping=np.array(arm.joint_damping),
        joint_frictionloss=np.array(arm.joint_friction),
        actuated=actuated_joints(arm),
        residual_file=arm.residual.torque,
    )


def describe_arms(config: CellSections) -> list[ArmDescription]:
    """Return descriptions of the arms of a cell, in the order of the cell file."""
    return [describe_arm(name, arm) for name, arm in config.arms.items()]


def describe_identified(name: str, arm: ArmConfig) -> ArmDescription:
    """Return a description of an arm for controllets.

    It contains the identified parameters and friction, if the arm has a file ``identified``.
    """
    described = describe_arm(name, arm)
    if not arm.identified:
        return described
    known = arm.robot_of_laws
    return replace(
        described, model=known, joint_damping=known.damping, joint_frictionloss=known.friction
    )


def describe_identified_arms(config: CellSections) -> list[ArmDescription]:
    """Return a description for controllets of each arm of a cell (:func:`describe_identified`)."""
    return [describe_identified(name, arm) for name, arm in config.arms.items()]


def describe_objects(config: CellSections) -> list[SceneObject]:
    """Return descriptions of the objects in the scene of a cell."""
    objects = []
    for name, obj in config.objects.items():
        pose = Pose.from_rpy(obj.position, obj.rpy)
        objects.append(
            SceneObject(
                name=name,
                shape=obj.shape,
                size=tuple(obj.size),
                position=np.array(pose.position),
                rotation=np.array(pose.rotation),
                mass=obj.mass,
                rgba=tuple(obj.rgba),  # type: ignore[arg-type]
                friction=(obj.friction, 0.005, 0.0001),
                contact=(obj.contact_time, obj.contact_damping),
                present=obj.present,
            )
        )
    return objects


def first_arm_without_simulation(config: CellSections) -> str:
    """Return ``arms.NAME.backend: BACKEND`` for the first real arm; empty without real arms."""
    for name, arm in config.arms.items():
        if not find_backend(arm.backend).provides_time:
            return f"arms.{name}.backend: {arm.backend}"
    return ""


def collision_names(config: CellSections) -> list[str]:
    """Return the names of all bodies that an object can intersect: floor, arms, objects."""
    return ["floor", *config.arms, *config.objects]


def bases_in_world(config: CellSections) -> dict[str, Pose]:
    """Return the base pose of every arm in the world frame."""
    return {name: Pose.from_rpy(arm.position, arm.rpy) for name, arm in config.arms.items()}


def movable_objects(config: CellSections) -> list[str]:
    """Return the names of objects with mass, in the order of their poses in a cycle record."""
    return [name for name, obj in config.objects.items() if obj.mass > 0.0]
