# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators of a simulated arm: which joints have which springs and motors."""

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
from multipanda_py.actuator import PINION, Actuator
from multipanda_py.config.section import Section
from multipanda_py.exceptions import ActuatorRefused, ConfigurationError
from multipanda_py.robots import Robot
from multipanda_py.robots.measured_files import read_actuator

_SOMETHING = 1e-3
_TORQUES = (
    "barrier_torque", "contact_torque", "lacking_torque", "tare_torque", "unmeasured_torque",
)  # fmt: skip
"""Figures of a robot that are shares of its torques."""
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
"""A number for all joints of a group, or a list with one for each."""
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
"""What is commanded, in the order of the numbers 0 to 6 that the ROS-Gazebo toolbox gives them."""


class MotorConfig(Section):
    """One motor behind each joint of a group, and the PID controller of its position.

    Each is a number for all joints of the group, or a list with one for each. Angles and torques
    are of the joint's side; where a motor moves a pivot or a lever, they are metres and newtons.
    """

    inertia: Positive = 0.0233
    """J [kg m^2]."""
    damping: NotNegative = 0.2698
    """D [Nm s/rad]."""
    max_torque: Positive = 6.0
    """[Nm]"""
    max_velocity: Positive = 6.0
    """[rad/s]"""
    low: OneOrEach = -1000.0
    """Lower stop [rad]."""
    high: OneOrEach = 1000.0
    """Upper stop [rad]."""
    friction: NotNegative = 0.02
    """Coulomb friction [Nm]."""
    friction_stiffness: Positive = 1000.0
    """With which it sticks [Nm/rad]."""
    p: NotNegative = 125.0
    """Proportional gain of its position [Nm/rad]."""
    i: NotNegative = 0.0
    """Integral gain [Nm/(rad s)]."""
    d: NotNegative = 4.5
    """Gain on its velocity [Nm s/rad]."""


class LinkPidConfig(Section):
    """The PID controller by which ``link_pid`` turns each link of a group, with a torque on it.

    Each is a number for all joints of the group, or a list with one for each. The defaults are
    the toolbox's, for links of some hundred grams.
    """

    p: NotNegative = 0.8
    """Proportional gain [Nm/rad]."""
    i: NotNegative = 0.0
    """Integral gain [Nm/(rad s)]."""
    d: NotNegative = 0.2
    """Gain on the velocity [Nm s/rad]."""
    max_torque: Positive | None = None
    """Its largest torque, by default that of the arm's joint [Nm]."""


class ActuatorConfig(Section):
    """The compliant actuators of some joints of an arm.

    Torque laws command the torque of the links whatever the mode: it goes straight to them in the
    modes that begin with ``link``, else through springs whose motors stand where they are asked
    to, or through springs and motors where the mode's name has a motor or a PID in it.
    """

    type: str
    """As ``multipanda list actuators`` has it."""
    joints: list[str] = []
    """Names of the joints, as the model has them; all if empty."""
    params: dict[str, OneOrEach] = {}
    """Of the springs; a number for all joints of the group, or one for each."""
    identified: str = ""
    """File of ``multipanda actuators identify``, of this type; ``params`` go before it."""
    preset: OneOrEach = 0.0
    """Of their stiffness, in the unit of the actuator's second reference."""
    mode: Mode = "equilibrium"
    """What is commanded."""
    motor: MotorConfig | None = None
    """Needed by the modes with motors."""
    motor_2: MotorConfig | None = None
    """The second motor, if it is not as the first; by default one that moves a pivot does so as
    the first would by a pinion of 15 mm."""
    link_pid: LinkPidConfig = LinkPidConfig()
    """What turns the links in mode ``link_pid``."""
    output_inertia: NotNegative | None = None
    """What turns with the link besides its body, as the output's shaft; by default what the model
    has for the rotor. Motors are behind the springs, with an inertia of their own [kg m^2]."""

    def actuator(self, n_joints: int) -> Actuator[Any]:
        """Return the springs of its joints.

        Raises:
            UnknownName: If there is no such type.
            ConfigurationError: If ``identified`` is no such file, or of another type.
            ActuatorRefused: If a parameter is none of it, or out of bounds.
        """
        params: dict[str, Any] = {}
        if self.identified:
            kind, params = read_actuator(Path(self.identified))
            if kind != self.type:
                raise ConfigurationError(
                    f"{self.identified}: type: got {kind}, allowed {self.type}, which the group is"
                )
        kind_of = registry.find("actuators", self.type)
        found: Actuator[Any] = kind_of(n_joints, {**params, **self.params})
        return found

    def exertable(self, n_joints: int) -> tuple[float, ...]:
        """Return what its springs and motors can exert on links to either side [Nm].

        It is inf without springs, and where a group is none that can be.
        """
        return _exertable(self.model_dump_json(exclude={"joints", "output_inertia"}), n_joints)

    @property
    def motor_torques(self) -> tuple[Any, Any]:
        """Largest torques of both motors with their friction against them; inf without motors.

        Of a pivot's motor they are forces [Nm or N].
        """
        if self.motor is None or self.mode not in WITH_MOTORS:
            return np.inf, np.inf
        first, second = (
            np.maximum(np.subtract(motor.max_torque, motor.friction), 0.0)
            for motor in (self.motor, self.motor_2 or self.motor)
        )
        moves_pivot = registry.find("actuators", self.type).preset_unit == "m"
        return first, second / PINION if moves_pivot and self.motor_2 is None else second

    @property
    def lag(self) -> float:
        r"""How late its slowest motor brings about what torque laws ask for.

        That is :math:`J / (D + D_{pid})`: what is known of a motor is counted in its commands, but
        not its inertia [s].
        """
        if self.motor is None or self.mode not in WITH_MOTORS:
            return 0.0
        drag = np.add(self.motor.damping, self.motor.d)
        return float(np.max(np.divide(self.motor.inertia, np.maximum(drag, 1e-9))))


WITHOUT_SPRINGS = ("link_torque", "link_pid")
"""Modes in which the link is driven as without springs."""
WITH_MOTORS = ("motor_torque", "motor_pid", "equilibrium_pid")
"""Modes in which motors have inertia."""


def places_of(
    groups: Mapping[str, ActuatorConfig], joints: tuple[str, ...]
) -> dict[str, list[int]]:
    """Return the joints of every group that exist, counted from 0.

    Args:
        groups: Of an arm, by name.
        joints: Names of all its joints, without its prefix.
    """
    return {
        name: [joints.index(joint) for joint in group.joints or joints if joint in joints]
        for name, group in groups.items()
    }


@lru_cache(maxsize=256)
def _exertable(group: str, n_joints: int) -> tuple[float, ...]:
    """Return what a group can exert, by the section as JSON: cell files ask many times."""
    own = ActuatorConfig.model_validate_json(group)
    with contextlib.suppress(ConfigurationError, ActuatorRefused, ValueError):
        if own.mode not in WITHOUT_SPRINGS:
            most = np.array([np.broadcast_to(one, n_joints) for one in own.motor_torques])
            found: list[float] = own.actuator(n_joints).exertable(own.preset, most).tolist()
            return tuple(found)
    return (math.inf,) * n_joints


@lru_cache(maxsize=64)
def _with_joints(robot: Robot, armature: tuple[float, ...], whole: tuple[float, ...]) -> Robot:
    """Return a robot with other inertia and torques of joints; the same object for the same."""
    most, own = np.array(whole), robot.limits.torque
    torque = np.minimum(own, most)
    figures = {
        name: tuple((torque / own * values).tolist() if name in _TORQUES else values)
        for name, values in robot.figures.items()
    }
    limits = replace(robot.limits, torque=torque, whole_torque=most)
    return replace(robot, armature=np.array(armature), limits=limits, figures=figures)


def with_outputs(robot: Robot, groups: Mapping[str, ActuatorConfig]) -> Robot:
    """Return a robot whose joints have the outputs of its actuators in place of its rotors.

    Its limits are what its springs and their motors can exert, where that is less than those of
    the robot, or would be with its weight.
    """
    armature: list[float] = robot.armature.tolist()
    whole = [math.inf] * robot.n_joints
    places = places_of(groups, tuple(joint.name for joint in robot.joints))
    for name, group in groups.items():
        given, own = group.output_inertia, places[name]
        for joint, most in zip(own, group.exertable(len(own))):
            whole[joint] = max(most, _SOMETHING)  # nothing at all is refused by the rules
        if given is None or (isinstance(given, list) and len(given) != len(own)):
            continue  # of another length: refused by the rules
        for joint, value in zip(own, given if isinstance(given, list) else [given] * len(own)):
            armature[joint] = value
    own_inertia = tuple(robot.armature.tolist())
    if tuple(armature) == own_inertia and not np.isfinite(whole).any():
        return robot
    return _with_joints(robot, tuple(armature), tuple(whole))
