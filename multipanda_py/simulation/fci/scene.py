# SPDX-License-Identifier: Apache-2.0
"""The world of robots that a cell file describes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_objects
from multipanda_py.config.part_rules import with_rigid_hand
from multipanda_py.config.sections import ArmConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.actuators.arm import elastic_of
from multipanda_py.simulation.drivetrain.drive import Drive
from multipanda_py.simulation.drivetrain.stages import flaws_of, torque_steps
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

KIND = "fr3"
"""The model that the robots are, whatever is wrong with their bodies."""


def robots_of(config: CellConfig, addresses: Sequence[str]) -> dict[str, str]:
    """Return the arms of a cell that are robots, by address.

    Args:
        config: The cell.
        addresses: For its first arms; none: those of the file, or one after another.

    Raises:
        ConfigurationError: If there are more addresses than arms, or one stands twice.
    """
    named = {name: arm.robot_ip for name, arm in config.arms.items() if arm.robot_ip}
    if not addresses and not named:
        first = ip_address(FIRST_ADDRESS)
        named = {name: str(first + k) for k, name in enumerate(config.arms)}
    elif addresses:
        if len(addresses) > len(config.arms):
            raise ConfigurationError(
                f"addresses: got {len(addresses)}, allowed {len(config.arms)} at most, one for "
                f"each of {', '.join(config.arms)}"
            )
        named = dict(zip(config.arms, addresses))
    found = {address: name for name, address in named.items()}
    if len(found) < len(named):
        raise ConfigurationError(f"addresses: got {', '.join(named.values())}, allowed each once")
    return found


def world_of(config: CellConfig, names: Sequence[str], *, tidy: bool = False) -> RobotWorld:
    """Return arms of a cell and its things, as a world for as many robots.

    What the file says of an arm's body, friction, noise and tool is how the arm is; its robot
    goes by the data sheet, and knows hand and tool. Hands are rigid. Delays are those of the way
    between robot and client, and left out.

    Args:
        config: The cell, whatever moves its arms.
        names: Of the arms, in the order of the robots.
        tidy: Whether things are put back, see :class:`.RobotWorld`.

    Raises:
        ConfigurationError: If they cannot be robots of this kind.
    """
    arms = {name: config.arms[name] for name in names}
    for name, arm in arms.items():
        _check(name, arm)
    made = [_arm(place, name, arm) for place, (name, arm) in enumerate(arms.items())]
    things = [thing for thing in describe_objects(config) if thing.present]
    return RobotWorld(made, things, tidy=tidy)


def left_out(config: CellConfig) -> list[str]:
    """Say what of a cell these robots do not have."""
    found = []
    for name, arm in config.arms.items():
        keys = [key for key in ("delay", "command_delay") if getattr(arm.perturbation, key)]
        if keys:
            found.append(
                f"arms.{name}.perturbation: {', '.join(keys)}: left out: states and commands take "
                "the time that their way takes (multipanda inject ADDRESS delay)"
            )
    return found


def _check(name: str, arm: ArmConfig) -> None:
    if arm.model != KIND:
        raise ConfigurationError(
            f"arms.{name}.model: got {arm.robot.name}"
            f"{'' if isinstance(arm.model, str) else ' of files'}, allowed {KIND}: the robots "
            "speak the protocol of one; perturbation.parameters is for another body"
        )
    if any(arm.joints.stiffness) or elastic_of(arm):
        raise ConfigurationError(
            f"arms.{name}: got joints behind springs, allowed rigid ones in fci-sim"
        )
    if not arm.compensates_gravity:
        raise ConfigurationError(
            f"arms.{name}.compensates_gravity: got false, allowed true: an {KIND} does"
        )


def _arm(place: int, name: str, arm: ArmConfig) -> WorldArm:
    arm = with_all_friction(with_rigid_hand(arm))
    described = describe_arm(name, arm)
    real = perturbed(described, arm.perturbation, arm.robot_of_body)
    perfect = arm.perturbation.is_default and arm.noise.is_default and arm.joints.is_default
    return WorldArm(
        described,
        real,
        np.array(arm.q_start),
        partial(add_payload, arm=real, settings=arm.perturbation),
        None if perfect else partial(_drive, arm=arm, described=described, real=real, seed=place),
    )


def _drive(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    dof: int,
    *,
    arm: ArmConfig,
    described: ArmDescription,
    real: ArmDescription,
    seed: int,
) -> Drive:
    """Return what is imperfect about an arm, in a world that was just compiled."""
    if arm.perturbation.inertia_scale != 1.0:
        scale_inertia(model, real, arm.perturbation.inertia_scale)
    flaws = flaws_of(model, data, described, real, arm, dof, seed, PERIOD)
    return Drive([*torque_steps(arm), *flaws])
