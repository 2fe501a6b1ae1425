# SPDX-License-Identifier: Apache-2.0
"""Description of an arm in a cell: model, base pose, gripper and tool, and its link poses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.robots.actuated_joints import ActuatedJoints
from multipanda_py.robots.geometry import Capsule, Origin, Point, SolidOfRevolution
from multipanda_py.robots.inertial import rigid_pose, rotation_matrix, vector
from multipanda_py.robots.models import DEFAULT_MODEL, MODELS
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.robots.robot import Robot
from multipanda_py.state import ArmLimits

ABSENT_POSITION = (0.0, 0.0, -1000.0)
"""Position of absent objects in the world, outside the range of all sensors and motions [m]."""
# Number of values in the size of each shape.
SHAPE_SIZES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2}


@dataclass(frozen=True, eq=False)
class SceneObject:
    """Solid object of the scene; it can move if it has a mass.

    Attributes:
        name: Name of its body; its free joint has the suffix ``_joint``.
        shape: ``box``, ``sphere``, ``cylinder`` or ``capsule``.
        size: Size as in MuJoCo [m]. Box: half edges x, y, z. Sphere: radius. Cylinder and capsule:
            radius and half length, without the ends of a capsule.
        position: Centre in the world, (3,) [m].
        rotation: Orientation in the world, (3, 3).
        mass: Mass [kg]; 0 fixes it to the world.
        rgba: Red, green, blue and opacity, each 0 to 1.
        friction: Sliding [-], torsional [m] and rolling [m] friction, as in MuJoCo.
        contact: Time constant [s] and damping ratio of its contacts, as in MuJoCo.
        present: True if it is in the scene from the start. Only an object with a mass may be
            absent.

    Raises:
        ConfigurationError: A value is invalid; the message names it and the reason.
    """

    name: str
    shape: str
    size: tuple[float, ...]
    position: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    rotation: NDArray[np.float64] = field(default_factory=lambda: np.eye(3))
    mass: float = 0.0
    rgba: tuple[float, float, float, float] = (0.85, 0.55, 0.25, 1.0)
    friction: tuple[float, float, float] = (1.0, 0.005, 0.0001)
    contact: tuple[float, float] = (0.02, 1.0)
    present: bool = True

    def __post_init__(self) -> None:
        path = f"object {self.name}"
        if not self.name:
            raise ConfigurationError("object: got an empty name. Give one")
        if self.shape not in SHAPE_SIZES:
            raise UnknownName(f"{path}: shape", self.shape, tuple(SHAPE_SIZES))
        size = vector(f"{path}: size ({self.shape})", self.size, (SHAPE_SIZES[self.shape],))
        if (size <= 0.0).any():
            raise ConfigurationError(f"{path}: size: got {size.tolist()}, allowed positive values")
        if not (np.isfinite(self.mass) and self.mass >= 0.0):
            raise ConfigurationError(f"{path}: mass: got {self.mass}, allowed 0 kg or more")
        if not (self.present or self.mass > 0.0):
            raise ConfigurationError(
                f"{path}: present: got false without a mass. Remove it, or give the object a mass"
            )
        rgba = vector(f"{path}: rgba", self.rgba, (4,))
        friction = vector(f"{path}: friction", self.friction, (3,))
        if (friction < 0.0).any():
            raise ConfigurationError(
                f"{path}: friction: got {friction.tolist()}, allowed values of 0 or more"
            )
        if (rgba < 0.0).any() or (rgba > 1.0).any():
            raise ConfigurationError(f"{path}: rgba: got {rgba.tolist()}, allowed values 0 to 1")
        contact = vector(f"{path}: contact", self.contact, (2,))
        if (contact <= 0.0).any():
            raise ConfigurationError(
                f"{path}: contact: got {contact.tolist()}, allowed positive values"
            )
        checked = {
            "contact": tuple(contact.tolist()),
            "size": tuple(size.tolist()),
            "position": vector(f"{path}: position", self.position, (3,)),
            "rotation": rotation_matrix(f"{path}: rotation", self.rotation),
            "rgba": tuple(rgba.tolist()),
            "friction": tuple(friction.tolist()),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def start(self) -> NDArray[np.float64]:
        """Position of the object's centre when a simulation starts, (3,) [m].

        An object that is not in the scene is at ``ABSENT_POSITION``, far below the floor.
        """
        return self.position if self.present else np.array(ABSENT_POSITION)


ROD_RADIUS = 0.008  # Radius of the rod that represents a tool [m].


@dataclass(frozen=True, eq=False)
class Tool:
    """Rigid tool on the flange, in addition to a gripper.

    Attributes:
        mass: Mass [kg].
        com_in_flange: Centre of mass, (3,) [m].
        inertia: Inertia about the centre of mass along the flange's axes, (3, 3) [kg m^2].
        pose_tcp_in_flange: Pose of the tool centre point, (4, 4).
        friction: Friction coefficient with objects in simulation; 0 uses that of the object.

    Raises:
        ConfigurationError: No rigid body has these values, or the pose is not a rigid transform.
    """

    mass: float
    com_in_flange: NDArray[np.float64]
    inertia: NDArray[np.float64]
    pose_tcp_in_flange: NDArray[np.float64]
    friction: float = 0.0

    def __post_init__(self) -> None:
        com = vector("tool: com_in_flange", self.com_in_flange, (3,))
        inertia = vector("tool: inertia", self.inertia, (3, 3))
        moments = np.linalg.eigvalsh((inertia + inertia.T) / 2.0)
        if not (np.isfinite(self.mass) and self.mass >= 0.0):
            raise ConfigurationError(f"tool: mass: got {self.mass}, allowed 0 kg or more")
        if not np.allclose(inertia, inertia.T, atol=1e-9):
            raise ConfigurationError(
                f"tool: inertia: got {inertia.tolist()}, allowed a symmetric matrix"
            )
        if moments[0] < 0.0 or moments[0] + moments[1] < moments[2] - 1e-9:
            raise ConfigurationError(
                f"tool: inertia: got principal moments {moments} kg m^2; the sum of any two must "
                "not be less than the third"
            )
        if self.mass > 0.0 and moments[0] <= 0.0:
            raise ConfigurationError(
                f"tool: inertia: got principal moments {moments} kg m^2, allowed a positive "
                "definite matrix for a tool with a mass"
            )
        object.__setattr__(self, "com_in_flange", com)
        object.__setattr__(self, "inertia", inertia)
        pose = rigid_pose("tool: pose_tcp_in_flange", self.pose_tcp_in_flange)
        object.__setattr__(self, "pose_tcp_in_flange", pose)

    @property
    def capsules(self) -> tuple[Capsule, ...]:
        """Rod from the flange to the tool centre point, for collisions, in the flange's frame.

        Empty if the tool centre point is less than 32 mm from the flange.
        """
        tip = self.pose_tcp_in_flange[:3, 3]
        length = float(np.linalg.norm(tip))
        if length < 4.0 * ROD_RADIUS:
            return ()
        x, y, z = (tip * (1.0 - ROD_RADIUS / length)).tolist()
        return (Capsule((0.0, 0.0, 0.0), (x, y, z), ROD_RADIUS),)

    @property
    def visual(self) -> tuple[SolidOfRevolution, ...]:
        r = ROD_RADIUS
        return tuple(SolidOfRevolution(c.start, c.end, r, r, r, r, "tool") for c in self.capsules)


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, eq=False)
class ArmDescription:
    """Description of one arm of a cell, from which URDF and MJCF are generated.

    Attributes:
        name: Name of the arm in the cell: letters, digits, underscores.
        model: Name in :data:`.MODELS`, or a :class:`.Robot`.
        position_base_in_world: Origin of the first link, (3,) [m].
        rotation_base_in_world: Orientation of the first link, (3, 3).
        hand: Gripper. True: gripper of the model. False: no gripper. None: gripper of the model if
            it has one. A :class:`.ParallelGripper`: this gripper.
        tool: Tool on the flange, or None.
        finger_opening: Initial position of each finger [m]; None for open fingers.
        compensates_gravity: True if the robot compensates its own weight; None for the default of
            its model.
        joint_damping: Viscous friction in simulation, (n,) or one number [Nm s/rad]; default: that
            of the model.
        joint_frictionloss: Coulomb friction in simulation, (n,) or one number [Nm]; default: that
            of the model.
        actuated: Joints with compliant actuators; None for an arm without them.
        residual_file: File of the network for the feature ``residual``; empty: no network.

    Raises:
        ConfigurationError: A value is invalid; the message names it and the reason.
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
    residual_file: str = ""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ConfigurationError(
                f"arm name {self.name!r}: use a letter, then letters, digits and underscores"
            )
        if isinstance(self.model, str) and self.model not in MODELS:
            raise UnknownName(f"model of arm {self.name}", self.model, tuple(MODELS))
        if self.hand is None:
            object.__setattr__(self, "hand", self.robot.has_hand)
        if self.hand is True and not self.robot.has_hand:
            raise ConfigurationError(
                f"hand of arm {self.name}: got true, allowed false or a gripper, since there is "
                f"no gripper for a {self.robot.name}"
            )
        if self.compensates_gravity is None:
            object.__setattr__(self, "compensates_gravity", self.robot.compensates_gravity)
        self._check_gripper()
        path = f"of arm {self.name}"
        checked = {
            "position_base_in_world": vector(
                f"position_base_in_world {path}", self.position_base_in_world, (3,)
            ),
            "rotation_base_in_world": rotation_matrix(
                f"rotation_base_in_world {path}", self.rotation_base_in_world
            ),
        }
        own = {"joint_damping": self.robot.damping, "joint_frictionloss": self.robot.friction}
        for name, of_model in own.items():
            values = getattr(self, name)
            if not np.size(values):
                values = of_model
            if np.ndim(values) == 0:
                values = np.full(self.n_joints, values)
            checked[name] = vector(f"{name} {path}", values, (self.n_joints,))
            if (checked[name] < 0.0).any():
                raise ConfigurationError(f"{name} {path} must not be negative: {checked[name]}")
        for name, array in checked.items():
            object.__setattr__(self, name, array)

    def _check_gripper(self) -> None:
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
                    f"model of arm {self.name}: has a link {part}, which is a name of the gripper "
                    "or tool. Rename the link, or use no gripper and tool."
                )
        for joint in self.finger_joint_names:
            if joint in self.joint_names:
                raise ConfigurationError(
                    f"model of arm {self.name}: has a joint {joint.removeprefix(self.prefix)}, "
                    "which is a name of the gripper. Rename the joint, or use no gripper."
                )

    @property
    def gripper(self) -> ParallelGripper | None:
        if isinstance(self.hand, ParallelGripper):
            return self.hand
        return self.robot.hand if self.hand else None

    def shares_base(self, other: ArmDescription) -> bool:
        """Return True if both arms belong to one robot and have the same first link."""
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
        """Prefix of all names of this arm in URDF and MJCF, such as ``left_fr3_``."""
        return f"{self.name}_{self.robot.name}_"

    @property
    def robot(self) -> Robot:
        return MODELS[self.model] if isinstance(self.model, str) else self.model

    @property
    def n_joints(self) -> int:
        return self.robot.n_joints

    @property
    def limits(self) -> ArmLimits:
        return self.robot.limits

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, from base to flange."""
        return tuple(self.prefix + joint.name for joint in self.robot.joints)

    @property
    def base_frame(self) -> str:
        """Name of the first link, which is fixed to the world."""
        return self.prefix + self.robot.links[0].name

    @property
    def flange_frame(self) -> str:
        """Name of the frame that carries gripper, tool and payload."""
        return self.prefix + self.robot.flange.name

    @property
    def finger_joint_names(self) -> tuple[str, ...]:
        """Names of the two finger joints; empty without a gripper."""
        return tuple(f"{self.prefix}finger_joint{i}" for i in (1, 2)) if self.hand else ()

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of all links, from the base to the tool centre point."""
        links = [*(link.name for link in self.robot.links), self.robot.flange.name]
        if self.hand:
            links += ["hand", "leftfinger", "rightfinger", "hand_tcp"]
        if self.tool is not None:
            links += ["tool", "tool_tcp"]
        return tuple(self.prefix + link for link in links)

    @property
    def ee_frame(self) -> str:
        """Name of the end-effector frame.

        It is at the tip of the tool. Without a tool it is at the tip of the gripper, and without a
        gripper at the flange.
        """
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


Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Attachment:
    """Attachment of a link to its parent link.

    Attributes:
        parent: Name of the parent link.
        child: Name of the link.
        origin: Pose of the joint in the parent's frame.
    """

    parent: str
    child: str
    origin: Origin


def fixed_links(arm: ArmDescription) -> Iterator[Attachment]:
    """Yield the attachments of the fixed links of an arm, its base first."""
    p, kind, flange = arm.prefix, arm.robot, arm.flange_frame
    base = np.eye(4)
    base[:3, :3], base[:3, 3] = arm.rotation_base_in_world, arm.position_base_in_world
    yield Attachment("world", arm.base_frame, Origin.of(base))
    yield Attachment(p + kind.links[-1].name, flange, kind.flange.origin)
    if arm.gripper is not None:
        yield Attachment(flange, f"{p}hand", arm.gripper.mount)
        yield Attachment(f"{p}hand", f"{p}hand_tcp", arm.gripper.tcp)
    if arm.tool is not None:
        yield Attachment(flange, f"{p}tool", Origin())
        yield Attachment(f"{p}tool", f"{p}tool_tcp", Origin.of(arm.tool.pose_tcp_in_flange))


class MovingLinks:
    r"""Poses of the m moving links of an arm and its gripper in their parent links.

    .. math::
        p = p_0 + R(\xi_0)\, a\, s, \qquad
        \xi = \xi_0 \cos\tfrac{\theta}{2} + \xi_0 (0, a) \sin\tfrac{\theta}{2}.

    p and :math:`\xi` are position and quaternion of the link, and :math:`p_0, \xi_0` their values
    at joint position zero. a is the axis of the joint in its own frame, and :math:`R(\xi_0)` a
    rotation matrix. :math:`(s, \theta)` is (q, 0) for a prismatic joint, and (0, q) for others.

    Attributes:
        links: Attachments at joint position zero, from base to fingers.
    """

    def __init__(self, arm: ArmDescription) -> None:
        p, kind = arm.prefix, arm.robot
        names = [p + link.name for link in kind.links]
        self.links = [
            Attachment(parent, child, joint.origin)
            for parent, child, joint in zip(names, names[1:], kind.joints)
        ]
        axes: list[Point] = [joint.axis for joint in kind.joints]
        slides = [bool(slide) for slide in arm.limits.slides]
        gripper = arm.gripper
        if gripper is not None:
            self.links += _fingers(p, gripper)
            axes += [finger.axis for finger in gripper.fingers]
            slides += [True, True]
        self._n = len(self.links)
        self._origins = np.array([link.origin.position for link in self.links])
        rotations = [link.origin.rotation for link in self.links]
        is_sliding = np.array(slides)
        along = np.array([r @ np.array(a) for r, a in zip(rotations, axes)])
        self._along = along * is_sliding[:, None]
        self._half = 0.5 * ~is_sliding
        self._still = np.array([quaternion_from_rotation(r) for r in rotations])
        self._turned = np.array([_times(q, a) for q, a in zip(self._still, axes)])

    def forward_kinematics(self, q: ArrayLike, fingers: ArrayLike = ()) -> tuple[Vector, Vector]:
        """Return positions (m, 3) [m] and unit quaternions x, y, z, w (m, 4) in the parent links.

        Args:
            q: Joint positions, (n,) [rad, m].
            fingers: Finger positions, (2,) [m]; not used without a gripper.
        """
        values = np.concatenate((q, fingers))[: self._n]
        angles = (values * self._half)[:, None]
        positions = self._origins + self._along * values[:, None]
        return positions, self._still * np.cos(angles) + self._turned * np.sin(angles)


def _fingers(p: str, gripper: ParallelGripper) -> list[Attachment]:
    return [
        Attachment(f"{p}hand", f"{p}{side}finger", finger.origin)
        for side, finger in zip(("left", "right"), gripper.fingers)
    ]


def _times(xyzw: Vector, axis: Point) -> Vector:
    vector, scalar, a = xyzw[:3], xyzw[3], np.array(axis)
    return np.array([*(scalar * a + np.cross(vector, a)), -float(vector @ a)])
