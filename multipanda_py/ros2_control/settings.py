# SPDX-License-Identifier: Apache-2.0
"""The section ``ros2_control`` of an arm in the cell file."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.parameters import choice, integer, number, text
from multipanda_py.robots.load_settings import LoadSettings

ARRAY, JOINT_STATE = "float64_multi_array", "joint_state"
EFFORT, POSITION = "effort", "position"


@dataclass(frozen=True)
class Ros2ControlSettings(LoadSettings):
    """Where a foreign controller manager says what an arm does, and takes commands.

    Load and damping may be changed later; the others are read at the start only.
    """

    state_topic: str = text(
        "/joint_states", read_only=True,
        doc="JointState with positions and velocities, as joint_state_broadcaster publishes it",
    )  # fmt: skip
    command_topic: str = text(
        "/effort_controller/commands", read_only=True,
        doc="Where commands are taken, such as ~/commands of a JointGroupEffortController",
    )  # fmt: skip
    command_interface: str = choice(
        EFFORT, options=(EFFORT, POSITION), read_only=True,
        doc="What these are: efforts, or positions as a JointGroupPositionController takes them",
    )  # fmt: skip
    command_type: str = choice(
        ARRAY, options=(ARRAY, JOINT_STATE), read_only=True,
        doc="std_msgs/Float64MultiArray in the order of joint_names, or sensor_msgs/JointState "
        "with efforts or positions by name",
    )  # fmt: skip
    joint_names: str = text(
        "", read_only=True,
        doc="Names of the joints from base to flange in those messages, separated by spaces; the "
        "model's own if empty",
    )  # fmt: skip
    rate: float = number(
        500.0, unit="Hz", low=100, high=2000, read_only=True,
        doc="States per second of the other side; cell.rate is the same",
    )  # fmt: skip
    state_timeout: float = number(
        0.05, unit="s", low=0.005, high=1, read_only=True,
        doc="Longest pause between two states; what comes later is a fault",
    )  # fmt: skip
    answer_budget: float = number(
        0.001, unit="s", low=1e-4, high=0.5, read_only=True,
        doc="How long the driver waits for the loop's torque after a state has come; above a "
        "period only for simulations in lockstep",
    )  # fmt: skip
    effort: str = choice(
        "none", options=("none", "torque"), read_only=True,
        doc="What the states' efforts are: joint torques [Nm], gravity included, from which the "
        "external torques are estimated, or nothing to go by, as currents",
    )  # fmt: skip
    priority: int = integer(
        85, low=0, high=98, read_only=True,
        doc="SCHED_FIFO priority of the driver, above the loop's; 0 keeps the normal scheduler",
    )  # fmt: skip
    damping: float = number(
        0.3, low=0, high=1,
        doc="Without the loop, an arm is braked at its speed limit with this share of the torque "
        "limit, joint by joint",
    )  # fmt: skip
