# SPDX-License-Identifier: Apache-2.0
"""Settings of arms behind an external controller manager, and their transfer to the driver."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.hardware.franka.settings import LoadSettings
from multipanda_py.parameters import choice, integer, number, text
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import LoadedFlange, model_with_gravity
from multipanda_py.robots.inertial import Load
from multipanda_py.state import ArmLimits

ARRAY, JOINT_STATE = "float64_multi_array", "joint_state"
EFFORT, POSITION = "effort", "position"


@dataclass(frozen=True)
class Ros2ControlSettings(LoadSettings):
    """Topics, timing and limits of an arm behind an external controller manager.

    Load and damping may be changed while the cell runs. All other settings are read at the start.
    """

    state_topic: str = text(
        "/joint_states", read_only=True,
        doc="JointState with positions and velocities, as joint_state_broadcaster publishes it",
    )  # fmt: skip
    command_topic: str = text(
        "/effort_controller/commands", read_only=True,
        doc="Topic for commands, such as ~/commands of a JointGroupEffortController",
    )  # fmt: skip
    command_interface: str = choice(
        EFFORT, options=(EFFORT, POSITION), read_only=True,
        doc="Kind of commands: efforts, or positions for a JointGroupPositionController",
    )  # fmt: skip
    command_type: str = choice(
        ARRAY, options=(ARRAY, JOINT_STATE), read_only=True,
        doc="Message type of commands: std_msgs/Float64MultiArray in the order of joint_names, or "
        "sensor_msgs/JointState with efforts or positions by name",
    )  # fmt: skip
    joint_names: str = text(
        "", read_only=True,
        doc="Joint names in these messages, from base to flange, separated by spaces; empty for "
        "the names of the model",
    )  # fmt: skip
    rate: float = number(
        500.0, unit="Hz", low=100, high=2000, read_only=True,
        doc="Rate of the states; must equal cell.rate",
    )  # fmt: skip
    state_timeout: float = number(
        0.05, unit="s", low=0.005, high=1, read_only=True,
        doc="Maximum time between two states before a fault",
    )  # fmt: skip
    answer_budget: float = number(
        0.001, unit="s", low=1e-4, high=0.5, read_only=True,
        doc="Time for which the driver waits for the command of the loop after a state; above one "
        "period only for simulations in lockstep",
    )  # fmt: skip
    effort: str = choice(
        "none", options=("none", "torque"), read_only=True,
        doc="Meaning of the efforts in the states: joint torques [Nm] including gravity, used to "
        "estimate external torques, or none, such as currents",
    )  # fmt: skip
    priority: int = integer(
        85, low=0, high=98, read_only=True,
        doc="SCHED_FIFO priority of the driver, above that of the loop; 0: normal scheduler",
    )  # fmt: skip
    damping: float = number(
        0.3, low=0, high=1,
        doc="Damping without the loop: braking torque at the speed limit, as a fraction of the "
        "torque limit of each joint",
    )  # fmt: skip


@dataclass(frozen=True)
class TopicDriverSettings:
    """Settings of one driver process, sent to it as JSON.

    Attributes that are not listed here are those of :class:`.Ros2ControlSettings`.

    Attributes:
        arm: Name of the arm.
        joint_names: Names of the joints in messages, from base to flange, n.
        velocity_limits: Maximum speeds, (n,) [rad/s].
        endless: True for each continuous joint, (n,).
        slides: True for each prismatic joint, (n,): its units are m and N instead of rad and Nm.
        motion_bounds: Limits of commanded motions: lower and upper positions, velocities,
            accelerations, jerks, (n,) each.
        torque_limits: Maximum torques, (n,) [Nm].
        torque_steps: Maximum torque changes between two commands, (n,) [Nm].
        damping: Damping that brakes the arm without commands of the loop, (n,) [Nm s/rad].
        carries: True if the driver must compensate gravity, because the arm does not.
        model: Model of the arm with its tool, encoded by :func:`packed`.
        flange_frame: Name of the flange frame in ``model``.
        load_mass: Mass of the load beyond the tool [kg].
        load_com: Centre of mass of the load in the flange frame, (3,) [m].
        load_inertia: Inertia of the load about its centre of mass, row-major, (9,) [kg m^2].
        cpus: Cores that the driver may use.
    """

    arm: str
    state_topic: str
    command_topic: str
    command_type: str
    command_interface: str
    joint_names: list[str]
    rate: float
    state_timeout: float
    answer_budget: float
    effort: str
    priority: int
    velocity_limits: list[float]
    endless: list[bool]
    slides: list[bool]
    motion_bounds: list[list[float]]
    torque_limits: list[float]
    torque_steps: list[float]
    damping: list[float]
    carries: bool
    model: str
    flange_frame: str
    load_mass: float
    load_com: list[float]
    load_inertia: list[float]
    cpus: list[int]

    @property
    def peer(self) -> str:
        """Name of the arm for messages, which contains its state topic."""
        return f"the arm on {self.state_topic}"

    @property
    def motion_limits(self) -> ArmLimits:
        """Limits of commanded motions."""
        # ``ArmLimits`` requires a torque rate, which the limiter of positions ignores.
        torque = np.array(self.torque_limits)
        lower, upper, velocity, acceleration, jerk = map(np.array, self.motion_bounds)
        return ArmLimits(lower, upper, velocity, acceleration, jerk, torque, 1e3 + 0.0 * torque)

    @property
    def no_answer(self) -> str:
        """Message about a driver that does not respond, to which the timeout is appended."""
        return f"the driver of {self.peer} does not start; waited"

    def to_json(self) -> str:
        """Return the settings as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> TopicDriverSettings:
        """Return the settings from a text of :meth:`to_json`."""
        return cls(**json.loads(line))


def driver_settings(
    settings: Ros2ControlSettings, arm: ArmDescription, cpus: Sequence[int]
) -> TopicDriverSettings:
    """Return the settings of an arm's driver."""
    names = [joint.name for joint in arm.robot.joints]
    return TopicDriverSettings(
        arm=arm.name,
        joint_names=settings.joint_names.split() or names,
        velocity_limits=arm.limits.velocity.tolist(),
        slides=arm.limits.slides.tolist(),
        endless=np.isinf(arm.limits.upper - arm.limits.lower).tolist(),
        motion_bounds=[
            bound.tolist()
            for bound in (
                arm.limits.lower, arm.limits.upper, arm.limits.velocity, arm.limits.acceleration,
                arm.limits.jerk,
            )
        ],
        torque_limits=arm.limits.torque.tolist(),
        torque_steps=(arm.limits.torque_rate / settings.rate).tolist(),
        carries=not arm.compensates_gravity,
        model=packed(model_with_gravity(arm)),
        flange_frame=arm.flange_frame,
        cpus=list(cpus),
        **{
            name: getattr(settings, name)
            for name in ("state_topic", "command_topic", "command_type", "command_interface",
                         "rate", "state_timeout", "answer_budget", "effort", "priority")
        },
        **_live(settings, arm),
    )  # fmt: skip


def changed_settings(
    previous: TopicDriverSettings, settings: Ros2ControlSettings, arm: ArmDescription
) -> TopicDriverSettings:
    """Return a copy of a driver's settings with a new load and damping.

    Args:
        previous: Settings of the driver.
        settings: New settings of the arm. Only load and damping are used.
        arm: Description of the arm.

    Thread: control.
    """
    return replace(previous, **_live(settings, arm))


def _live(settings: Ros2ControlSettings, arm: ArmDescription) -> dict[str, Any]:
    torque, velocity = arm.limits.torque, arm.limits.velocity
    load = settings.load
    return {
        "damping": (settings.damping * torque / velocity).tolist(),
        "load_mass": load.mass,
        "load_com": load.com.tolist(),
        "load_inertia": load.inertia.ravel().tolist(),
    }


def packed(model: Any) -> str:
    """Encode a pinocchio model as text."""
    return base64.b64encode(zlib.compress(model.saveToString().encode())).decode()


def unpacked(sent: TopicDriverSettings) -> Any:
    """Return the pinocchio model of an arm with tool and load, from a driver's settings."""
    model = pin.Model()
    model.loadFromString(zlib.decompress(base64.b64decode(sent.model)).decode())
    inertia = np.reshape(sent.load_inertia, (3, 3))
    LoadedFlange(model, sent.flange_frame).set_load(
        Load(sent.load_mass, np.array(sent.load_com), inertia)
    )
    return model
