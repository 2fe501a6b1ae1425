# SPDX-License-Identifier: Apache-2.0
"""Section ``actuators`` of a simulated arm: the springs and motors of its compliant joints."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Discriminator, Field, Tag

from multipanda_py import registry
from multipanda_py.actuator import PINION_RADIUS, Actuator
from multipanda_py.config.section import Section
from multipanda_py.exceptions import ActuatorRejected, ConfigurationError
from multipanda_py.robots import Robot
from multipanda_py.robots.measured_files import read_actuator

_MIN_TORQUE = 1e-3  # Torque limit if springs exert no torque; 0 would be invalid [Nm].
_TORQUE_THRESHOLDS = (
    "barrier_torque", "contact_torque", "lacking_torque", "tare_torque", "unmeasured_torque",
)  # fmt: skip
"""Torques of a robot that are reduced in proportion if springs reduce its torque limits."""
_EACH = Field(min_length=1, max_length=64)
_Number = Annotated[float, Field(ge=-1e6, le=1e6)]
_NotNegative = Annotated[float, Field(ge=0, le=1e6)]
_Positive = Annotated[float, Field(gt=0, le=1e6)]


def _kind(value: object) -> str:
    return "[each]" if isinstance(value, (list, tuple)) else "[all]"


OneOrEach = Annotated[
    Annotated[_Number, Tag("[all]")] | Annotated[list[_Number], _EACH, Tag("[each]")],
    Discriminator(_kind),
]
"""One number for all joints of a group, or a list with one number per joint."""
NotNegative = Annotated[
    Annotated[_NotNegative, Tag("[all]")] | Annotated[list[_NotNegative], _EACH, Tag("[each]")],
    Discriminator(_kind),
]
Positive = Annotated[
    Annotated[_Positive, Tag("[all]")] | Annotated[list[_Positive], _EACH, Tag("[each]")],
    Discriminator(_kind),
]
GroupName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
Mode = Literal[
    "link_torque", "link_pid", "spring_references", "equilibrium", "motor_torque", "motor_pid",
    "equilibrium_pid",
]  # fmt: skip
"""Commanded quantities, in the order of the mode numbers 0 to 6 of the ROS-Gazebo toolbox for
compliant actuators."""


class MotorConfig(Section):
    """Motor that drives each joint of a group through a spring, and its PID position controller.

    Each value is one number for all joints of the group, or a list with one number per joint.
    Angles and torques are on the joint side of the gear. For a motor that moves a pivot or a
    lever, metres and newtons replace radians and newton metres.
    """

    inertia: Positive = 0.0233
    """Inertia J [kg m^2]."""
    damping: NotNegative = 0.2698
    """Viscous damping D [Nm s/rad]."""
    max_torque: Positive = 6.0
    """Maximum torque [Nm]."""
    max_velocity: Positive = 6.0
    """Maximum speed [rad/s]."""
    min_position: OneOrEach = -1000.0
    """Lower stop [rad]."""
    max_position: OneOrEach = 1000.0
    """Upper stop [rad]."""
    friction: NotNegative = 0.02
    """Coulomb friction [Nm]."""
    friction_stiffness: Positive = 1000.0
    """Stiffness of the motor while Coulomb friction holds it [Nm/rad]."""
    p: NotNegative = 125.0
    """Proportional gain of the position controller [Nm/rad]."""
    i: NotNegative = 0.0
    """Integral gain of the position controller [Nm/(rad s)]."""
    d: NotNegative = 4.5
    """Derivative gain of the position controller [Nm s/rad]."""


class LinkPidConfig(Section):
    """PID position controller that acts on each link of a group in mode ``link_pid``.

    Each value is one number for all joints of the group, or a list with one number per joint. The
    defaults are those of the ROS-Gazebo toolbox (Mengacci et al., Frontiers in Robotics and AI 8,
    2021), for links of a few hundred grams.
    """

    p: NotNegative = 0.8
    """Proportional gain [Nm/rad]."""
    i: NotNegative = 0.0
    """Integral gain [Nm/(rad s)]."""
    d: NotNegative = 0.2
    """Derivative gain [Nm s/rad]."""
    max_torque: Positive | None = None
    """Maximum torque of the controller, by default that of the arm's joint [Nm]."""


class ActuatorConfig(Section):
    """Compliant actuators of a group of joints of an arm.

    Controllets command link torques in every mode. The mode determines how these torques act:

    - ``link_torque`` and ``link_pid``: on the links directly.
    - ``equilibrium`` and ``spring_references``: through springs, whose motors reach their
      positions without delay.
    - Other modes: through springs, and motors with inertia.
    """

    type: str
    """Actuator type, one that ``multipanda list actuators`` prints."""
    joints: list[str] = []
    """Joint names of the model; empty means all joints."""
    params: dict[str, OneOrEach] = {}
    """Spring parameters: one number for all joints of the group, or one per joint."""
    identified: str = ""
    """File of ``multipanda actuators identify`` for this type; ``params`` override its values."""
    preset: OneOrEach = 0.0
    """Stiffness preset [rad], or [m] for actuators that move a pivot."""
    mode: Mode = "equilibrium"
    """Commanded quantity."""
    motor: MotorConfig | None = None
    """First motor of each joint; required by the modes with motors."""
    motor_2: MotorConfig | None = None
    """Second motor of each joint. By default it equals the first one; a motor that moves a pivot
    then acts through a pinion of 15 mm."""
    link_pid: LinkPidConfig = LinkPidConfig()
    """Controller of the links in mode ``link_pid``."""
    output_inertia: NotNegative | None = None
    """Inertia that rotates with the link in addition to its body, such as the output shaft; by
    default the rotor inertia of the model. Motors have their own inertia, behind the springs
    [kg m^2]."""

    def actuator(self, n_joints: int) -> Actuator[Any]:
        """Build the springs of the group's joints from their parameters.

        Raises:
            UnknownName: If the type does not exist.
            ConfigurationError: If ``identified`` cannot be read, or is for another type.
            ActuatorRejected: If a parameter does not exist or is out of bounds.
        """
        params: dict[str, Any] = {}
        if self.identified:
            kind, params = read_actuator(Path(self.identified))
            if kind != self.type:
                raise ConfigurationError(
                    f"{self.identified}: type: got {kind}, but the group has type {self.type}. "
                    "Give a file of this type"
                )
        kind_of = registry.find("actuators", self.type)
        actuator: Actuator[Any] = kind_of(n_joints, {**params, **self.params})
        return actuator

    def exertable(self, n_joints: int) -> tuple[float, ...]:
        """Return the maximum torque of springs and motors on each of ``n_joints`` links [Nm].

        The maximum holds for both directions of rotation, and includes the torque that carries the
        weight of the arm. It is infinite in modes without springs, and for invalid values.
        """
        return _cached_max_torques(
            self.model_dump_json(exclude={"joints", "output_inertia"}), n_joints
        )

    @property
    def motor_torques(self) -> tuple[Any, Any]:
        """Maximum torques of first and second motor of each joint, minus motor friction [Nm].

        They are infinite in modes without motors, and forces [N] for motors of pivots.
        """
        if self.motor is None or self.mode not in WITH_MOTORS:
            return np.inf, np.inf
        first, second = (
            np.maximum(np.subtract(motor.max_torque, motor.friction), 0.0)
            for motor in (self.motor, self.motor_2 or self.motor)
        )
        moves_pivot = registry.find("actuators", self.type).preset_unit == "m"
        return first, second / PINION_RADIUS if moves_pivot and self.motor_2 is None else second

    @property
    def lag(self) -> float:
        r"""Time constant with which the slowest motor follows the commanded torque [s].

        It is :math:`J / (D + D_{pid})`, with the inertia J, the damping D and the derivative gain
        :math:`D_{pid}` of the motor. It is 0 in modes without motors.
        """
        if self.motor is None or self.mode not in WITH_MOTORS:
            return 0.0
        drag = np.add(self.motor.damping, self.motor.d)
        return float(np.max(np.divide(self.motor.inertia, np.maximum(drag, 1e-9))))


WITHOUT_SPRINGS = ("link_torque", "link_pid")
"""Modes that drive the link directly, without springs."""
WITH_MOTORS = ("motor_torque", "motor_pid", "equilibrium_pid")
"""Modes in which the motors have inertia."""


def joint_indices(
    groups: Mapping[str, ActuatorConfig], joints: tuple[str, ...]
) -> dict[str, list[int]]:
    """Return the joint indices of every group, counted from 0; unknown joint names are skipped.

    Args:
        groups: Actuator groups of an arm by name.
        joints: Names of all joints of the arm, without its prefix.
    """
    return {
        name: [joints.index(joint) for joint in group.joints or joints if joint in joints]
        for name, group in groups.items()
    }


@lru_cache(maxsize=256)
def _cached_max_torques(section_json: str, n_joints: int) -> tuple[float, ...]:
    # The section is passed as JSON, because arguments of cached functions must be hashable.
    own = ActuatorConfig.model_validate_json(section_json)
    with contextlib.suppress(ConfigurationError, ActuatorRejected, ValueError):
        if own.mode not in WITHOUT_SPRINGS:
            max_value = np.array([np.broadcast_to(one, n_joints) for one in own.motor_torques])
            result: list[float] = (
                own.actuator(n_joints).torque_limit(own.preset, max_value).tolist()
            )
            return tuple(result)
    return (math.inf,) * n_joints


@lru_cache(maxsize=64)
def _with_limits_and_rotors(
    robot: Robot, rotor_inertia: tuple[float, ...], whole_torque: tuple[float, ...]
) -> Robot:
    max_value, own = np.array(whole_torque), robot.limits.torque  # max_value includes gravity.
    torque = np.minimum(own, max_value)
    figures = {
        name: tuple((torque / own * values).tolist() if name in _TORQUE_THRESHOLDS else values)
        for name, values in robot.figures.items()
    }
    limits = replace(robot.limits, torque=torque, whole_torque=max_value)
    return replace(robot, armature=np.array(rotor_inertia), limits=limits, figures=figures)


def with_actuators(robot: Robot, groups: Mapping[str, ActuatorConfig]) -> Robot:
    """Return a robot with the inertias and torque limits of its compliant actuators.

    ``output_inertia`` of each group replaces the rotor inertia. The maximum torque of springs and
    motors becomes :attr:`.ArmLimits.whole_torque`. Torque limits above this maximum are lowered
    to it.

    Args:
        robot: Robot with rigid joints.
        groups: Actuator groups of the arm by name.
    """
    armature: list[float] = robot.armature.tolist()
    whole = [math.inf] * robot.n_joints
    indices = joint_indices(groups, tuple(joint.name for joint in robot.joints))
    for name, group in groups.items():
        inertia, own = group.output_inertia, indices[name]
        for joint, max_value in zip(own, group.exertable(len(own))):
            # Torque limits must be positive. ``check_cell`` rejects groups without any torque.
            whole[joint] = max(max_value, _MIN_TORQUE)
        if inertia is None or (isinstance(inertia, list) and len(inertia) != len(own)):
            continue  # ``check_cell`` rejects lists of a wrong length.
        for joint, value in zip(
            own, inertia if isinstance(inertia, list) else [inertia] * len(own)
        ):
            armature[joint] = value
    own_inertia = tuple(robot.armature.tolist())
    if tuple(armature) == own_inertia and not np.isfinite(whole).any():
        return robot
    return _with_limits_and_rotors(robot, tuple(armature), tuple(whole))
