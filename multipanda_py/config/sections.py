# SPDX-License-Identifier: Apache-2.0
"""Sections of a cell file as a whole: keys, defaults, units and bounds.

These classes check only the values within each section. The section of an arm is in
:mod:`multipanda_py.config.arm_section`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.parameter_file import merged
from multipanda_py.config.section import (
    Color,
    Name,
    ObjectMass,
    Position,
    Rpy,
    Section,
    Size,
    without_placeholder,
)
from multipanda_py.state import GateLimits


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

    Every scene has a camera ``overview`` that shows all arms. For this camera, only ``width``,
    ``height`` and ``rate`` can be set.
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


class ControlletConfig(Section):
    """Controllet of a cell.

    With ``arms``, one instance owns all of these arms. Without ``arms``, every arm of the cell
    gets an instance.
    """

    type: str
    arms: Annotated[list[str], Field(min_length=1)] | None = None
    features: Annotated[list[str] | None, BeforeValidator(without_placeholder)] = None
    """Features instead of the default ones; ``['']`` for none, as ROS 2 has no empty lists."""
    params: dict[str, Any] = {}
    arm_params: dict[str, dict[str, Any]] = {}
    """Parameters of single arms that override ``params``, by arm name. Only without ``arms``."""
    target_timeout: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Maximum pause in a stream of targets, after which the measured state is held [s]; 0 is
    never.

    Controllets that take trajectories do not allow it."""

    def params_of(self, arm: str) -> dict[str, Any]:
        """Return the parameters of the instance of one arm."""
        return merged(self.params, self.arm_params.get(arm, {}))


class CollisionsConfig(Section):
    """Pairs of bodies that collision avoidance allows to touch."""

    allowed_contacts: Annotated[
        list[Annotated[str, Field(pattern=r"^\S+ \S+$")]], BeforeValidator(without_placeholder)
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
    """Limits of targets: distance from the measured state, force, torque and speed.

    The distance is checked when a target arrives.
    """

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
        """Return the limits as :class:`.GateLimits`."""
        return GateLimits(**self.model_dump())


class RecorderConfig(Section):
    """Fault recorder of a cell that runs in real time.

    It saves the cycles before and after each fault.
    """

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
    """Configuration of one controllet instance.

    ``name`` is the name in the cell, such as ``left/cartesian_impedance_controller``.
    ``short_name`` is the name without the arm.
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


class CellSections(Section):
    """Sections of a cell file, whose values are only checked within each section.

    :class:`.CellConfig` also checks rules that span several sections.
    """

    cell: CellSettings = CellSettings()
    realtime: RealtimeConfig = RealtimeConfig()
    gate: GateConfig = GateConfig()
    recorder: RecorderConfig = RecorderConfig()
    arms: Annotated[dict[Name, ArmConfig], Field(min_length=1, max_length=8)]
    objects: dict[Name, ObjectConfig] = {}
    cameras: dict[Name, CameraConfig] = {}
    collisions: CollisionsConfig = CollisionsConfig()
    controllets: dict[Name, ControlletConfig] = {}
    active: list[str] = []
    """Instances that are active at the start; ``hold`` owns the remaining arms."""

    def instances(self) -> Iterator[InstanceConfig]:
        """Yield every controllet instance: ``hold`` of each arm first, then the declared ones."""
        for arm in self.arms:
            yield InstanceConfig(
                name=f"{arm}/hold", short_name="hold", type="hold", arms=(arm,), per_arm=True
            )
        for name, declared in self.controllets.items():
            common: dict[str, Any] = {
                "short_name": name,
                "type": declared.type,
                "features": None if declared.features is None else tuple(declared.features),
                "params": declared.params,
                "target_timeout": declared.target_timeout,
            }
            if declared.arms is not None:
                yield InstanceConfig(name=name, arms=tuple(declared.arms), **common)
                continue
            for arm in self.arms:
                common["params"] = declared.params_of(arm)
                yield InstanceConfig(name=f"{arm}/{name}", arms=(arm,), per_arm=True, **common)
