# SPDX-License-Identifier: Apache-2.0
"""The section ``franka`` of an arm in the cell file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

_Threshold = Annotated[float, Field(gt=0, le=1000)]
_Torques = Annotated[list[_Threshold], Field(min_length=7, max_length=7)]
_Wrench = Annotated[list[_Threshold], Field(min_length=6, max_length=6)]
_Stiffness = Annotated[float, Field(ge=0, le=14250)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Vector3 = Annotated[list[_Finite], Field(min_length=3, max_length=3)]
_Tolerance = Annotated[float, Field(gt=0, allow_inf_nan=False)]

# The values of Franka Robotics' own examples, in newton, newton metre.
_TORQUE_THRESHOLDS = [20.0, 20.0, 18.0, 18.0, 16.0, 14.0, 12.0]
_FORCE_THRESHOLDS = [20.0, 20.0, 20.0, 25.0, 25.0, 25.0]


class FrankaConfig(BaseModel):
    """What a real arm is told when it is connected, and how its driver behaves.

    The end effector's frame is not among them: it is the frame that the laws control, so that
    the robot's ``O_T_EE`` is the pose that the laws see.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    lower_torque_thresholds: _Torques = _TORQUE_THRESHOLDS
    """External joint torque that counts as contact [Nm]."""
    upper_torque_thresholds: _Torques = _TORQUE_THRESHOLDS
    """External joint torque that is a collision and stops the arm [Nm]."""
    lower_force_thresholds: _Wrench = _FORCE_THRESHOLDS
    """External wrench in the stiffness frame that counts as contact [N, Nm]."""
    upper_force_thresholds: _Wrench = _FORCE_THRESHOLDS
    """External wrench in the stiffness frame that is a collision [N, Nm]."""
    joint_impedance: Annotated[list[_Stiffness], Field(min_length=7, max_length=7)] = [
        3000.0, 3000.0, 3000.0, 2500.0, 2500.0, 2000.0, 2000.0]  # fmt: skip
    """Stiffness of the robot's own joint controller, outside torque control [Nm/rad]."""
    cartesian_impedance: Annotated[list[_Stiffness], Field(min_length=6, max_length=6)] = [
        3000.0, 3000.0, 3000.0, 300.0, 300.0, 300.0]  # fmt: skip
    """Stiffness of the robot's own Cartesian controller: 10 to 3000 N/m, 1 to 300 Nm/rad."""
    load_mass: Annotated[float | None, Field(ge=0, le=20)] = None
    """What is on the flange beyond what Desk knows [kg]; left out: the arm's ``tool``."""
    load_com: _Vector3 = [0.0, 0.0, 0.0]
    """Centre of mass of the load in the flange frame [m]."""
    load_inertia: Annotated[list[_Finite], Field(min_length=6, max_length=6)] = [
        1e-4, 1e-4, 1e-4, 0.0, 0.0, 0.0]  # fmt: skip
    """xx yy zz xy xz yz about the centre of mass [kg m^2]."""
    stiffness_position: _Vector3 = [0.0, 0.0, 0.0]
    """Origin of the stiffness frame in the end effector's [m]."""
    stiffness_rpy: _Vector3 = [0.0, 0.0, 0.0]
    """Orientation of the stiffness frame in the end effector's [rad]."""
    answer_budget: Annotated[float, Field(ge=1e-4, le=0.5)] = 5e-4
    """How long the driver waits for the loop's torque after a state has come [s].

    Above a millisecond only for simulated robots in lockstep.
    """
    priority: Annotated[int, Field(ge=0, le=98)] = 85
    """SCHED_FIFO priority of the driver, above the loop's; 0 keeps the normal scheduler."""
    model_check: Literal["off", "warn", "refuse"] = "warn"
    """What to do when the robot's own model differs from ours."""
    tolerance_mass: _Tolerance = 0.05
    """Of an element of the mass matrix [kg m^2]."""
    tolerance_coriolis: _Tolerance = 0.05
    """Of a Coriolis torque when all joints turn at 0.5 rad/s [Nm]."""
    tolerance_gravity: _Tolerance = 0.5
    """Of a gravity torque [Nm]."""
    tolerance_jacobian: _Tolerance = 0.002
    """Of an element of the Jacobian [m/rad]."""
