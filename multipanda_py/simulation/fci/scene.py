# SPDX-License-Identifier: Apache-2.0
"""Scene of simulated robots that a cell file describes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address

import numpy as np

from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_objects
from multipanda_py.config.part_rules import with_rigid_hand
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.actuators.arm import elastic_of
from multipanda_py.simulation.drivetrain.drivetrain import Drivetrain
from multipanda_py.simulation.drivetrain.drivetrain_stages import imperfection_stages, torque_steps
from multipanda_py.simulation.fci.arguments import FIRST_ADDRESS
from multipanda_py.simulation.fci.world import PERIOD, RobotWorld, WorldArm
from multipanda_py.simulation.perturbed_arm import (
    add_payload,
    perturbed,
    scale_inertia,
    with_all_friction,
)

with extras_named():
    import mujoco

ROBOT_MODEL = "fr3"
"""Required robot model of all arms. A perturbation may change their simulated inertia."""


def robots_of(config: CellConfig, addresses: Sequence[str]) -> dict[str, str]:
    """Assign addresses to the arms of a cell; return the arm names by address.

    Args:
        config: Configuration of the cell.
        addresses: Addresses of the arms in the order of the cell file; arms without address are
            left out. If empty, ``robot_ip`` of the cell file applies; without any ``robot_ip``,
            addresses from 127.0.0.1 on.

    Raises:
        ConfigurationError: If there are more addresses than arms, or an address repeats.
    """
    named = {name: arm.robot_ip for name, arm in config.arms.items() if arm.robot_ip}
    if not addresses and not named:
        first = ip_address(FIRST_ADDRESS)
        named = {name: str(first + k) for k, name in enumerate(config.arms)}
    elif addresses:
        if len(addresses) > len(config.arms):
            raise ConfigurationError(
                f"addresses: got {len(addresses)}, allowed up to {len(config.arms)}, one for "
                f"each of {', '.join(config.arms)}"
            )
        named = dict(zip(config.arms, addresses))
    robots = {address: name for name, address in named.items()}
    if len(robots) < len(named):
        raise ConfigurationError(f"addresses: got {', '.join(named.values())}, allowed each once")
    return robots


def world_of(
    config: CellConfig, names: Sequence[str], *, reset_objects: bool = False
) -> RobotWorld:
    """Build the scene of a cell's arms and objects.

    Arms are simulated with the perturbation, noise and tool of the cell file, but without its
    delays. Robot controllers use the unperturbed model of an FR3, with gripper and tool. Grippers
    are rigid.

    Args:
        config: Configuration of the cell; the backends of its arms do not matter.
        names: Names of the arms, in the order of the robots.
        reset_objects: True to move objects to their initial poses before each motion of a robot,
            unless another robot moves.

    Raises:
        ConfigurationError: If an arm is not an FR3 with rigid joints and gravity compensation.
    """
    arms = {name: config.arms[name] for name in names}
    for name, arm in arms.items():
        _check_model(name, arm)
    made = [_arm(index, name, arm) for index, (name, arm) in enumerate(arms.items())]
    objects = [obj for obj in describe_objects(config) if obj.present]
    return RobotWorld(made, objects, reset_objects=reset_objects)


def ignored_delays(config: CellConfig) -> list[str]:
    """Return a message for each arm whose delays in the cell file simulated FCI robots ignore."""
    result = []
    for name, arm in config.arms.items():
        keys = [key for key in ("state_delay", "command_delay") if getattr(arm.perturbation, key)]
        if keys:
            result.append(
                f"arms.{name}.perturbation: {', '.join(keys)}: ignored, because states and "
                "commands already take time on the network. To add a delay, use multipanda inject "
                "ADDRESS delay"
            )
    return result


def _check_model(name: str, arm: ArmConfig) -> None:
    if arm.model != ROBOT_MODEL:
        raise ConfigurationError(
            f"arms.{name}.model: got {arm.robot.name}"
            f"{'' if isinstance(arm.model, str) else ' with files'}, allowed {ROBOT_MODEL} "
            "without files, because the robots implement its protocol. For another body use "
            "perturbation.parameters"
        )
    if arm.transmission.is_elastic or elastic_of(arm):
        raise ConfigurationError(
            f"arms.{name}: fci-sim cannot simulate elastic joints or compliant actuators. Use the "
            "backend mujoco"
        )
    if not arm.compensates_gravity:
        raise ConfigurationError(
            f"arms.{name}.compensates_gravity: got false, allowed true, as for every {ROBOT_MODEL}"
        )


def _arm(index: int, name: str, arm: ArmConfig) -> WorldArm:
    arm = with_all_friction(with_rigid_hand(arm))
    described = describe_arm(name, arm)
    real = perturbed(described, arm.perturbation, arm.robot_of_body)
    perfect = arm.perturbation.is_default and arm.noise.is_default and arm.transmission.is_default
    return WorldArm(
        described,
        real,
        np.array(arm.q_start),
        partial(add_payload, arm=real, settings=arm.perturbation),
        None
        if perfect
        else partial(_imperfect_drivetrain, arm=arm, described=described, real=real, seed=index),
    )


def _imperfect_drivetrain(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    dof: int,
    *,
    arm: ArmConfig,
    described: ArmDescription,
    real: ArmDescription,
    seed: int,
) -> Drivetrain:
    if arm.perturbation.inertia_scale != 1.0:
        scale_inertia(model, real, arm.perturbation.inertia_scale)
    imperfections = imperfection_stages(model, data, described, real, arm, dof, seed, PERIOD)
    return Drivetrain([*torque_steps(arm), *imperfections])
