# SPDX-License-Identifier: Apache-2.0
"""Section of an arm in a cell file: robot, tool, simulated errors, and their bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from multipanda_py.config.actuator_section import ActuatorConfig, GroupName, with_actuators
from multipanda_py.config.backend_section import find_backend, read_settings, section_of
from multipanda_py.config.model_section import (
    GripperConfig,
    Hand,
    Model,
    ModelConfig,
    resolved,
    robot_of,
    tags_of,
    with_absolute_paths,
)
from multipanda_py.config.section import (
    Inertia,
    JointConfiguration,
    JointFriction,
    JointStiffness,
    JointTorques,
    Offset,
    Position,
    Rpy,
    Section,
    SpringDamping,
    without_placeholder,
)
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameters import Settings
from multipanda_py.robots import DEFAULT_MODEL, MODELS, Robot
from multipanda_py.robots.measured_files import with_parameters
from multipanda_py.state import JOINTS

_PER_JOINT = Field(min_length=1, max_length=64)
_PER_AXIS = Field(min_length=3, max_length=192)

_Scale = Annotated[float, Field(ge=0.2, le=5)]
_Shift = Annotated[float, Field(ge=-0.2, le=0.2)]
_Few = Annotated[float, Field(ge=0.001, le=10)]


class ToolConfig(Section):
    """Tool that is bolted to the flange or permanently held by the gripper.

    ``position`` and ``rpy`` are the pose of the end effector in the flange frame.
    """

    mass: Annotated[float, Field(ge=0, le=20)]
    com: Offset = [0.0, 0.0, 0.0]
    inertia: Inertia = [
        1e-4, 1e-4, 1e-4, 0.0, 0.0, 0.0]  # fmt: skip
    """Inertia xx yy zz xy xz yz about the centre of mass [kg m^2]."""
    position: Offset = [0.0, 0.0, 0.0]
    rpy: Rpy = [0.0, 0.0, 0.0]
    friction: Annotated[float, Field(ge=0, le=5)] = 0.0
    """Friction coefficient of the tip, such as rubber; 0 uses that of the touched object. Applies
    to simulated arms only."""


class NoiseConfig(Section):
    """Measurement and execution errors of a simulated arm; zero by default.

    Noise is white, given by its standard deviation in each cycle.
    """

    q: Annotated[float, Field(ge=0, le=0.01)] = 0.0
    """Noise of joint positions [rad]."""
    dq: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Noise of joint velocities [rad/s]."""
    tau: Annotated[float, Field(ge=0, le=5)] = 0.0
    """Noise of external joint torques. Measured torques contain it with opposite sign [Nm]."""
    tau_bias: JointTorques = [0.0] * JOINTS
    """Constant error of external joint torques. Measured torques contain it with opposite sign
    [Nm]."""
    tau_drift: JointFriction = [0.0] * JOINTS
    """Random walk of ``tau_bias``, as standard deviation after one second [Nm/sqrt(s)]."""
    torque_resolution: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Quantization step of executed torques [Nm]."""
    q_resolution: Annotated[float, Field(ge=0, le=0.01)] = 0.0
    """Quantization step of measured positions, as of an encoder [rad]."""
    dq_resolution: Annotated[float, Field(ge=0, le=0.1)] = 0.0
    """Quantization step of measured velocities [rad/s]."""
    tau_resolution: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Quantization step of measured torques [Nm]."""


class PerturbationConfig(Section):
    """Differences between a simulated arm and its model; none by default.

    Controllets and the simulated robot controller use the unperturbed model.
    """

    state_delay: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Delay of measured states, rounded to whole cycles [s]."""
    command_delay: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Delay from commanded to executed torque, rounded to whole cycles [s]."""
    torque_lag: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Time constant of the first-order lag from commanded to executed torque [s]."""
    inertia_scale: Annotated[float, Field(ge=0.5, le=2)] = 1.0
    """Factor on all moving masses, inertias and rotor inertias. Controllets do not know it, but
    the robot compensates the scaled weight."""
    link_mass: Annotated[list[_Scale], Field(min_length=1, max_length=64)] = [1.0] * JOINTS
    """Factor on mass and inertia of each moving link. The gravity compensation of the robot does
    not know it."""
    link_com: Annotated[list[_Shift], _PER_AXIS] = [0.0] * (3 * JOINTS)
    """Offset of the centres of mass in the link frames, x y z per link [m]."""
    link_inertia: Annotated[list[_Scale], _PER_AXIS] = [1.0] * (3 * JOINTS)
    """Factors on the second moments of mass along the three principal axes of each link."""
    torque_bias: JointTorques = [0.0] * JOINTS
    """Error of the executed torque of each joint [Nm].

    The measured torque ``tau_J`` contains it, and so does the estimate of external torques, as for
    a robot that estimates them from its commands. ``noise.tau_bias`` is the error of torque
    sensors."""
    coulomb: JointFriction = [0.0] * JOINTS
    """Coulomb friction in addition to ``joint_friction`` [Nm]."""
    viscous: JointFriction = [0.0] * JOINTS
    """Viscous friction in addition to ``joint_damping`` [Nm s/rad]."""
    stribeck: JointFriction = [0.0] * JOINTS
    """Excess of static friction over Coulomb friction [Nm]."""
    stribeck_speed: Annotated[list[_Few], _PER_JOINT] = [0.05] * JOINTS
    """Stribeck velocity, at which the excess ``stribeck`` has fallen to 1/e [rad/s]."""
    friction_offset: JointTorques = [0.0] * JOINTS
    """Friction offset, equal in both directions of motion [Nm]."""
    hysteresis: JointFriction = [0.0] * JOINTS
    """Amplitude of hysteretic friction, which depends on the distance since the last reversal
    [Nm]."""
    hysteresis_distance: Annotated[list[_Few], Field(min_length=1, max_length=64)] = [
        0.02
    ] * JOINTS
    """Distance after a reversal until hysteretic friction acts fully in the other direction
    [rad]."""
    payload: Annotated[float, Field(ge=0, le=20)] = 0.0
    """Mass at the flange that the robot does not compensate [kg]."""
    payload_com: Offset = [0.0, 0.0, 0.2]
    """Centre of mass of the payload in the flange frame [m]."""
    base_position: Offset = [0.0, 0.0, 0.0]
    """Displacement of the base relative to ``position``, in the base frame [m]."""
    base_rpy: Rpy = [0.0, 0.0, 0.0]
    """Rotation of the base relative to ``rpy``, as roll, pitch, yaw [rad]."""
    tool_mass: _Scale = 1.0
    """Factor on mass and inertia of the tool."""
    tool_com: Offset = [0.0, 0.0, 0.0]
    """Offset of the tool's centre of mass in the flange frame [m]."""
    tool_position: Offset = [0.0, 0.0, 0.0]
    """Offset of the tool's end-effector point and shape in the flange frame [m]."""
    parameters: str = ""
    """YAML file of ``multipanda identify`` with inertias, rotor inertias and friction of the
    simulated arm. The other keys of this section then change these. Controllets and robot do not
    know them."""


class ResidualConfig(Section):
    """Networks that correct states or torques of an arm for errors of its model; none by default.

    Each key names a file that ``multipanda residual train --kind real_time`` has written for this
    robot model.
    """

    state: str = ""
    """Residual between a real robot and its simulation. It corrects the states of a simulated arm
    to those that the real robot would report."""
    wrench: str = ""
    """Residual of measured torques without contact. It corrects the estimated external torques."""
    torque: str = ""
    """Residual of the torques that the arm needs in addition to its model, for controllets with
    the feature ``residual``."""


class JointsConfig(Section):
    """Elasticity and torque ripple of the gears of a simulated arm; rigid by default.

    An estimate for an FR3 is 14000 Nm/rad for joints 1 to 4 and 9000 Nm/rad for the wrist, with a
    damping of 0.001 s times the stiffness. Lightweight arms with strain wave gears have 5000 to
    15000 Nm/rad (Albu-Schäffer, Ott and Hirzinger, 2007). A realistic ripple is a few tenths of a
    Nm.
    """

    stiffness: JointStiffness = [0.0] * JOINTS
    """Stiffness of the spring between motor and joint; 0 is a rigid joint [Nm/rad]."""
    damping: SpringDamping = [0.0] * JOINTS
    """Damping of that spring [Nm s/rad]."""
    ripple: JointFriction = [0.0] * JOINTS
    """Amplitude of the torque ripple of the gear [Nm]."""
    ripple_waves: JointStiffness = [200.0] * JOINTS
    """Ripple periods per revolution of the joint; twice the ratio of a strain wave gear."""

    @property
    def is_elastic(self) -> bool:
        """True if a joint has a spring between motor and link."""
        return any(self.stiffness)


PER_JOINT: dict[str, dict[str, float]] = {
    "": {"joint_damping": 0.0, "joint_friction": 0.0},
    "noise": {"tau_bias": 0.0, "tau_drift": 0.0},
    "perturbation": {
        "torque_bias": 0.0, "link_mass": 1.0, "coulomb": 0.0, "viscous": 0.0, "stribeck": 0.0,
        "stribeck_speed": 0.05, "friction_offset": 0.0, "hysteresis": 0.0,
        "hysteresis_distance": 0.02,
    },
    "transmission": {"stiffness": 0.0, "damping": 0.0, "ripple": 0.0, "ripple_waves": 200.0},
}  # fmt: skip
"""Keys of an arm and its sections with one number per joint, and the default of each number."""
PER_AXIS: dict[str, float] = {"link_com": 0.0, "link_inertia": 1.0}
"""Keys of ``perturbation`` with three numbers per joint, and the default of each number."""


class ArmConfig(Section):
    """One arm: its backend, robot model, pose and errors.

    A section of the arm with the name of a backend contains settings of this backend; see
    :mod:`multipanda_py.config.backend_section`.
    """

    model_config = ConfigDict(extra="allow")

    backend: str = "mujoco"
    model: Model = DEFAULT_MODEL
    """Robot model: a name that ``multipanda list robots`` prints, or the files of another
    robot."""
    position: Position = [0.0, 0.0, 0.0]
    rpy: Rpy = [0.0, 0.0, 0.0]
    gripper: Hand = True
    """``true`` for the gripper of the model, ``false`` for none, or the files of a parallel
    gripper. By default true if the model has a gripper."""
    compensates_gravity: bool = True
    """True if the arm compensates the weight of its links, tool and load; by default as the model
    does. If false, the loop adds the gravity torque, including the weight of a grasped object."""
    tool: ToolConfig | None = None
    interfaces: Annotated[
        list[Literal["effort", "position", "velocity"]], BeforeValidator(without_placeholder)
    ] = []
    """Command interfaces to use, out of those that the backend offers; empty uses all of them."""
    q_start: JointConfiguration = MODELS[DEFAULT_MODEL].ready.tolist()
    """Start configuration, by default the ready configuration of the model [rad]."""
    torque_rate: Annotated[float, Field(ge=100, le=1000)] | None = None
    """Maximum torque rate, if lower than the robot's [Nm/s]."""
    joint_damping: JointFriction = [0.0] * JOINTS
    """Viscous joint friction [Nm s/rad]. By default that of the model, zero unless identified."""
    joint_friction: JointFriction = [0.0] * JOINTS
    """Coulomb joint friction [Nm]. By default that of the model, zero unless identified."""
    identified: str = ""
    """YAML file of ``multipanda identify``. Controllets and the estimate of external torques use
    it instead of the model. Simulated arms and their simulated robot controllers ignore it."""
    residual: ResidualConfig = ResidualConfig()
    noise: NoiseConfig = NoiseConfig()
    perturbation: PerturbationConfig = PerturbationConfig()
    transmission: JointsConfig = JointsConfig()
    actuators: dict[GroupName, ActuatorConfig] = {}
    """Compliant actuators, by name of a group of joints. By default those that the URDF of the
    model declares with tags of the ROS-Gazebo toolbox, if any."""
    robot_ip: Annotated[str, Field(pattern=r"^[A-Za-z0-9.:-]*$")] = ""
    """IP address of the robot, for backends that need one."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_model_defaults(cls, data: Any) -> Any:
        if not _is_map(data):
            return data
        model = resolved(ModelConfig, data.get("model", DEFAULT_MODEL))
        robot = robot_of(model)
        if robot is None:
            return data
        filled = {
            "q_start": robot.ready.tolist(),
            "gripper": robot.has_hand,
            "compensates_gravity": robot.compensates_gravity,
            **data,
            "model": model,
        }
        filled["gripper"] = resolved(GripperConfig, filled["gripper"])
        filled = with_absolute_paths(filled)
        if (tags := tags_of(model)) and _has_springs(filled.get("backend", "mujoco")):
            filled.setdefault("actuators", tags)
        for key, own in (("joint_damping", robot.damping), ("joint_friction", robot.friction)):
            if own.any():
                filled.setdefault(key, own.tolist())
        for section, keys in PER_JOINT.items() if robot.n_joints != JOINTS else ():
            section_values = filled
            if section:
                given = filled.get(section, {})
                if not _is_map(given):
                    continue
                section_values = filled[section] = dict(given)
            for key, value in keys.items():
                section_values.setdefault(key, [value] * robot.n_joints)
            for key, value in PER_AXIS.items() if section == "perturbation" else ():
                section_values.setdefault(key, [value] * (3 * robot.n_joints))
        return filled

    @property
    def rigid_robot(self) -> Robot:
        """Robot model without compliant actuators."""
        return MODELS[self.model] if isinstance(self.model, str) else self.model.robot

    @property
    def robot(self) -> Robot:
        """Robot model with compliant actuators, if the arm has any."""
        robot = self.rigid_robot
        return with_actuators(robot, self.actuators) if self.actuators else robot

    @property
    def robot_of_laws(self) -> Robot:
        """Robot model for controllets: with the parameters in the file ``identified``, if given.

        Raises:
            ConfigurationError: If ``identified`` cannot be read.
        """
        return (
            with_parameters(self.robot, Path(self.identified)) if self.identified else self.robot
        )

    @property
    def robot_of_body(self) -> Robot:
        """Robot model for the simulation: with the file ``perturbation.parameters``, if given.

        The simulation itself applies the other keys of ``perturbation``.

        Raises:
            ConfigurationError: If ``perturbation.parameters`` cannot be read.
        """
        file = self.perturbation.parameters
        return with_parameters(self.robot, Path(file)) if file else self.robot

    @property
    def motor_lag(self) -> float:
        """Largest time constant of the motors of compliant actuators [s]; 0 without motors."""
        return max((group.lag for group in self.actuators.values()), default=0.0)

    @property
    def section(self) -> str:
        """Name of the section with the settings of the arm's backend."""
        return section_of(self.backend)

    @property
    def settings(self) -> Settings:
        """Settings of the arm's backend, from the section :attr:`section`."""
        return read_settings(self.backend, (self.model_extra or {}).get(self.section, {}))


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _has_springs(backend: object) -> bool:
    with contextlib.suppress(ConfigurationError):
        has: bool = find_backend(str(backend)).simulates_actuators
        return has
    return False
