# SPDX-License-Identifier: Apache-2.0
"""The sections of a cell file: their keys, defaults, units and bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from multipanda_py.config.actuator_section import ActuatorConfig, GroupName, with_outputs
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
    JointFriction,
    JointStiffness,
    JointTorques,
    Name,
    Offset,
    Position,
    Posture,
    Rpy,
    Section,
    Size,
    SpringDamping,
    ThingMass,
)
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameters import Settings
from multipanda_py.robots import DEFAULT_MODEL, MODELS, Robot
from multipanda_py.robots.measured_files import with_parameters
from multipanda_py.state import JOINTS, GateLimits


class ToolConfig(Section):
    """A tool bolted to the flange, or held by the hand for good.

    ``position`` and ``rpy`` place the tool's working point in the flange frame.
    """

    mass: Annotated[float, Field(ge=0, le=20)]
    com: Offset = [0.0, 0.0, 0.0]
    inertia: Inertia = [
        1e-4, 1e-4, 1e-4, 0.0, 0.0, 0.0]  # fmt: skip
    """xx yy zz xy xz yz about the centre of mass [kg m^2]."""
    position: Offset = [0.0, 0.0, 0.0]
    rpy: Rpy = [0.0, 0.0, 0.0]
    friction: Annotated[float, Field(ge=0, le=5)] = 0.0
    """Of its tip on things, as of rubber; 0 for that of the thing. Simulated arms only."""


class NoiseConfig(Section):
    """What a simulated arm measures and executes less than perfectly; zero by default.

    Standard deviations of white noise per cycle, errors of the torque sensors, and the step in
    which torque is executed.
    """

    q: Annotated[float, Field(ge=0, le=0.01)] = 0.0
    """[rad]"""
    dq: Annotated[float, Field(ge=0, le=1)] = 0.0
    """[rad/s]"""
    tau: Annotated[float, Field(ge=0, le=5)] = 0.0
    """Of external joint torques, and of measured ones the other way round [Nm]."""
    tau_bias: JointTorques = [0.0] * JOINTS
    """Constant error of external joint torques, whose sensors show as much less [Nm]."""
    tau_drift: JointFriction = [0.0] * JOINTS
    """Random walk of that error: its standard deviation after one second [Nm/sqrt(s)]."""
    torque_step: Annotated[float, Field(ge=0, le=1)] = 0.0
    """[Nm]"""
    q_step: Annotated[float, Field(ge=0, le=0.01)] = 0.0
    """In which positions are measured, as by an encoder [rad]."""
    dq_step: Annotated[float, Field(ge=0, le=0.1)] = 0.0
    """The same of velocities [rad/s]."""
    tau_step: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The same of measured torques [Nm]."""


class ResidualConfig(Section):
    """What a network has learned of an arm that its model does not show; nothing by default.

    Files of ``multipanda residual train``, of a real-time network, of this model of robot.
    """

    state: str = ""
    """Of a robot beside its simulation: a simulated arm shows what that robot would show."""
    wrench: str = ""
    """Likewise: of measured torques that nothing outside exerts, for the external torques."""
    torque: str = ""
    """Likewise: of torques that the arm takes beside its model, for laws with ``residual``."""


class JointsConfig(Section):
    """What lies between the motors and the joints of a simulated arm; stiff and smooth by default.

    A Franka has strain wave gears and torque sensors that give way. libfranka takes joint
    stiffnesses up to 14250 Nm/rad, and lightweight arms of this build are reported with 5000 to
    15000 (Albu-Schäffer, Ott and Hirzinger, 2007): 14000 for joints 1 to 4 and 9000 for the
    wrist, with a damping of a thousandth of that, is a fair guess at an FR3. A catalogue allows
    gears an error of 3e-4 rad, of which the robot's torque loop leaves a few tenths of a Nm.
    """

    stiffness: JointStiffness = [0.0] * JOINTS
    """Of the spring between motor and joint; 0 is a rigid joint [Nm/rad]."""
    damping: SpringDamping = [0.0] * JOINTS
    """Of the same [Nm s/rad]."""
    ripple: JointFriction = [0.0] * JOINTS
    """Amplitude of the torque that the gear adds as it turns [Nm]."""
    ripple_waves: JointStiffness = [200.0] * JOINTS
    """Its waves per turn of the joint; twice the gear's ratio for a strain wave gear."""


PER_JOINT: dict[str, dict[str, float]] = {
    "": {"joint_damping": 0.0, "joint_friction": 0.0},
    "noise": {"tau_bias": 0.0, "tau_drift": 0.0},
    "perturbation": {
        "torque_bias": 0.0, "link_mass": 1.0, "coulomb": 0.0, "viscous": 0.0, "stribeck": 0.0,
        "stribeck_speed": 0.05, "friction_offset": 0.0, "hysteresis": 0.0,
        "hysteresis_distance": 0.02,
    },
    "joints": {"stiffness": 0.0, "damping": 0.0, "ripple": 0.0, "ripple_waves": 200.0},
}  # fmt: skip
"""Keys of an arm and its sections that have a number per joint, and what that is by default."""


def _empty_list(value: object) -> object:
    return [] if value == [""] else value


class ArmConfig(Section):
    """One arm: what moves it, what it is, where it stands.

    Beside these keys an arm has sections named after backends, with their settings; see
    :mod:`multipanda_py.config.backend_section`.
    """

    model_config = ConfigDict(extra="allow")

    backend: str = "mujoco"
    model: Model = DEFAULT_MODEL
    """A name that ``multipanda list robots`` has, or the files of a robot of one's own."""
    position: Position = [0.0, 0.0, 0.0]
    rpy: Rpy = [0.0, 0.0, 0.0]
    hand: Hand = True
    """Whether it has the hand of its model, by default where there is one; or the files of a
    parallel gripper of one's own."""
    compensates_gravity: bool = True
    """Whether the arm carries itself, tool and load; by default as its model does. Where not, the
    loop adds what carries them, and the thing that the hand holds."""
    tool: ToolConfig | None = None
    interfaces: Annotated[
        list[Literal["effort", "position", "velocity"]], BeforeValidator(_empty_list)
    ] = []
    """What it may be commanded, of what its backend offers; all of that if empty."""
    q_start: Posture = MODELS[DEFAULT_MODEL].ready.tolist()
    """By default the ready posture of the model [rad]."""
    torque_rate: Annotated[float, Field(ge=100, le=1000)] | None = None
    """Fastest that torque may change [Nm/s], if less than the robot allows."""
    joint_damping: JointFriction = [0.0] * JOINTS
    """By default that of the model, which has some if it was identified [Nm s/rad]."""
    joint_friction: JointFriction = [0.0] * JOINTS
    """Likewise [Nm]."""
    identified: str = ""
    """YAML of ``multipanda identify``, by which laws go instead of the model, and by which
    external torques are estimated; a simulated arm, and what its robot believes, stay the
    model."""
    residual: ResidualConfig = ResidualConfig()
    noise: NoiseConfig = NoiseConfig()
    perturbation: PerturbationConfig = PerturbationConfig()
    joints: JointsConfig = JointsConfig()
    actuators: dict[GroupName, ActuatorConfig] = {}
    """Compliant ones, by names of groups of joints; by default what the toolbox's tags in the URDF
    of the model say, if it has some."""
    robot_ip: Annotated[str, Field(pattern=r"^[A-Za-z0-9.:-]*$")] = ""
    """Address of the robot, for backends that need one."""

    @model_validator(mode="before")
    @classmethod
    def _as_the_model_is(cls, data: Any) -> Any:
        """Fill in what is not given and depends on the model."""
        if not _is_map(data):
            return data
        model = resolved(ModelConfig, data.get("model", DEFAULT_MODEL))
        robot = robot_of(model)
        if robot is None:
            return data
        filled = {
            "q_start": robot.ready.tolist(),
            "hand": robot.has_hand,
            "compensates_gravity": robot.compensates_gravity,
            **data,
            "model": model,
        }
        filled["hand"] = resolved(HandConfig, filled["hand"])
        filled = with_absolute_paths(filled)
        if (found := tags_of(model)) and _has_springs(filled.get("backend", "mujoco")):
            filled.setdefault("actuators", found)
        for key, own in (("joint_damping", robot.damping), ("joint_friction", robot.friction)):
            if own.any():
                filled.setdefault(key, own.tolist())
        for section, keys in PER_JOINT.items() if robot.n_joints != JOINTS else ():
            place = filled
            if section:
                given = filled.get(section, {})
                if not _is_map(given):
                    continue
                place = filled[section] = dict(given)
            for key, value in keys.items():
                place.setdefault(key, [value] * robot.n_joints)
            for key, value in PER_AXIS.items() if section == "perturbation" else ():
                place.setdefault(key, [value] * (3 * robot.n_joints))
        return filled

    @property
    def rigid_robot(self) -> Robot:
        """What its model is without compliant actuators."""
        return MODELS[self.model] if isinstance(self.model, str) else self.model.robot

    @property
    def robot(self) -> Robot:
        """What its model is."""
        robot = self.rigid_robot
        return with_outputs(robot, self.actuators) if self.actuators else robot

    @property
    def robot_of_laws(self) -> Robot:
        """What its laws go by.

        Raises:
            ConfigurationError: If ``identified`` is no such file.
        """
        return (
            with_parameters(self.robot, Path(self.identified)) if self.identified else self.robot
        )

    @property
    def robot_of_body(self) -> Robot:
        """What is simulated, before it is perturbed by numbers.

        Raises:
            ConfigurationError: If ``perturbation.parameters`` is no such file.
        """
        file = self.perturbation.parameters
        return with_parameters(self.robot, Path(file)) if file else self.robot

    @property
    def motor_lag(self) -> float:
        """How late the slowest motor of its compliant actuators brings a torque about [s]."""
        return max((group.lag for group in self.actuators.values()), default=0.0)

    @property
    def section(self) -> str:
        """Name of the section that its backend reads."""
        return section_of(self.backend)

    @property
    def settings(self) -> Settings:
        """What its backend is told about it."""
        return read_settings(self.backend, (self.model_extra or {}).get(self.section, {}))


def _has_springs(backend: object) -> bool:
    """Return whether a backend that exists simulates compliant actuators."""
    with contextlib.suppress(ConfigurationError):
        has: bool = find_backend(str(backend)).simulates_actuators
        return has
    return False


class ObjectConfig(Section):
    """A thing in the simulated scene; fixed to the world when its mass is zero."""

    shape: Literal["box", "sphere", "cylinder", "capsule"]
    size: Size
    position: Position
    rpy: Rpy = [0.0, 0.0, 0.0]
    mass: ThingMass = 0.0
    rgba: Color = [0.6, 0.6, 0.65, 1.0]
    friction: Annotated[float, Field(ge=0, le=5)] = 0.8
    contact_time: Annotated[float, Field(ge=0.002, le=0.5)] = 0.02
    """Time constant of its contacts; half as long is four times as stiff [s]."""
    contact_damping: Annotated[float, Field(ge=0.01, le=10)] = 1.0
    """Damping ratio of its contacts."""
    present: bool = True
    """Whether it is in the scene from the start; one with a mass may also come and go later."""


class CameraConfig(Section):
    """A camera that rests in the simulated scene; the node sends its pictures to who listens.

    The scene has one without being told, ``overview``, which sees all arms: of that one ``width``,
    ``height`` and ``rate`` alone are given.
    """

    position: Position | None = None
    look_at: Position | None = None
    """A point in the middle of the picture, in the world [m]."""
    fovy: Annotated[float, Field(ge=1, le=170)] | None = None
    """Angle between the upper and the lower edge of the picture, by default 45 [deg]."""
    width: Annotated[int, Field(ge=16, le=1920)] = 640
    """[pixels]"""
    height: Annotated[int, Field(ge=16, le=1200)] = 480
    """[pixels]"""
    rate: Annotated[float, Field(ge=0.1, le=120)] = 15.0
    """Pictures a second, while somebody listens; as many as the machine draws [Hz]."""


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


class ControlletConfig(Section):
    """One controllet; without ``arms`` it is declared for every arm of the cell."""

    type: str
    arms: Annotated[list[str], Field(min_length=1)] | None = None
    features: Annotated[list[str] | None, BeforeValidator(_empty_list)] = None
    """Instead of the law's own; ``['']`` for none, as ROS 2 has no empty lists."""
    params: dict[str, Any] = {}
    params_of: dict[str, dict[str, Any]] = {}
    """Other values for single arms, by arm, of a controllet that every arm has."""
    target_timeout: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Hold the measured state when a stream of targets pauses this long [s]; 0 is never.

    Not for laws that take trajectories.
    """


class CollisionsConfig(Section):
    """What collision avoidance is not told by the shapes of things."""

    touching: Annotated[
        list[Annotated[str, Field(pattern=r"^\S+ \S+$")]], BeforeValidator(_empty_list)
    ] = []
    """Pairs that are meant to touch, as two names: ``left/hand table``.

    Names are those of arms, an arm's hand with its tool (``left/hand``), objects, and ``floor``.
    """

    def pairs(self) -> list[tuple[str, str]]:
        """Return the two names of every pair."""
        return [(first, second) for first, second in (text.split() for text in self.touching)]


class RealtimeConfig(Section):
    """How the loop's process asks for its place on the machine."""

    priority: Annotated[int, Field(ge=0, le=98)] = 80
    """SCHED_FIFO priority; 0 keeps the normal scheduler."""
    cpu: Annotated[int, Field(ge=-2, le=1023)] = -1
    """Core to pin the loop to; -1 is the last one without another real-time loop, -2 none."""
    lock_memory: bool = True
    keep_awake: bool = True
    """Keep idle cores out of sleep states while the loop has a process of its own with a
    real-time priority, or real arms run; takes power, and the loop is on time."""


class GateConfig(Section):
    """How far a target may be from the measured state when it arrives, and how large."""

    position: Annotated[float, Field(gt=0, le=5)] = 0.15
    rotation: Annotated[float, Field(gt=0, le=3.2)] = 0.6
    joint: Annotated[float, Field(gt=0, le=7)] = 0.4
    force: Annotated[float, Field(gt=0, le=500)] = 100.0
    """Largest force that a target may ask for [N]; joints may allow less."""
    torque: Annotated[float, Field(gt=0, le=200)] = 20.0
    """Largest torque that a target may ask for [Nm]."""
    speed: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Largest linear velocity that a target may ask for [m/s]."""
    turn: Annotated[float, Field(gt=0, le=20)] = 2.5
    """Largest angular velocity that a target may ask for [rad/s]."""

    def limits(self) -> GateLimits:
        """Return the same for the checks of channels."""
        return GateLimits(**self.model_dump())


class RecorderConfig(Section):
    """What a cell that runs in real time keeps of itself: the seconds around every fault."""

    faults: bool = True
    """Whether they are kept; needs ``mcap``, of the extra ``logs``."""
    folder: str = ""
    """Where, with a folder of the cell's name in it; empty: ``~/.local/state/multipanda``."""
    keep: Annotated[int, Field(ge=1, le=10000)] = 20
    """How many; the oldest are removed."""
    before: Annotated[float, Field(ge=0.5, le=60)] = 10.0
    """Kept from before a fault [s]."""
    after: Annotated[float, Field(ge=0.1, le=60)] = 2.0
    """Kept from after it [s]."""


class CellSettings(Section):
    """What concerns the cell as a whole."""

    name: Name = "cell"
    rate: Annotated[float, Field(ge=100, le=2000)] = 1000.0
    """Cycles per second; also the physics step."""
    placement: Literal["process", "thread", "inline"] = "process"
    blend_time: Annotated[float, Field(ge=0, le=1)] = 0.005
    """Over which torque is blended when an arm changes its controllet [s]; hold takes over within
    5 cycles."""
    heartbeat_timeout: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    """Silence of the owning process after which all arms hold [s]."""
    joint_state_rate: Annotated[float, Field(ge=0.1, le=1000)] = 100.0
    tf_rate: Annotated[float, Field(ge=0, le=1000)] = 50.0
    """How often the node sends ``/tf``, ``joint_state_rate`` at most; 0: somebody else does, and
    ``/tf_static`` too [Hz]."""
    introspection_rate: Annotated[float, Field(ge=0, le=1000)] = 50.0
    """How often it sends what torques are made of and what laws report, ``joint_state_rate`` at
    most; 0: never [Hz]."""
    diagnostics_rate: Annotated[float, Field(ge=0.1, le=100)] = 1.0
    """How often the node sends ``/diagnostics`` [Hz]."""
    clock_rate: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """How often the node sends the time of the simulated world on ``/clock``; 0: never [Hz]."""
    viewer: bool = False
    meshes: str = ""
    """Folder with the obj meshes of mujoco_menagerie's franka_fr3; empty: primitives."""


class InstanceConfig(Section):
    """A controllet on its arms, as the loop builds it.

    ``name`` addresses it in the cell (``left/cartesian_impedance_controller``),
    ``short_name`` in its own namespace. No file gives it: it takes any sequence for a tuple.
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
