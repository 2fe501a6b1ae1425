# SPDX-License-Identifier: Apache-2.0
"""How a simulated arm differs from what its laws and its robot believe."""

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
    """What is wrong with a simulated arm; nothing by default.

    For trying laws on an arm that is late, heavier or lighter than its model, rubs, stands a
    little elsewhere, or carries something that nobody told the robot about. Laws, and the
    robot's own compensation of gravity and estimate of external torques, go on believing the
    description.
    """

    delay: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Age of every measured state when a law sees it, in whole cycles [s]."""
    command_delay: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """From a commanded torque to its execution, in whole cycles [s]."""
    torque_lag: Annotated[float, Field(ge=0, le=0.05)] = 0.0
    """Time constant of the first-order lag from commanded to executed torque [s]."""
    inertia_scale: Annotated[float, Field(ge=0.5, le=2)] = 1.0
    """Factor on all masses, inertias and rotor inertias that move; the robot knows the weight."""
    link_mass: Annotated[list[_Scale], Field(min_length=1, max_length=64)] = [1.0] * JOINTS
    """Factor on the mass of each link that moves, and on its inertia; nobody knows of it."""
    link_com: Annotated[list[_Shift], _PER_AXIS] = [0.0] * (3 * JOINTS)
    """By how much their centres of mass are off in the links' frames, x y z of each [m]."""
    link_inertia: Annotated[list[_Scale], _PER_AXIS] = [1.0] * (3 * JOINTS)
    """Factors on the second moments of mass along each link's three principal axes."""
    torque_bias: JointTorques = [0.0] * JOINTS
    """Added to every executed torque, shown by ``tau_J``, and felt, as by a robot that goes by
    what it commanded; the error of torque sensors is ``noise.tau_bias`` [Nm]."""
    coulomb: JointFriction = [0.0] * JOINTS
    """Friction beside ``joint_friction`` [Nm]."""
    viscous: JointFriction = [0.0] * JOINTS
    """Friction beside ``joint_damping`` [Nm s/rad]."""
    stribeck: JointFriction = [0.0] * JOINTS
    """By how much friction at rest exceeds ``coulomb`` [Nm]."""
    stribeck_speed: Annotated[list[_Few], _PER_JOINT] = [0.05] * JOINTS
    """At which that has fallen to 1/e [rad/s]."""
    friction_offset: JointTorques = [0.0] * JOINTS
    """Friction that is the same in both directions [Nm]."""
    hysteresis: JointFriction = [0.0] * JOINTS
    """Friction that remembers where a joint turned round: what it grows to [Nm]."""
    hysteresis_distance: Annotated[list[_Few], Field(min_length=1, max_length=64)] = [
        0.02
    ] * JOINTS
    """How far a joint goes after a reversal until all of that acts the other way [rad]."""
    payload: Annotated[float, Field(ge=0, le=20)] = 0.0
    """Mass that hangs at the flange and that nothing compensates [kg]."""
    payload_com: Offset = [0.0, 0.0, 0.2]
    """Its centre of mass in the flange's frame [m]."""
    base_position: Offset = [0.0, 0.0, 0.0]
    """Where the base stands beside ``position``, in the base's own frame [m]."""
    base_rpy: Rpy = [0.0, 0.0, 0.0]
    """How it is turned there [rad]."""
    tool_mass: _Scale = 1.0
    """Factor on mass and inertia of the tool."""
    tool_com: Offset = [0.0, 0.0, 0.0]
    """By how much its centre of mass is off in the flange's frame [m]."""
    tool_position: Offset = [0.0, 0.0, 0.0]
    """By how much its working point, and its shape with it, is off in the flange's frame [m]."""
    parameters: str = ""
    """YAML of ``multipanda identify``: bodies, rotors and friction that the simulated arm has
    before the factors above; nobody knows of it."""


PER_AXIS: dict[str, float] = {"link_com": 0.0, "link_inertia": 1.0}
"""Keys with three numbers per joint, and what those are by default."""
