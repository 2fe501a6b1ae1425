# SPDX-License-Identifier: Apache-2.0
"""Sections of a cell file: keys, defaults, units and bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from multipanda_py.config.actuator_section import ActuatorConfig, GroupName, with_actuators
from multipanda_py.config.backend_section import find_backend, read_settings, section_of
from multipanda_py.config.model_section import (
    Hand,
    HandConfig,
    Model,
    ModelConfig,
    resolved,
    robot_of,
    tags_of,
    with_absolute_paths,
)
from multipanda_py.config.perturbation_section import PER_AXIS, PerturbationConfig
from multipanda_py.config.section import (
    Color,
    Inertia,
    JointConfiguration,
    JointFriction,
    JointStiffness,
    JointTorques,
    Name,
    ObjectMass,
    Offset,
    Position,
    Rpy,
    Section,
    Size,
    SpringDamping,
)
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameters import Settings
from multipanda_py.robots import DEFAULT_MODEL, MODELS, Robot
from multipanda_py.robots.measured_files import with_parameters
from multipanda_py.state import JOINTS, GateLimits


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

    They are standard deviations of white noise per cycle, errors of the torque sensors, and
    quantization steps.
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


class ResidualConfig(Section):
    """Trained residuals of an arm, which correct its model; none by default.

    Each key names a file of ``multipanda residual train``, for a real-time network and this robot
    model.
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
    """Elasticity and ripple between motors and joints of a simulated arm; rigid by default.

    A Franka has strain wave gears and compliant torque sensors. libfranka accepts joint
    stiffnesses up to 14250 Nm/rad. Lightweight arms of this design have 5000 to 15000 Nm/rad
    (Albu-Schäffer, Ott and Hirzinger, 2007). An estimate for an FR3 is 14000 Nm/rad for joints 1
    to 4 and 9000 Nm/rad for the wrist, with a damping of 0.001 s times the stiffness. Gears are
    specified with an error of 3e-4 rad. The robot's torque loop reduces the resulting ripple to a
    few tenths of a Nm.
    """

    stiffness: JointStiffness = [0.0] * JOINTS
    """Stiffness of the spring between motor and joint; 0 is a rigid joint [Nm/rad]."""
    damping: SpringDamping = [0.0] * JOINTS
    """Damping of that spring [Nm s/rad]."""
    ripple: JointFriction = [0.0] * JOINTS
    """Amplitude of the torque ripple of the gear [Nm]."""
    ripple_waves: JointStiffness = [200.0] * JOINTS
    """Ripple periods per revolution of the joint; twice the ratio of a strain wave gear."""


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


def _empty_list(value: object) -> object:
    return [] if value == [""] else value


class ArmConfig(Section):
    """One arm: its backend, robot model, pose and errors.

    An arm can also have sections named after backends, with their settings; see
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
        list[Literal["effort", "position", "velocity"]], BeforeValidator(_empty_list)
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
    def _as_the_model_is(cls, data: Any) -> Any:
        """Fill in missing values whose defaults depend on the model."""
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
        filled["gripper"] = resolved(HandConfig, filled["gripper"])
        filled = with_absolute_paths(filled)
        if (tags := tags_of(model)) and _has_springs(filled.get("backend", "mujoco")):
            filled.setdefault("actuators", tags)
        for key, own in (("joint_damping", robot.damping), ("joint_friction", robot.friction)):
            if own.any():
                filled.setdefault(key, own.tolist())
        for section, keys in PER_JOINT.items() if robot.n_joints != JOINTS else ():
            section_values = filled
            if section:
                text = filled.get(section, {})
                if not _is_map(text):
                    continue
                section_values = filled[section] = dict(text)
            for key, value in keys.items():
                section_values.setdefault(key, [value] * robot.n_joints)
            for key, value in PER_AXIS.items() if section == "perturbation" else ():
                section_values.setdefault(key, [value] * (3 * robot.n_joints))
        return filled

    @property
    def rigid_robot(self) -> Robot:
        """Robot of the model, without compliant actuators."""
        return MODELS[self.model] if isinstance(self.model, str) else self.model.robot

    @property
    def robot(self) -> Robot:
        """Robot of the model, with compliant actuators if any."""
        robot = self.rigid_robot
        return with_actuators(robot, self.actuators) if self.actuators else robot

    @property
    def robot_of_laws(self) -> Robot:
        """Robot that controllets use: the identified one if given.

        Raises:
            ConfigurationError: If ``identified`` cannot be read.
        """
        return (
            with_parameters(self.robot, Path(self.identified)) if self.identified else self.robot
        )

    @property
    def robot_of_body(self) -> Robot:
        """Robot that is simulated, before the numbers of the section ``perturbation`` apply.

        Raises:
            ConfigurationError: If ``perturbation.parameters`` cannot be read.
        """
        file = self.perturbation.parameters
        return with_parameters(self.robot, Path(file)) if file else self.robot

    @property
    def motor_lag(self) -> float:
        """Largest time constant of the motors of compliant actuators [s]; 0 without any."""
        return max((group.lag for group in self.actuators.values()), default=0.0)

    @property
    def section(self) -> str:
        """Name of the section with the settings of the arm's backend."""
        return section_of(self.backend)

    @property
    def settings(self) -> Settings:
        """Settings of the arm's backend, from the section :attr:`section`."""
        return read_settings(self.backend, (self.model_extra or {}).get(self.section, {}))


def _has_springs(backend: object) -> bool:
    with contextlib.suppress(ConfigurationError):
        has: bool = find_backend(str(backend)).simulates_actuators
        return has
    return False


class ObjectConfig(Section):
    """Object in the simulated scene; a mass of zero fixes it to the world."""

    shape: Literal["box", "sphere", "cylinder", "capsule"]
    size: Size
    position: Position
    rpy: Rpy = [0.0, 0.0, 0.0]
    mass: ObjectMass = 0.0
    rgba: Color = [0.6, 0.6, 0.65, 1.0]
    friction: Annotated[float, Field(ge=0, le=5)] = 0.8
    contact_time: Annotated[float, Field(ge=0.002, le=0.5)] = 0.02
    """Time constant of contacts of the object [s]. Half of it makes them four times as stiff."""
    contact_damping: Annotated[float, Field(ge=0.01, le=10)] = 1.0
    """Damping ratio of contacts of the object."""
    present: bool = True
    """True if the object is in the scene from the start. Objects with mass can also be added and
    removed later."""


class CameraConfig(Section):
    """Fixed camera in the simulated scene; the node publishes its images to subscribers.

    Every scene has a camera ``overview`` that shows all arms. Only its ``width``, ``height`` and
    ``rate`` can be set.
    """

    position: Position | None = None
    look_at: Position | None = None
    """Point in the centre of the image, in the world frame [m]."""
    fovy: Annotated[float, Field(ge=1, le=170)] | None = None
    """Vertical field of view, by default 45 [deg]."""
    width: Annotated[int, Field(ge=16, le=1920)] = 640
    """Image width [pixels]."""
    height: Annotated[int, Field(ge=16, le=1200)] = 480
    """Image height [pixels]."""
    rate: Annotated[float, Field(ge=0.1, le=120)] = 15.0
    """Maximum image rate while there are subscribers; the machine may render fewer [Hz]."""


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


class ControlletConfig(Section):
    """Controllet, as one instance for all ``arms``; without ``arms``, as one for each arm."""

    type: str
    arms: Annotated[list[str], Field(min_length=1)] | None = None
    features: Annotated[list[str] | None, BeforeValidator(_empty_list)] = None
    """Features instead of the default ones; ``['']`` for none, as ROS 2 has no empty lists."""
    params: dict[str, Any] = {}
    arm_params: dict[str, dict[str, Any]] = {}
    """Parameters of single arms that override ``params``, by arm name. Only without ``arms``."""
    target_timeout: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Maximum pause in a stream of targets, after which the measured state is held [s]; 0 is
    never.

    Controllets that take trajectories do not allow it."""


class CollisionsConfig(Section):
    """Exceptions from collision avoidance."""

    allowed_contacts: Annotated[
        list[Annotated[str, Field(pattern=r"^\S+ \S+$")]], BeforeValidator(_empty_list)
    ] = []
    """Pairs that are allowed to touch, as two names: ``left/gripper table``.

    Valid names are arms, an arm's gripper with its tool (``left/gripper``), objects and ``floor``.
    """

    def pairs(self) -> list[tuple[str, str]]:
        return [
            (first, second) for first, second in (text.split() for text in self.allowed_contacts)
        ]


class RealtimeConfig(Section):
    """Real-time settings of the loop's process."""

    priority: Annotated[int, Field(ge=0, le=98)] = 80
    """SCHED_FIFO priority; 0 keeps the normal scheduler."""
    cpu: Annotated[int, Field(ge=-2, le=1023)] = -1
    """Core to pin the loop to; -1 is the last core without another real-time loop, -2 none."""
    lock_memory: bool = True
    disable_cpu_idle: bool = True
    """Keep idle cores out of sleep states, so that cycles start on time at the cost of more power.
    It applies if the loop runs in its own process with real-time priority, or if arms are real."""


class GateConfig(Section):
    """Maximum distances of targets from the measured state at arrival, and maximum values."""

    position: Annotated[float, Field(gt=0, le=5)] = 0.15
    rotation: Annotated[float, Field(gt=0, le=3.2)] = 0.6
    joint: Annotated[float, Field(gt=0, le=7)] = 0.4
    force: Annotated[float, Field(gt=0, le=500)] = 100.0
    """Maximum force of a target [N]. The torque limits of joints may reduce it."""
    torque: Annotated[float, Field(gt=0, le=200)] = 20.0
    """Maximum torque of a target [Nm]."""
    linear_speed: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Maximum linear velocity of a target [m/s]."""
    angular_speed: Annotated[float, Field(gt=0, le=20)] = 2.5
    """Maximum angular velocity of a target [rad/s]."""

    def limits(self) -> GateLimits:
        """Return the limits as the checks of channels take them."""
        return GateLimits(**self.model_dump())


class RecorderConfig(Section):
    """Fault recorder of a cell that runs in real time; it saves the seconds around every fault."""

    faults: bool = True
    """True to save faults; needs ``mcap``, which the extra ``logs`` installs."""
    folder: str = ""
    """Folder in which a subfolder with the cell's name is created; empty is
    ``~/.local/state/multipanda``."""
    max_recordings: Annotated[int, Field(ge=1, le=10000)] = 20
    """Maximum number of saved faults; the oldest are removed."""
    seconds_before: Annotated[float, Field(ge=0.5, le=60)] = 10.0
    """Recorded time before a fault [s]."""
    seconds_after: Annotated[float, Field(ge=0.1, le=60)] = 2.0
    """Recorded time after a fault [s]."""


class CellSettings(Section):
    """Settings of the cell as a whole."""

    name: Name = "cell"
    rate: Annotated[float, Field(ge=100, le=2000)] = 1000.0
    """Cycles per second, which is also the rate of physics steps [Hz]."""
    placement: Literal["process", "thread", "inline"] = "process"
    blend_time: Annotated[float, Field(ge=0, le=1)] = 0.005
    """Time over which torque is blended when an arm changes its controllet [s]. ``hold`` always
    takes over within 5 cycles."""
    heartbeat_timeout: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    """Time without a heartbeat of the owning process after which all arms hold [s]."""
    joint_state_rate: Annotated[float, Field(ge=0.1, le=1000)] = 100.0
    tf_rate: Annotated[float, Field(ge=0, le=1000)] = 50.0
    """Rate of ``/tf``, no higher than ``joint_state_rate``; 0 if another node publishes ``/tf``
    and ``/tf_static`` [Hz]."""
    introspection_rate: Annotated[float, Field(ge=0, le=1000)] = 50.0
    """Rate at which torque terms and reports of controllets are published, no higher than
    ``joint_state_rate``; 0 is never [Hz]."""
    diagnostics_rate: Annotated[float, Field(ge=0.1, le=100)] = 1.0
    """Rate of ``/diagnostics`` [Hz]."""
    clock_rate: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Rate at which the time of the simulation is published on ``/clock``; 0 is never [Hz]."""
    viewer: bool = False
    meshes: str = ""
    """Folder with the obj meshes of mujoco_menagerie's franka_fr3; empty draws primitives."""


class InstanceConfig(Section):
    """Controllet on its arms, as the loop builds it.

    ``name`` is its name in the cell (``left/cartesian_impedance_controller``), ``short_name`` the
    name without the arm. Instances are not read from files, so any sequence is accepted for a
    tuple.
    """

    model_config = ConfigDict(strict=False)

    name: str
    short_name: str
    type: str
    arms: tuple[str, ...]
    features: tuple[str, ...] | None = None
    params: dict[str, Any] = {}
    target_timeout: float = 0.0
    per_arm: bool = False
