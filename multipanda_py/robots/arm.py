# SPDX-License-Identifier: Apache-2.0
"""What one arm of a cell is: model, name, place, hand and tool."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.limits import ArmLimits
from multipanda_py.robots.actuated_joints import ActuatedJoints
from multipanda_py.robots.checks import rotation_matrix, vector
from multipanda_py.robots.models import DEFAULT_MODEL, MODELS
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.robots.robot import Robot
from multipanda_py.robots.shapes import Capsule
from multipanda_py.robots.tool import Tool

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, eq=False)
class ArmDescription:
    """One arm of a cell; URDF and MJCF are generated from it.

    Attributes:
        name: Its name in the cell: letters, digits, underscores.
        model: One of :data:`~multipanda_py.robots.models.MODELS` by name, or any other robot.
        position_base_in_world: Origin of its first link, (3,) [m].
        rotation_base_in_world: Orientation of its first link, (3, 3).
        hand: Whether it carries the hand of its model, None if there is one; or another gripper.
        tool: A further load, or None.
        finger_opening: Position of each finger at the start, None for open [m].
        compensates_gravity: Whether it carries its own weight; None if as its model does.
        joint_damping: Viscous friction in simulation, (n,) or one number [Nm s/rad]; by default
            that of its model.
        joint_frictionloss: Coulomb friction in simulation, (n,) or one number [Nm]; likewise.
        actuated: Its joints with compliant actuators; None if there is none.
        learned: File of what was learned of its torques, or nothing.

    Raises:
        ConfigurationError: If a value cannot be used; the message says which and why.
    """

    name: str
    model: str | Robot = DEFAULT_MODEL
    position_base_in_world: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    rotation_base_in_world: NDArray[np.float64] = field(default_factory=lambda: np.eye(3))
    hand: bool | ParallelGripper | None = None
    tool: Tool | None = None
    finger_opening: float | None = None
    compensates_gravity: bool | None = None
    joint_damping: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    joint_frictionloss: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    actuated: ActuatedJoints | None = None
    learned: str = ""

    def __post_init__(self) -> None:
        """Copy the arrays, check them and make them read-only."""
        if not _NAME.match(self.name):
            raise ConfigurationError(
                f"arm name {self.name!r}: only a letter, then letters, digits and underscores"
            )
        if isinstance(self.model, str) and self.model not in MODELS:
            raise UnknownName(f"model of arm {self.name}", self.model, tuple(MODELS))
        if self.hand is None:
            object.__setattr__(self, "hand", self.robot.has_hand)
        if self.hand is True and not self.robot.has_hand:
            raise ConfigurationError(
                f"hand of arm {self.name}: got true, allowed false or a gripper: none is made for "
                f"a {self.robot.name}"
            )
        if self.compensates_gravity is None:
            object.__setattr__(self, "compensates_gravity", self.robot.compensates_gravity)
        self._check_gripper()
        where = f"of arm {self.name}"
        checked = {
            "position_base_in_world": vector(
                f"position_base_in_world {where}", self.position_base_in_world, (3,)
            ),
            "rotation_base_in_world": rotation_matrix(
                f"rotation_base_in_world {where}", self.rotation_base_in_world
            ),
        }
        own = {"joint_damping": self.robot.damping, "joint_frictionloss": self.robot.friction}
        for name, of_model in own.items():
            values = getattr(self, name)
            if not np.size(values):
                values = of_model
            if np.ndim(values) == 0:
                values = np.full(self.n_joints, values)
            checked[name] = vector(f"{name} {where}", values, (self.n_joints,))
            if (checked[name] < 0.0).any():
                raise ConfigurationError(f"{name} {where} must not be negative: {checked[name]}")
        for name, array in checked.items():
            object.__setattr__(self, name, array)

    def _check_gripper(self) -> None:
        """Check the opening, and that names of the arm are not those of what it carries."""
        low, high = (self.gripper.lower, self.gripper.upper) if self.gripper else (0.0, 0.0)
        if self.finger_opening is None:
            object.__setattr__(self, "finger_opening", high)
        elif self.gripper and not low <= self.finger_opening <= high:
            raise ConfigurationError(
                f"finger_opening of arm {self.name}: {self.finger_opening} m is outside "
                f"[{low:g}, {high:g}]"
            )
        for part in ("hand", "leftfinger", "rightfinger", "hand_tcp", "tool", "tool_tcp"):
            if self.link_names.count(self.prefix + part) > 1:
                raise ConfigurationError(
                    f"model of arm {self.name}: got a link {part}, which is what the arm carries, "
                    "allowed other names, or no hand and tool"
                )
        for joint in self.finger_joint_names:
            if joint in self.joint_names:
                raise ConfigurationError(
                    f"model of arm {self.name}: got a joint {joint.removeprefix(self.prefix)}, "
                    "which is one of its gripper, allowed other names, or no hand"
                )

    @property
    def gripper(self) -> ParallelGripper | None:
        """The gripper that it carries, or None."""
        if isinstance(self.hand, ParallelGripper):
            return self.hand
        return self.robot.hand if self.hand else None

    def shares_base(self, other: ArmDescription) -> bool:
        """Return whether both are arms of one robot, which begin with one and the same link."""
        mine, theirs = self.robot.links[0], other.robot.links[0]
        return (
            mine.name == theirs.name
            and abs(mine.inertial.mass - theirs.inertial.mass) < 1e-6
            and self.robot.joints[0].name != other.robot.joints[0].name
            and np.allclose(self.position_base_in_world, other.position_base_in_world, atol=1e-6)
            and np.allclose(self.rotation_base_in_world, other.rotation_base_in_world, atol=1e-6)
        )

    @property
    def prefix(self) -> str:
        """Start of every name of this arm in URDF and MJCF, such as ``left_fr3_``."""
        return f"{self.name}_{self.robot.name}_"

    @property
    def robot(self) -> Robot:
        """What there is to know of its model."""
        return MODELS[self.model] if isinstance(self.model, str) else self.model

    @property
    def n_joints(self) -> int:
        """Number of its joints, n."""
        return self.robot.n_joints

    @property
    def limits(self) -> ArmLimits:
        """Joint limits of the robot model."""
        return self.robot.limits

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, from base to flange."""
        return tuple(self.prefix + joint.name for joint in self.robot.joints)

    @property
    def base_frame(self) -> str:
        """Its first link, which stands in the world."""
        return self.prefix + self.robot.links[0].name

    @property
    def flange_frame(self) -> str:
        """What hand, tool and load are mounted on."""
        return self.prefix + self.robot.flange.name

    @property
    def finger_joint_names(self) -> tuple[str, ...]:
        """Names of the two finger joints, none without the hand."""
        return tuple(f"{self.prefix}finger_joint{i}" for i in (1, 2)) if self.hand else ()

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of all links, from the base to the tool's tip."""
        links = [*(link.name for link in self.robot.links), self.robot.flange.name]
        if self.hand:
            links += ["hand", "leftfinger", "rightfinger", "hand_tcp"]
        if self.tool is not None:
            links += ["tool", "tool_tcp"]
        return tuple(self.prefix + link for link in links)

    @property
    def ee_frame(self) -> str:
        """Frame that is controlled: tool_tcp, else hand_tcp, else the flange."""
        if self.tool is not None:
            return f"{self.prefix}tool_tcp"
        return f"{self.prefix}hand_tcp" if self.hand else self.flange_frame

    @property
    def capsules(self) -> dict[str, tuple[Capsule, ...]]:
        """Capsules for collision avoidance by link name, in the frame of the link."""
        by_link = {self.prefix + link.name: link.capsules for link in self.robot.links}
        if self.gripper is not None:
            by_link[f"{self.prefix}hand"] = self.gripper.capsules
        if self.tool is not None:
            by_link[f"{self.prefix}tool"] = self.tool.capsules
        return by_link
