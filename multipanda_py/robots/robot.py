# SPDX-License-Identifier: Apache-2.0
"""What the joints of an identified robot take away from their torques."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.robots.geometry import Block, Capsule, Origin, Point, Turned
from multipanda_py.robots.inertial import Inertial
from multipanda_py.state import NAMES, ArmLimits

if TYPE_CHECKING:
    from multipanda_py.robots.parallel_gripper import ParallelGripper


Vector = NDArray[np.float64]

LOSSES = ("damping", "friction", "torque_offset")
"""What joints of a robot take or add by themselves, zero unless it was identified."""


@dataclass(frozen=True)
class Joint:
    """A joint; the limits tell whether it slides, or turns without end.

    Attributes:
        name: Without the prefix of an arm.
        origin: Its frame in that of the link before it.
        axis: What it turns about or slides along, in its frame, of length 1.
    """

    name: str
    origin: Origin
    axis: Point = (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Link:
    """A link; its frame is that of the joint before it.

    Attributes:
        name: Without the prefix of an arm.
        inertial: Mass, centre of mass and inertia.
        capsules: For avoidance and contact.
        look: Its picture.
    """

    name: str
    inertial: Inertial
    capsules: tuple[Capsule, ...] = ()
    look: tuple[Turned | Block, ...] = ()


@dataclass(frozen=True)
class Flange:
    """The frame that hand, tool and load are mounted on.

    Attributes:
        name: Of the link, without the prefix of an arm.
        joint: Of the fixed joint to it.
        origin: In the last link.
    """

    name: str
    joint: str
    origin: Origin


@dataclass(frozen=True, eq=False)
class Robot:
    """A kind of arm with n joints.

    Attributes:
        name: As cell files call it.
        limits: Of its joints.
        joints: From base to flange, n.
        links: From base to the last that moves, n + 1.
        flange: What it carries things with.
        armature: Inertia of the rotors as seen at the joints under torque control, (n,)
            [kg m^2; kg of a joint that slides].
        ready: A posture to start from, (n,) [rad, m].
        damping: Viscous friction of the joints, (n,) [Nm s/rad]; by default none.
        friction: Coulomb friction of the joints, (n,) [Nm]; by default none.
        torque_offset: What a joint's torque shows beyond all that moves or carries it, (n,) [Nm];
            by default nothing.
        sections: Numbers of the links of upper arm, forearm and wrist, which are kept apart from
            those of other arms section by section.
        overlapping: Numbers of links that do not follow each other and whose capsules, not the
            links, may touch.
        hand: The gripper that is made for it, or None.
        compensates_gravity: Whether it carries itself, and its tool and load, without being told.
        figures: Numbers per joint, by name, that parameters of laws begin with or are bounded by,
            each (n,).
        doubts: What is possible and odd in its description, in sentences.
        source: File whose own pictures are shown in simulation, if nobody drew others.

    Raises:
        ConfigurationError: If there is not one of everything per joint, which says both numbers,
            or two links or joints have one name.
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
    doubts: tuple[str, ...] = ()
    damping: Vector = field(default_factory=lambda: np.zeros(0))
    friction: Vector = field(default_factory=lambda: np.zeros(0))
    torque_offset: Vector = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Check the numbers of everything, and make the arrays read-only."""
        n = self.n_joints
        for name in LOSSES:
            if not np.size(getattr(self, name)):
                object.__setattr__(self, name, np.zeros(n))
        sizes = {
            "limits": self.limits.n_joints,
            "links but the base": len(self.links) - 1,
            "armature": len(self.armature),
            "ready": len(self.ready),
            **{name: len(getattr(self, name)) for name in LOSSES},
            **{f"figures.{name}": len(values) for name, values in self.figures.items()},
        }
        for what, size in sizes.items():
            if size != n:
                raise ConfigurationError(
                    f"robot {self.name}: {what}: got {size}, allowed {n}, one per joint"
                )
        links = [*(link.name for link in self.links), self.flange.name]
        joints = [*(joint.name for joint in self.joints), self.flange.joint]
        for what, names in (("link", links), ("joint", joints)):
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ConfigurationError(f"robot {self.name}: {what} {twice}: there twice")
        for name in ("armature", "ready", *LOSSES):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def has_hand(self) -> bool:
        """Whether a gripper is made for it."""
        return self.hand is not None

    @property
    def n_joints(self) -> int:
        """Number of its joints, n."""
        return len(self.joints)

    def unit(self, of: str) -> str:
        """Return a unit of joints that turn, such as Nm/rad, as it is for all of its own."""
        units = [self.limits.unit(joint, of) for joint in range(self.n_joints)]
        if len({*units}) < 2:
            return units[0]
        places = [str(i + 1) for i, slides in enumerate(self.limits.slides) if slides]
        other = units[int(self.limits.slides.argmax())]
        return f"{of}; {other} of joint {', '.join(places)}, which slides"

    @property
    def sliding_mass(self) -> Vector:
        """What a joint that slides moves, 1 for one that turns, (n,) [kg, kg m^2]."""
        behind = np.cumsum([link.inertial.mass for link in self.links[:0:-1]])[::-1]
        return np.where(self.limits.slides, behind + self.armature, 1.0)

    def figure(self, name: str) -> tuple[float, ...]:
        """Return a figure of every joint; the limits are figures too, by their names.

        Raises:
            UnknownName: If it has none of this name.
        """
        if name in self.figures:
            return self.figures[name]
        if name not in NAMES:
            raise UnknownName(f"figure of robot {self.name}", name, (*self.figures, *NAMES))
        return tuple(getattr(self.limits, name).tolist())


STEEPNESS = 100.0
"""Of Coulomb friction near rest, where no figure says it [s/rad]."""
FIGURES = ("friction_phi_1", "friction_phi_2", "friction_phi_3")
"""Figures of a robot: height [Nm], steepness [s/rad] and offset [rad/s] of the sigmoid."""


class JointLosses:
    r"""Friction and offset of joints.

    .. math::
        \tau_f = f_v \dot q + f_c \tanh\!\left( \tfrac12 \varphi_2 (\dot q + \varphi_3) \right)
        + f_o

    with damping, friction and torque offset of the robot, and the shape near rest that its figures
    of the sigmoid of Gaz et al. (RA-L 2019) have.

    Args:
        robot: Whose these are; zero unless it was identified.
    """

    def __init__(self, robot: Robot) -> None:
        n = robot.n_joints
        shape = FIGURES[1:]
        known = set(shape) <= set(robot.figures)
        steepness, shift = (
            (np.array(robot.figure(name)) for name in shape)
            if known
            else (np.full(n, STEEPNESS), np.zeros(n))
        )
        self._viscous, self._coulomb = robot.damping, robot.friction
        self._offset, self._half, self._shift = robot.torque_offset, 0.5 * steepness, shift

    def torque(self, dq: Vector) -> Vector:
        """Return what they take at joint velocities (n,) [rad/s], (n,) [Nm]."""
        step = np.tanh(self._half * (dq + self._shift))
        found: Vector = self._viscous * dq + self._coulomb * step + self._offset
        return found
