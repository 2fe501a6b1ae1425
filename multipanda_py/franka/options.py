# SPDX-License-Identifier: Apache-2.0
"""The section ``franka`` of an arm in the cell file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from multipanda_py.robots.load import NO_LOAD, Load, inertia_matrix

_Threshold = Annotated[float, Field(gt=0, le=1000)]
_Torques = Annotated[list[_Threshold], Field(min_length=7, max_length=7)]
_Wrench = Annotated[list[_Threshold], Field(min_length=6, max_length=6)]
_Stiffness = Annotated[float, Field(ge=0, le=14250)]
_Moment = Annotated[float, Field(ge=-5, le=5)]
_Lever = Annotated[float, Field(ge=-2, le=2)]
_Levers = Annotated[list[_Lever], Field(min_length=3, max_length=3)]
_Angle = Annotated[float, Field(ge=-6.2832, le=6.2832)]
_Angles = Annotated[list[_Angle], Field(min_length=3, max_length=3)]
_Reach = Annotated[float, Field(ge=-0.5, le=0.5)]
"""A wrong load lifts or drops the arm; this keeps the worst of typing errors out [m]."""
_Tolerance = Annotated[float, Field(gt=0, le=10)]
"""Up to what would find no difference at all: for that there is ``model_check: off``."""


def _of_a_body(values: list[float]) -> list[float]:
    """Refuse an inertia that no rigid body has: moments obey the triangle inequality."""
    moments = np.linalg.eigvalsh(inertia_matrix(values))
    if moments[0] <= 0.0 or moments[0] + moments[1] < moments[2] - 1e-9:
        raise ValueError(
            f"no body has the principal moments {moments.round(9).tolist()} kg m^2; they are "
            "positive, and the sum of any two reaches the third"
        )
    return values


_Inertia = Annotated[list[_Moment], Field(min_length=6, max_length=6), AfterValidator(_of_a_body)]

# The values of Franka Robotics' own examples, in newton, newton metre.
_TORQUE_THRESHOLDS = [20.0, 20.0, 18.0, 18.0, 16.0, 14.0, 12.0]
_FORCE_THRESHOLDS = [20.0, 20.0, 20.0, 25.0, 25.0, 25.0]


class FrankaConfig(BaseModel):
    """What a robot is told when it is connected, and how its driver behaves.

    Thresholds, impedances, load and stiffness frame may be changed later, at rest; what comes
    after them is read at the start only. The end effector's frame is not among them: it is the
    frame that the laws control, so that the robot's ``O_T_EE`` is the pose that the laws see.

    A simulated arm compensates the load, and stops at those upper thresholds that are given
    explicitly; it takes everything else, which has no meaning there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    lower_torque_thresholds: _Torques = _TORQUE_THRESHOLDS
    """External joint torque that counts as contact [Nm]."""
    upper_torque_thresholds: _Torques = _TORQUE_THRESHOLDS
    """External joint torque that is a collision and stops the arm [Nm]."""
    lower_force_thresholds: _Wrench = _FORCE_THRESHOLDS
    """External wrench in the stiffness frame that counts as contact [N, Nm]."""
    upper_force_thresholds: _Wrench = _FORCE_THRESHOLDS
    """External wrench in the stiffness frame that is a collision and stops the arm [N, Nm]."""
    joint_impedance: Annotated[list[_Stiffness], Field(min_length=7, max_length=7)] = [
        3000.0, 3000.0, 3000.0, 2500.0, 2500.0, 2000.0, 2000.0]  # fmt: skip
    """Stiffness of the robot's own joint controller, outside torque control [Nm/rad]."""
    cartesian_impedance: Annotated[list[_Stiffness], Field(min_length=6, max_length=6)] = [
        3000.0, 3000.0, 3000.0, 300.0, 300.0, 300.0]  # fmt: skip
    """Stiffness of the robot's own Cartesian controller, which a robot takes from 10 to 3000 N/m
    and from 1 to 300 Nm/rad [N/m, Nm/rad]."""
    load_mass: Annotated[float, Field(ge=0, le=5)] = 0.0
    """Mass of what the arm carries beyond its tool; it is rated for 3 kg with the tool [kg]."""
    load_com: Annotated[list[_Reach], Field(min_length=3, max_length=3)] = [0.0, 0.0, 0.0]
    """Centre of mass of the load in the flange frame [m]."""
    load_inertia: _Inertia = [1e-4, 1e-4, 1e-4, 0.0, 0.0, 0.0]
    """Inertia of the load about its centre of mass, xx yy zz xy xz yz [kg m^2]."""
    stiffness_position: _Levers = [
        0.0,
        0.0,
        0.0,
    ]
    """Origin of the stiffness frame in the end effector's [m]."""
    stiffness_rpy: _Angles = [0.0, 0.0, 0.0]
    """Orientation of the stiffness frame in the end effector's [rad]."""
    tool_in_desk: bool = False
    """Whether Desk knows the arm's tool as part of its end effector: the robot is then told the
    load alone, else tool and load as one body."""
    answer_budget: Annotated[float, Field(ge=1e-4, le=0.5)] = 5e-4
    """How long the driver waits for the loop's torque after a state has come; above a
    millisecond only for simulated robots in lockstep [s]."""
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

    @property
    def load(self) -> Load:
        """What the arm carries beyond its tool."""
        if self.load_mass <= 0.0:
            return NO_LOAD
        return Load(self.load_mass, np.array(self.load_com), inertia_matrix(self.load_inertia))

    @model_serializer(mode="wrap")
    def _given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what was not given, as it matters to simulated arms."""
        return {k: v for k, v in handler(self).items() if k in self.model_fields_set}
