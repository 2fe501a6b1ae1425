# SPDX-License-Identifier: Apache-2.0
"""The arm that is simulated, where it differs from the one that is described."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from multipanda_py.config.perturbation_section import PerturbationConfig
from multipanda_py.config.sections import ArmConfig
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import Inertial
from multipanda_py.robots.robot import LOSSES, Robot
from multipanda_py.robots.tool import Tool
from multipanda_py.state import Matrix, Vector


def perturbed(
    arm: ArmDescription, settings: PerturbationConfig, body: Robot | None = None
) -> ArmDescription:
    """Return what an arm really is: other inertia, friction, base and tool; the same kinematics.

    Args:
        arm: As its laws and its robot believe it to be.
        settings: What is wrong with it, all friction that nobody knows of included.
        body: What it is before that; what it is described as if None. Its own friction is in
            ``settings``, by :func:`with_friction_of`.

    Returns:
        The same object where nothing is.
    """
    if settings.is_default:
        return arm
    body = arm.robot if body is None else body
    known = {name: getattr(arm.robot, name) for name in LOSSES}
    robot = arm.robot if body is arm.robot else replace(body, **known)
    turn = arm.rotation_base_in_world
    off = Pose.from_rpy(settings.base_position, settings.base_rpy)
    rubbing = np.add(settings.coulomb, settings.stribeck)
    return replace(
        arm,
        model=_with_links(robot, settings),
        position_base_in_world=arm.position_base_in_world + turn @ off.position,
        rotation_base_in_world=turn @ off.rotation,
        tool=None if arm.tool is None else _with_errors(arm.tool, settings),
        joint_damping=arm.joint_damping + np.array(settings.viscous),
        joint_frictionloss=arm.joint_frictionloss + rubbing,
    )


def with_friction_of(
    body: Robot, believed: Robot, settings: PerturbationConfig
) -> PerturbationConfig:
    """Return a perturbation with the friction of a body, too, beyond what is believed of it."""
    if body is believed:
        return settings
    keys = {"viscous": "damping", "coulomb": "friction", "friction_offset": "torque_offset"}
    more = {key: getattr(body, own) - getattr(believed, own) for key, own in keys.items()}
    for key in ("viscous", "coulomb"):  # what is believed is simulated, and only takes
        more[key] = np.maximum(more[key], 0.0)
    return settings.model_copy(
        update={key: np.add(getattr(settings, key), value).tolist() for key, value in more.items()}
    )


def with_all_friction(arm: ArmConfig) -> ArmConfig:
    """Return an arm whose perturbation has the friction of its ``parameters``, too."""
    settings = with_friction_of(arm.robot_of_body, arm.robot, arm.perturbation)
    return arm.model_copy(update={"perturbation": settings})


def differs(arm: ArmDescription, real: ArmDescription) -> bool:
    """Return whether a real arm's dynamics, friction apart, are not those described."""
    return (
        arm.robot is not real.robot
        or arm.tool is not real.tool
        or not np.array_equal(arm.rotation_base_in_world, real.rotation_base_in_world)
    )


def _with_links(robot: Robot, settings: PerturbationConfig) -> Robot:
    masses = np.array(settings.link_mass)
    shifts = np.reshape(settings.link_com, (-1, 3))
    stretches = np.reshape(settings.link_inertia, (-1, 3))
    if (masses == 1.0).all() and not shifts.any() and (stretches == 1.0).all():
        return robot
    moving = [
        replace(link, inertial=stretched(link.inertial, mass, shift, stretch))
        for link, mass, shift, stretch in zip(robot.links[1:], masses, shifts, stretches)
    ]
    return replace(robot, links=(robot.links[0], *moving))


def stretched(inertial: Inertial, mass: float, shift: Vector, stretch: Vector) -> Inertial:
    r"""Return a body whose mass is distributed otherwise, and which is a body for any factors.

    .. math::
        \Sigma = \tfrac12 \mathrm{tr}(I)\,1 - I = R\,\mathrm{diag}(\sigma)\,R^T, \qquad
        \Sigma' = s\,R\,\mathrm{diag}(k_i \sigma_i)\,R^T, \qquad
        I' = \mathrm{tr}(\Sigma')\,1 - \Sigma'

    with the second moments of mass :math:`\Sigma` about the centre of mass. They stay positive
    semidefinite under positive factors s and k, and that is what makes an inertia that of a body
    (Wensing, Kim and Slotine, Linear matrix inequalities for physically consistent inertial
    parameter identification, 2018). Factors on principal moments of inertia would not: they can
    break :math:`I_1 + I_2 \ge I_3`.

    Args:
        inertial: Of the link.
        mass: Factor s on its mass.
        shift: Of its centre of mass, (3,) [m].
        stretch: k along the three axes, smallest second moment first, (3,).
    """
    inertia = inertial.inertia
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    moments, axes = np.linalg.eigh(second)
    moments = mass * np.maximum(moments, 0.0) * stretch
    second = (axes * moments) @ axes.T
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = (np.trace(second) * np.eye(3) - second).tolist()
    x, y, z = np.add(inertial.com, shift).tolist()
    return Inertial(mass * inertial.mass, (x, y, z), (xx, yy, zz, xy, xz, yz))


def _with_errors(tool: Tool, settings: PerturbationConfig) -> Tool:
    if settings.tool_mass == 1.0 and not any((*settings.tool_com, *settings.tool_position)):
        return tool
    pose: Matrix = np.array(tool.pose_tcp_in_flange)
    pose[:3, 3] += settings.tool_position
    return Tool(
        mass=settings.tool_mass * tool.mass,
        com_in_flange=tool.com_in_flange + np.array(settings.tool_com),
        inertia=settings.tool_mass * tool.inertia,
        pose_tcp_in_flange=pose,
        friction=tool.friction,
    )
