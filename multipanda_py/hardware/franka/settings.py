# SPDX-License-Identifier: Apache-2.0
"""Settings in the section ``franka`` of an arm, and their conversion to settings of its driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.hardware.franka.robot_connection import DriverSettings
from multipanda_py.parameters import Settings, choice, flag, integer, number, vector
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.robots.inertial import NO_LOAD, Load, combined, inertia_matrix
from multipanda_py.state import Matrix


@dataclass(frozen=True)
class LoadSettings(Settings):
    """Settings of the load that an arm carries in addition to its tool."""

    load_mass: float = number(
        0.0, unit="kg", low=0, high=20, doc="Mass of the load of the arm beyond its tool"
    )
    # The limits reject gross errors, because a wrong load would lift or drop the arm.
    load_com: list[float] = vector(
        0, 0, 0, unit="m", low=-0.5, high=0.5,
        doc="Centre of mass of the load in the flange frame",
    )  # fmt: skip
    load_inertia: list[float] = vector(
        1e-4, 1e-4, 1e-4, 0, 0, 0, unit="kg m^2", low=-5, high=5,
        doc="Inertia of the load about its centre of mass, xx yy zz xy xz yz",
    )  # fmt: skip

    @property
    def load(self) -> Load:
        """Load of the arm without its tool; no load if ``load_mass`` is zero."""
        if self.load_mass <= 0.0:
            return NO_LOAD
        return Load(self.load_mass, np.array(self.load_com), inertia_matrix(self.load_inertia))

    @classmethod
    def refusal(cls, name: str, value: Any) -> str:
        """Return the reason why a value of ``load_inertia`` is impossible.

        The result is an empty string for a valid value, and for every other setting.
        """
        return _impossible_inertia_reason(value) if name == "load_inertia" else ""


def _impossible_inertia_reason(inertia: Sequence[float]) -> str:
    """Return the reason why no rigid body can have an inertia [kg m^2], or an empty string."""
    moments = np.linalg.eigvalsh(inertia_matrix(inertia))
    if moments[0] > 0.0 and moments[0] + moments[1] >= moments[2] - 1e-9:
        return ""
    return (
        f"no rigid body has the principal moments {moments.round(9).tolist()} kg m^2: they must "
        "be positive, and the sum of any two must reach the third"
    )


# Collision thresholds in the examples of Franka Robotics: joints [Nm], end effector [N, Nm].
_TORQUE_THRESHOLDS = (20.0, 20.0, 18.0, 18.0, 16.0, 14.0, 12.0)
_FORCE_THRESHOLDS = (20.0, 20.0, 20.0, 25.0, 25.0, 25.0)
_THRESHOLD_BOUNDS: dict[str, Any] = {"low": 0, "high": 1000, "exclusive_low": True}
_TOLERANCE_BOUNDS: dict[str, Any] = {
    "low": 0,
    "high": 10,
    "exclusive_low": True,
    "read_only": True,
}
"""Range of the tolerances. Larger ones would never find a difference; use ``model_check: off``."""


@dataclass(frozen=True)
class FrankaSettings(LoadSettings):
    """Settings of a Franka robot and its driver.

    Thresholds, impedances, load and stiffness frame may be changed while the arm is on hold and at
    rest. All other settings are read at the start. The end-effector frame of the robot is always
    that of the controllets.

    A simulated arm compensates the load, and stops at the upper thresholds that the cell file sets
    explicitly. It ignores all other settings.
    """

    lower_torque_thresholds: list[float] = vector(
        *_TORQUE_THRESHOLDS,
        **_THRESHOLD_BOUNDS,
        unit="Nm",
        doc="External joint torque that counts as contact",
    )
    upper_torque_thresholds: list[float] = vector(
        *_TORQUE_THRESHOLDS,
        **_THRESHOLD_BOUNDS,
        unit="Nm",
        doc="External joint torque that is a collision and stops the arm",
    )
    lower_force_thresholds: list[float] = vector(
        *_FORCE_THRESHOLDS,
        **_THRESHOLD_BOUNDS,
        unit="N, Nm",
        doc="External wrench in the stiffness frame that counts as contact",
    )
    upper_force_thresholds: list[float] = vector(
        *_FORCE_THRESHOLDS,
        **_THRESHOLD_BOUNDS,
        unit="N, Nm",
        doc="External wrench in the stiffness frame that is a collision and stops the arm",
    )
    joint_impedance: list[float] = vector(
        3000, 3000, 3000, 2500, 2500, 2000, 2000, unit="Nm/rad", low=0, high=14250,
        doc="Stiffness of the robot's internal joint controller, outside torque control",
    )  # fmt: skip
    cartesian_impedance: list[float] = vector(
        3000, 3000, 3000, 300, 300, 300, unit="N/m, Nm/rad", low=0, high=14250,
        doc="Stiffness of the robot's internal Cartesian controller; a robot accepts 10 to 3000 "
        "N/m and 1 to 300 Nm/rad",
    )  # fmt: skip
    motion_controller: str = choice(
        "joint_impedance", options=("joint_impedance", "cartesian_impedance"), read_only=True,
        doc="Internal controller of the robot that follows commanded positions and velocities",
    )  # fmt: skip
    load_mass: float = number(
        0.0, unit="kg", low=0, high=5,
        doc="Mass of the load of the arm beyond its tool; it is rated for 3 kg with the tool",
    )  # fmt: skip
    stiffness_position: list[float] = vector(
        0, 0, 0, unit="m", low=-2, high=2,
        doc="Origin of the stiffness frame in the end-effector frame",
    )  # fmt: skip
    stiffness_rpy: list[float] = vector(
        0, 0, 0, unit="rad", low=-6.2832, high=6.2832,
        doc="Orientation of the stiffness frame in the end-effector frame",
    )  # fmt: skip
    tool_in_desk: bool = flag(
        False, read_only=True,
        doc="True if the end effector in Desk includes the tool of the arm: the load of the robot "
        "is then only the load, otherwise tool and load as one body",
    )  # fmt: skip
    answer_budget: float = number(
        5e-4, unit="s", low=1e-4, high=0.5, read_only=True,
        doc="Time for which the driver waits for the torque of the loop after a state; above 1 ms "
        "only for simulated robots in lockstep",
    )  # fmt: skip
    priority: int = integer(
        85, low=0, high=98, read_only=True,
        doc="SCHED_FIFO priority of the driver, above that of the loop; 0: normal scheduler",
    )  # fmt: skip
    model_check: str = choice(
        "warn", options=("off", "warn", "refuse"), read_only=True,
        doc="Reaction to a difference between the model of the robot and ours",
    )  # fmt: skip
    tolerance_mass: float = number(
        0.05, **_TOLERANCE_BOUNDS, unit="kg m^2", doc="Tolerance of elements of the mass matrix"
    )
    tolerance_coriolis: float = number(
        0.05, **_TOLERANCE_BOUNDS, unit="Nm", doc="Tolerance of Coriolis torques at 0.5 rad/s"
    )
    tolerance_gravity: float = number(
        0.5, **_TOLERANCE_BOUNDS, unit="Nm", doc="Tolerance of gravity torques"
    )
    tolerance_jacobian: float = number(
        0.002, **_TOLERANCE_BOUNDS, unit="m/rad", doc="Tolerance of elements of the Jacobian"
    )


def driver_settings(
    robot_ip: str, options: FrankaSettings, description: ArmDescription, cpus: Sequence[int]
) -> DriverSettings:
    """Return the settings for the driver of an arm.

    Args:
        robot_ip: Address of the robot.
        options: Section ``franka`` of the arm in the cell file.
        description: Description of the arm.
        cpus: Cores that the driver may use.
    """
    return DriverSettings(
        robot_ip=robot_ip,
        torque_limits=description.limits.torque.tolist(),
        motion_limits=[
            getattr(description.limits, name).tolist()
            for name in ("lower", "upper", "velocity", "acceleration", "jerk")
        ],
        motion_controller=options.motion_controller,
        answer_budget=options.answer_budget,
        priority=options.priority,
        cpus=list(cpus),
        EE_in_flange=_columns(pose_ee_in_flange(description)),
        **_live(options, description),
    )


def changed_settings(
    settings: DriverSettings, options: FrankaSettings, arm: ArmDescription
) -> DriverSettings:
    """Return a copy of driver settings with new thresholds, impedances, load and stiffness frame.

    Args:
        settings: Settings of the driver.
        options: New settings of the robot.
        arm: Description of the arm.

    Thread: control.
    """
    return replace(settings, **_live(options, arm))


def _live(options: FrankaSettings, arm: ArmDescription) -> dict[str, Any]:
    placed = Pose.from_rpy(options.stiffness_position, options.stiffness_rpy)
    stiffness = np.eye(4)
    stiffness[:3, :3], stiffness[:3, 3] = placed.rotation, placed.position
    load = commanded_load(options, arm)
    return {
        "collision_behavior": [
            options.lower_torque_thresholds,
            options.upper_torque_thresholds,
            options.lower_force_thresholds,
            options.upper_force_thresholds,
        ],
        "joint_impedance": options.joint_impedance,
        "cartesian_impedance": options.cartesian_impedance,
        "K_in_EE": _columns(stiffness),
        "load_mass": load.mass,
        "load_com": load.com.tolist(),
        "load_inertia": load.inertia.ravel(order="F").tolist(),
    }


def pose_ee_in_flange(arm: ArmDescription) -> Matrix:
    """Return the pose of the controlled end effector in the flange frame, (4, 4)."""
    model: Any = build_pinocchio(arm)
    data = model.createData()
    pin.framesForwardKinematics(model, data, pin.neutral(model))
    flange = data.oMf[model.getFrameId(arm.flange_frame)]
    tool = data.oMf[model.getFrameId(arm.ee_frame)]
    return np.array(flange.actInv(tool).homogeneous)


def commanded_load(options: FrankaSettings, arm: ArmDescription) -> Load:
    """Return the load for libfranka's ``set_load``: load and tool of the arm as one body.

    With ``tool_in_desk``, the tool is excluded.
    """
    tool = arm.tool
    if tool is None or options.tool_in_desk:
        return options.load
    return combined([Load(tool.mass, tool.com_in_flange, tool.inertia), options.load])


def _columns(pose: Matrix) -> list[float]:
    numbers: list[float] = pose.ravel(order="F").tolist()
    return numbers
