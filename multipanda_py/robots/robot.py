# SPDX-License-Identifier: Apache-2.0
"""Description of a robot: joints, links, flange, limits and friction of its joints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.robots.geometry import Block, Capsule, Origin, Point, SolidOfRevolution
from multipanda_py.robots.inertial import Inertial
from multipanda_py.state import LIMIT_NAMES, ArmLimits

if TYPE_CHECKING:
    from multipanda_py.robots.parallel_gripper import ParallelGripper


Vector = NDArray[np.float64]

FRICTION_PARAMETERS = ("damping", "friction", "torque_offset")
"""Friction and offset parameters of joints; zero unless they were identified."""


@dataclass(frozen=True)
class Joint:
    """Joint of a robot. ``Robot.limits`` define whether it is prismatic, and its range.

    Attributes:
        name: Name without the prefix of an arm.
        origin: Pose of its frame in the parent link.
        axis: Axis of rotation or translation in its frame, a unit vector.
    """

    name: str
    origin: Origin
    axis: Point = (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Link:
    """Link of a robot. Its frame is that of the joint before it.

    Attributes:
        name: Name without the prefix of an arm.
        inertial: Mass, centre of mass and inertia.
        capsules: Capsules for collision avoidance and contact.
        visuals: Visual geometry.
    """

    name: str
    inertial: Inertial
    capsules: tuple[Capsule, ...] = ()
    visuals: tuple[SolidOfRevolution | Block, ...] = ()


@dataclass(frozen=True)
class Flange:
    """Frame that carries gripper, tool and payload.

    Attributes:
        name: Name of the link, without the prefix of an arm.
        joint: Name of the fixed joint.
        origin: Pose in the last moving link.
    """

    name: str
    joint: str
    origin: Origin


@dataclass(frozen=True, eq=False)
class Robot:
    """Model of an arm with n joints.

    Attributes:
        name: Name in cell files.
        limits: Joint limits.
        joints: Joints from base to flange, n.
        links: Links from the base to the last moving one, n + 1.
        flange: Frame that carries gripper, tool and payload.
        armature: Apparent rotor inertia at the joints under torque control, (n,) [kg m^2; kg for a
            prismatic joint].
        ready: Ready configuration, (n,) [rad, m].
        damping: Viscous friction of the joints, (n,) [Nm s/rad]; default: zero.
        friction: Coulomb friction of the joints, (n,) [Nm]; default: zero.
        torque_offset: Constant torque of the joints, (n,) [Nm]; default: zero.
        sections: Link numbers of each section of the arm, such as upper arm, forearm and wrist.
        overlapping: Pairs of non-adjacent link numbers whose capsules may touch although the links
            do not.
        hand: Gripper that belongs to the robot, or None.
        compensates_gravity: True if the robot compensates the weight of arm, tool and payload
            without a command.
        figures: Default values and bounds of controllet parameters, by name, each (n,).
        warnings: Warnings on implausible values of the URDF or MJCF.
        source: Path of the URDF or MJCF with visual meshes for links without ``visuals``, or None.

    Raises:
        ConfigurationError: The length of a list is not the number of joints, or two links or
            joints have the same name.
    """

    name: str
    limits: ArmLimits
    joints: tuple[Joint, ...]
    links: tuple[Link, ...]
    flange: Flange
    armature: Vector
    ready: Vector
    sections: tuple[tuple[int, ...], ...]
    overlapping: tuple[tuple[int, int], ...] = ()
    hand: ParallelGripper | None = None
    compensates_gravity: bool = True
    figures: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    source: Path | None = None
    warnings: tuple[str, ...] = ()
    damping: Vector = field(default_factory=lambda: np.zeros(0))
    friction: Vector = field(default_factory=lambda: np.zeros(0))
    torque_offset: Vector = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        n = self.n_joints
        for name in FRICTION_PARAMETERS:
            if not np.size(getattr(self, name)):
                object.__setattr__(self, name, np.zeros(n))
        sizes = {
            "limits": self.limits.n_joints,
            "links without the base": len(self.links) - 1,
            "armature": len(self.armature),
            "ready": len(self.ready),
            **{name: len(getattr(self, name)) for name in FRICTION_PARAMETERS},
            **{f"figures.{name}": len(values) for name, values in self.figures.items()},
        }
        for description, size in sizes.items():
            if size != n:
                raise ConfigurationError(
                    f"robot {self.name}: {description}: got {size}, allowed {n}, one per joint"
                )
        links = [*(link.name for link in self.links), self.flange.name]
        joints = [*(joint.name for joint in self.joints), self.flange.joint]
        for description, names in (("link", links), ("joint", joints)):
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ConfigurationError(
                    f"robot {self.name}: {description} {twice}: name is used twice"
                )
        for name in ("armature", "ready", *FRICTION_PARAMETERS):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def has_hand(self) -> bool:
        return self.hand is not None

    @property
    def n_joints(self) -> int:
        return len(self.joints)

    def unit(self, of: str) -> str:
        """Return the unit of a joint quantity as text, such as ``Nm/rad``.

        With revolute and prismatic joints: ``Nm/rad; N/m for prismatic joint 1``.

        Args:
            of: Unit for revolute joints.
        """
        units = [self.limits.unit(joint, of) for joint in range(self.n_joints)]
        if len({*units}) < 2:
            return units[0]
        joint_numbers = [str(i + 1) for i, slides in enumerate(self.limits.slides) if slides]
        other = units[int(self.limits.slides.argmax())]
        return f"{of}; {other} for prismatic joint {', '.join(joint_numbers)}"

    @property
    def prismatic_mass(self) -> Vector:
        """Mass that each prismatic joint moves, with armature, (n,) [kg]; 1 for revolute ones."""
        behind = np.cumsum([link.inertial.mass for link in self.links[:0:-1]])[::-1]
        return np.where(self.limits.slides, behind + self.armature, 1.0)

    def value(self, name: str) -> tuple[float, ...]:
        """Return the values of a joint limit, or of one of ``figures``, by name, (n,).

        Raises:
            UnknownName: No figure or limit has this name.
        """
        if name in self.figures:
            return self.figures[name]
        if name not in LIMIT_NAMES:
            raise UnknownName(f"figure of robot {self.name}", name, (*self.figures, *LIMIT_NAMES))
        return tuple(getattr(self.limits, name).tolist())


DEFAULT_STEEPNESS = 100.0
"""Default steepness of Coulomb friction near rest [s/rad]."""
FIGURES = ("friction_phi_1", "friction_phi_2", "friction_phi_3")
"""Figures of the friction sigmoid: height [Nm], steepness [s/rad] and offset [rad/s]."""


class JointFrictionModel:
    r"""Friction and torque offset of joints.

    .. math::
        \tau_f = f_v \dot q + f_c \tanh\!\left( \tfrac12 \varphi_2 (\dot q + \varphi_3) \right)
        + f_o.

    :math:`\tau_f` is the torque at the joint velocity :math:`\dot q`. :math:`f_v`, :math:`f_c` and
    :math:`f_o` are damping, friction and torque offset of the robot. The steepness
    :math:`\varphi_2` and the speed offset :math:`\varphi_3` are ``friction_phi_2`` and
    ``friction_phi_3`` in ``Robot.figures`` (Gaz et al., RA-L 2019), by default 100 s/rad and 0.

    Args:
        robot: Robot with identified damping, friction and torque offset; zero by default.
    """

    def __init__(self, robot: Robot) -> None:
        n = robot.n_joints
        shape = FIGURES[1:]
        known = set(shape) <= set(robot.figures)
        steepness, shift = (
            (np.array(robot.value(name)) for name in shape)
            if known
            else (np.full(n, DEFAULT_STEEPNESS), np.zeros(n))
        )
        self._viscous, self._coulomb = robot.damping, robot.friction
        self._offset, self._half, self._shift = robot.torque_offset, 0.5 * steepness, shift

    def torque(self, dq: Vector) -> Vector:
        """Return the friction torques (n,) [Nm] at joint velocities (n,) [rad/s]."""
        step = np.tanh(self._half * (dq + self._shift))
        torque: Vector = self._viscous * dq + self._coulomb * step + self._offset
        return torque
