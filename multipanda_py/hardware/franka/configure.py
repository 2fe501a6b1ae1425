# SPDX-License-Identifier: Apache-2.0
"""Convert settings of the cell file to settings of a driver. Thread: control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.hardware.franka.driver_settings import DriverSettings
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import build_pinocchio
from multipanda_py.robots.inertial import Load, combined
from multipanda_py.state import Matrix


def driver_settings(
    robot_ip: str, options: FrankaSettings, description: ArmDescription, cpus: Sequence[int]
) -> DriverSettings:
    """Return the settings of an arm's driver.

    Args:
        robot_ip: Address of the robot.
        options: Settings from the cell file.
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
    """Return the settings with the changeable ones replaced; fast. Thread: control.

    Args:
        settings: Present settings of the driver.
        options: New settings of the robot.
        arm: Description of the arm.
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
    """Return the pose of the controlled frame in the flange frame, (4, 4)."""
    model: Any = build_pinocchio(arm)
    data = model.createData()
    pin.framesForwardKinematics(model, data, pin.neutral(model))
    flange = data.oMf[model.getFrameId(arm.flange_frame)]
    tool = data.oMf[model.getFrameId(arm.ee_frame)]
    return np.array(flange.actInv(tool).homogeneous)


def commanded_load(options: FrankaSettings, arm: ArmDescription) -> Load:
    """Return the load to set on the robot: that of the arm, and its tool unless Desk includes it.

    Args:
        options: Settings of the robot.
        arm: Description of the arm, with its tool.
    """
    tool = arm.tool
    if tool is None or options.tool_in_desk:
        return options.load
    return combined([Load(tool.mass, tool.com_in_flange, tool.inertia), options.load])


def _columns(pose: Matrix) -> list[float]:
    numbers: list[float] = pose.ravel(order="F").tolist()
    return numbers
