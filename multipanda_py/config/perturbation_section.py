# SPDX-License-Identifier: Apache-2.0
"""Section ``perturbation``: model errors of a simulated arm that controllets do not know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from multipanda_py.config.section import JointFriction, JointTorques, Offset, Rpy, Section
from multipanda_py.state import JOINTS

_PER_JOINT = Field(min_length=1, max_length=64)
_PER_AXIS = Field(min_length=3, max_length=192)

_Scale = Annotated[float, Field(ge=0.2, le=5)]
_Shift = Annotated[float, Field(ge=-0.2, le=0.2)]
_Few = Annotated[float, Field(ge=0.001, le=10)]


class PerturbationConfig(Section):
    """Differences between a simulated arm and its description; none by default.

    They serve to test controllets on arms with delays, other masses, friction, a displaced base
    or an unknown payload. Controllets, and the robot's own gravity compensation and estimate of
    external torques, continue to use the description.
    """

    state_delay: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Delay of measured states, rounded to whole cycles [s]."""
    command_delay: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Delay from commanded to executed torque, rounded to whole cycles [s]."""
    torque_lag: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Time constant of the first-order lag from commanded to executed torque [s]."""
    inertia_scale: Annotated[float, Field(ge=0.5, le=2)] = 1.0
    """Factor on all moving masses, inertias and rotor inertias. Controllets do not know it, but
    the robot compensates the scaled weight."""
    link_mass: Annotated[list[_Scale], Field(min_length=1, max_length=64)] = [1.0] * JOINTS
    """Factor on mass and inertia of each moving link. The gravity compensation of the robot does
    not know it."""
    link_com: Annotated[list[_Shift], _PER_AXIS] = [0.0] * (3 * JOINTS)
    """Offset of the centres of mass in the link frames, x y z per link [m]."""
    link_inertia: Annotated[list[_Scale], _PER_AXIS] = [1.0] * (3 * JOINTS)
    """Factors on the second moments of mass along the three principal axes of each link."""
    torque_bias: JointTorques = [0.0] * JOINTS
    """Error of the executed torque of each joint [Nm].

    The measured torque ``tau_J`` contains it, and so does the estimate of external torques, as for
    a robot that estimates them from its commands. ``noise.tau_bias`` is the error of torque
    sensors."""
    coulomb: JointFriction = [0.0] * JOINTS
    """Coulomb friction in addition to ``joint_friction`` [Nm]."""
    viscous: JointFriction = [0.0] * JOINTS
    """Viscous friction in addition to ``joint_damping`` [Nm s/rad]."""
    stribeck: JointFriction = [0.0] * JOINTS
    """Excess of static friction over Coulomb friction [Nm]."""
    stribeck_speed: Annotated[list[_Few], _PER_JOINT] = [0.05] * JOINTS
    """Stribeck velocity, at which the excess ``stribeck`` has fallen to 1/e [rad/s]."""
    friction_offset: JointTorques = [0.0] * JOINTS
    """Friction offset, equal in both directions of motion [Nm]."""
    hysteresis: JointFriction = [0.0] * JOINTS
    """Amplitude of hysteretic friction, which depends on the distance since the last reversal
    [Nm]."""
    hysteresis_distance: Annotated[list[_Few], Field(min_length=1, max_length=64)] = [
        0.02
    ] * JOINTS
    """Distance after a reversal until hysteretic friction acts fully in the other direction
    [rad]."""
    payload: Annotated[float, Field(ge=0, le=20)] = 0.0
    """Mass at the flange that the robot does not compensate [kg]."""
    payload_com: Offset = [0.0, 0.0, 0.2]
    """Centre of mass of the payload in the flange frame [m]."""
    base_position: Offset = [0.0, 0.0, 0.0]
    """Displacement of the base relative to ``position``, in the base frame [m]."""
    base_rpy: Rpy = [0.0, 0.0, 0.0]
    """Rotation of the base relative to ``rpy``, as roll, pitch, yaw [rad]."""
    tool_mass: _Scale = 1.0
    """Factor on mass and inertia of the tool."""
    tool_com: Offset = [0.0, 0.0, 0.0]
    """Offset of the tool's centre of mass in the flange frame [m]."""
    tool_position: Offset = [0.0, 0.0, 0.0]
    """Offset of the tool's end-effector point and shape in the flange frame [m]."""
    parameters: str = ""
    """YAML file of ``multipanda identify`` with inertias, rotor inertias and friction of the
    simulated arm. The other keys of this section then change these. Controllets and robot do not
    know them."""


PER_AXIS: dict[str, float] = {"link_com": 0.0, "link_inertia": 1.0}
"""Keys of ``perturbation`` with three numbers per joint, and the default of each number."""
