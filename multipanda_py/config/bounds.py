# SPDX-License-Identifier: Apache-2.0
"""What numbers and names of a cell file may be.

Bounds are those beyond which a value can only be a typing error: every number in them gives a
cell that can be built and simulated, and every name fits into a file, a topic and a node.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""Of a cell, an arm, an object or a controllet; files and ROS names take 255 characters."""

_Place = Annotated[float, Field(ge=-100, le=100)]
_Angle = Annotated[float, Field(ge=-6.2832, le=6.2832)]
_Offset = Annotated[float, Field(ge=-2, le=2)]
_Moment = Annotated[float, Field(ge=-20, le=20)]
_Torque = Annotated[float, Field(ge=-100, le=100)]
_Extent = Annotated[float, Field(ge=1e-4, le=100)]
_Share = Annotated[float, Field(ge=0, le=1)]
_UpTo100 = Annotated[float, Field(ge=0, le=100)]
_UpTo1000 = Annotated[float, Field(ge=0, le=1000)]
_UpTo100000 = Annotated[float, Field(ge=0, le=100_000)]
_JointAngle = Annotated[float, Field(ge=-10, le=10)]
LIGHTEST = 1e-6
"""Mass of the lightest thing that moves [kg]: at the smallest size its inertia is 4e-15 kg m^2,
and MuJoCo refuses less than 1e-15."""


def _fixed_or_heavy_enough(mass: float) -> float:
    if 0.0 < mass < LIGHTEST:
        raise ValueError(f"should be 0 for a thing that is fixed, or {LIGHTEST:g} to 1000")
    return mass


_PerJoint = Field(min_length=1, max_length=64)  # as many as the arm's model has, see the rules

Position = Annotated[list[_Place], Field(min_length=3, max_length=3)]
"""Of an arm or an object in the world [m]."""
Rpy = Annotated[list[_Angle], Field(min_length=3, max_length=3)]
"""Roll, pitch, yaw, a full turn at most [rad]."""
Offset = Annotated[list[_Offset], Field(min_length=3, max_length=3)]
"""Within an arm or its tool [m]."""
Inertia = Annotated[list[_Moment], Field(min_length=6, max_length=6)]
"""xx yy zz xy xz yz; 20 kg at an arm's length [kg m^2]."""
Size = Annotated[list[_Extent], Field(min_length=1, max_length=3)]
"""Half lengths and radii of things [m]."""
ThingMass = Annotated[float, Field(ge=0, le=1000), AfterValidator(_fixed_or_heavy_enough)]
"""Of a thing in the scene; 0 fixes it to the world [kg]."""
Color = Annotated[list[_Share], Field(min_length=4, max_length=4)]
"""Red, green, blue, opacity."""
Posture = Annotated[list[_JointAngle], _PerJoint]
"""Joint positions; the robot's own limits are narrower [rad]."""
JointTorques = Annotated[list[_Torque], _PerJoint]
"""More than any joint has [Nm]."""
JointFriction = Annotated[list[_UpTo100], _PerJoint]
"""Losses, drifts and amplitudes per joint; more than any joint's torque [Nm, Nm s/rad]."""
SpringDamping = Annotated[list[_UpTo1000], _PerJoint]
"""Of a spring of the largest stiffness, overdamped [Nm s/rad]."""
JointStiffness = Annotated[list[_UpTo100000], _PerJoint]
"""[Nm/rad], or any other large number per joint."""
