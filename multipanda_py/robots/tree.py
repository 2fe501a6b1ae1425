# SPDX-License-Identifier: Apache-2.0
"""Links and joints of a URDF or MJCF, and the chain of an arm with its kinematics and inertia."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.geometry import Capsule
from multipanda_py.robots.inertial import NO_LOAD, Load, combined

Matrix = NDArray[np.float64]

REVOLUTE_TYPES, PRISMATIC_TYPE = ("revolute", "continuous"), "prismatic"
MOVING_TYPES = (*REVOLUTE_TYPES, PRISMATIC_TYPE)
"""Types of the moving joints that an arm may have."""


@dataclass(frozen=True, eq=False)
class TreeJoint:
    """Joint of a URDF or MJCF.

    Attributes:
        name: Name of the joint.
        kind: ``revolute``, ``continuous``, ``prismatic``, ``fixed``, or another type.
        parent: Name of the parent link.
        child: Name of the child link, which has the frame of the joint.
        pose: Pose of the child in the parent at joint position zero, (4, 4).
        axis: Axis of rotation or translation in the child, (3,).
        limits: Values of ``lower``, ``upper``, ``velocity``, ``torque`` and ``armature``, without
            those that the file lacks.
        mimics: Name of the joint that it follows, multiplier and offset; or None.
    """

    name: str
    kind: str
    parent: str
    child: str
    pose: Matrix
    axis: Matrix
    limits: Mapping[str, float] = field(default_factory=dict)
    mimics: tuple[str, float, float] | None = None


class Tree:
    """Kinematic tree: links and joints of a URDF or MJCF.

    Args:
        path: Path of the URDF or MJCF.
        bodies: Mass and inertia by link name; :data:`.NO_LOAD` for a link without mass.
        joints: All joints.
        capsules: Collision geometry of the file, by link.

    Raises:
        ConfigurationError: A name is used twice, a joint names an unknown link, a link is the
            child of two joints, or joints form a ring.
    """

    def __init__(
        self,
        path: Path,
        bodies: Mapping[str, Load],
        joints: list[TreeJoint],
        capsules: Mapping[str, tuple[Capsule, ...]] | None = None,
    ) -> None:
        self.path, self.bodies, self.capsules = path, bodies, capsules or {}
        self.above: dict[str, TreeJoint] = {}
        self.below: dict[str, list[TreeJoint]] = {}
        names: set[str] = set()
        for joint in joints:
            if joint.name in names:
                raise ConfigurationError(f"{path}: joint {joint.name}: this name is used twice")
            names.add(joint.name)
            for link in (joint.parent, joint.child):
                if link not in bodies:
                    raise ConfigurationError(
                        f"{path}: joint {joint.name}: link {link!r} does not exist"
                    )
            if joint.child in self.above:
                raise ConfigurationError(
                    f"{path}: link {joint.child}: got joints {self.above[joint.child].name} and "
                    f"{joint.name} above it, allowed one"
                )
            self.above[joint.child] = joint
            self.below.setdefault(joint.parent, []).append(joint)
        for link in self.above:
            self.root_of(link)

    def root_of(self, link: str) -> str:
        """Return the first link of the chain that leads to a link.

        Raises:
            ConfigurationError: The joints above the link form a ring.
        """
        above = link
        for _ in range(len(self.above) + 1):
            if above not in self.above:
                return above
            above = self.above[above].parent
        raise ConfigurationError(
            f"{self.path}: link {above}: joint {self.above[above].name} above it is in a ring of "
            "joints, allowed a tree"
        )

    def path_to(self, base: str, tip: str) -> list[TreeJoint]:
        """Return the joints of the chain from link ``base`` to link ``tip``, in this order.

        Raises:
            ConfigurationError: A link is unknown, or ``base`` is not on the chain to ``tip``.
        """
        for role, link in (("base", base), ("tip", tip)):
            if link not in self.bodies:
                raise ConfigurationError(
                    f"{self.path}: {role}: got {link!r}, allowed one of the links "
                    f"{self._some_links()}"
                )
        path: list[TreeJoint] = []
        link = tip
        while link != base:
            if link not in self.above or len(path) > len(self.above):
                raise ConfigurationError(
                    f"{self.path}: tip: got {tip!r}, allowed a link behind the base "
                    f"{base!r}; the chain to this tip starts at {link!r}"
                )
            path.insert(0, self.above[link])
            link = self.above[link].parent
        return path

    def _some_links(self) -> str:
        names = list(self.bodies)
        return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if names[20:] else "")


def pose_from(rotation: Matrix, position: Matrix) -> Matrix:
    """Return a homogeneous transform, (4, 4), from rotation, (3, 3), and position, (3,) [m]."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, position
    return pose


def moved(load: Load, pose: Matrix) -> Load:
    """Return mass and inertia in a parent frame, from the pose of their frame in it, (4, 4)."""
    rotation = pose[:3, :3]
    return Load(load.mass, rotation @ load.com + pose[:3, 3], rotation @ load.inertia @ rotation.T)


def check_body(path: str, body: Load) -> None:
    """Check that a rigid body can have a mass and inertia; a link without mass passes.

    Raises:
        ConfigurationError: No rigid body can have these values.
    """
    if body is NO_LOAD:
        return
    numbers = np.array([body.mass, *body.com, *body.inertia.ravel()])
    moments = np.linalg.eigvalsh(body.inertia) if np.isfinite(numbers).all() else np.zeros(3)
    min_value, middle, max_value = moments
    if body.mass <= 0.0 or min_value <= 0.0 or min_value + middle < max_value * (1.0 - 1e-9):
        raise ConfigurationError(
            f"{path}: got mass {body.mass:g} kg and principal moments {min_value:g}, {middle:g}, "
            f"{max_value:g} kg m^2, allowed positive ones, the sum of any two not below the third"
        )


@dataclass(frozen=True, eq=False)
class Chain:
    """Serial chain of n moving joints and n + 1 links; each link includes the links fixed to it.

    Attributes:
        joints: Joints from base to tip.
        origins: Pose of every joint in the parent link, (4, 4) each.
        links: Names of the links: the base, then the child of every joint.
        bodies: Mass and inertia of every link, with the links fixed to it, in its own frame.
        link_indices: Index of the chain link, and pose in its frame, (4, 4), by name of every link
            that is a chain link or fixed to one.
        tip: Name of the last link.
    """

    joints: tuple[TreeJoint, ...]
    origins: tuple[Matrix, ...]
    links: tuple[str, ...]
    bodies: tuple[Load, ...]
    link_indices: dict[str, tuple[int, Matrix]]
    tip: str

    @property
    def slides(self) -> NDArray[np.bool_]:
        """True for prismatic joints, (n,)."""
        return np.array([joint.kind == PRISMATIC_TYPE for joint in self.joints])


def chain_of(tree: Tree, base: str, tip: str) -> Chain:
    """Return the chain from one link of a URDF or MJCF to another one.

    A link behind a fixed joint becomes a part of its parent. Other links that are not on the path
    are left out.

    Raises:
        ConfigurationError: There is no such chain, no joint on it moves, the type of a joint is
            not supported, or a moving link has no valid inertia.
    """
    displacement = tree.path_to(base, tip)
    joints, origins, links = [], [], [base]
    indices: dict[str, tuple[int, Matrix]] = {base: (0, np.eye(4))}
    for joint in displacement:
        number, pose = indices[joint.parent]
        pose = pose @ joint.pose
        if joint.kind in MOVING_TYPES:
            joints.append(joint)
            origins.append(pose)
            links.append(joint.child)
            indices[joint.child] = len(joints), np.eye(4)
        elif joint.kind == "fixed":
            indices[joint.child] = number, pose
        else:
            raise ConfigurationError(
                f"{tree.path}: joint {joint.name}: got type {joint.kind!r}, allowed "
                f"{', '.join(map(repr, (*MOVING_TYPES, 'fixed')))}"
            )
    if not joints:
        raise ConfigurationError(
            f"{tree.path}: tip: got {tip!r}, which is fixed to {base!r}, allowed a link behind a "
            "moving joint"
        )
    for link in list(indices):
        indices.update(fixed_to(tree, link, indices))
    parts: list[list[Load]] = [[] for _ in links]
    for link, (number, pose) in indices.items():
        check_body(f"{tree.path}: link {link}", tree.bodies[link])
        parts[number].append(moved(tree.bodies[link], pose))
    bodies = tuple(combined(part) for part in parts)
    for link, body in zip(links[1:], bodies[1:]):
        if body.mass <= 0.0:
            raise ConfigurationError(
                f"{tree.path}: link {link}: has no inertial, but every moving link needs one"
            )
    return Chain(tuple(joints), tuple(origins), tuple(links), bodies, indices, tip)


def fixed_to(
    tree: Tree, link: str, link_indices: Mapping[str, tuple[int, Matrix]]
) -> Iterator[tuple[str, tuple[int, Matrix]]]:
    """Yield the links that are fixed to a link, directly or through other links.

    Elements are the link name, the index of the chain link that it moves with, and its pose in
    this chain link, (4, 4). ``link_indices`` has the same data by name for ``link``, and for links
    to leave out.
    """
    waiting = [(link, *link_indices[link])]
    while waiting:
        parent, number, pose = waiting.pop()
        for joint in tree.below.get(parent, ()):
            if joint.kind == "fixed" and joint.child not in link_indices:
                here = pose @ joint.pose
                yield joint.child, (number, here)
                waiting.append((joint.child, number, here))


Vector = NDArray[np.float64]


def link_poses(chain: Chain, q: Vector) -> list[Vector]:
    """Return the pose of every link in the base, (4, 4) each, at positions q, (n,) [rad, m]."""
    poses = [np.eye(4)]
    for joint, origin, value, slides in zip(chain.joints, chain.origins, q, chain.slides):
        x, y, z = joint.axis
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        moved = np.eye(4)
        if slides:
            moved[:3, 3] = value * joint.axis
        else:
            moved[:3, :3] += np.sin(value) * cross + (1.0 - np.cos(value)) * cross @ cross
        poses.append(poses[-1] @ origin @ moved)
    return poses


def jacobian(chain: Chain, poses: list[Vector], point: Vector, behind: int) -> Vector:
    """Return the geometric Jacobian of a point on a link, along the axes of the base, (6, n).

    Args:
        chain: Chain of the arm.
        poses: Poses of all links in the base, (4, 4) each.
        point: Point in the base, (3,) [m].
        behind: Index of the link that carries the point. Joints after this link do not move it.
    """
    axes = np.array([p[:3, :3] @ j.axis for p, j in zip(poses[1:], chain.joints)])
    positions, slides = np.array([pose[:3, 3] for pose in poses[1:]]), chain.slides[:, None]
    linear = np.where(slides, axes, np.cross(axes, point - positions))
    result = np.hstack([linear, np.where(slides, 0.0, axes)])
    result[behind:] = 0.0
    return np.asarray(result.T)


def mass_matrix(chain: Chain, armature: Vector, q: Vector) -> Vector:
    r"""Return :math:`M = \sum_j m_j J_j^T J_j + J_{\omega j}^T I_j J_{\omega j} + B`, (n, n).

    Link j has the mass :math:`m_j` and the inertia :math:`I_j`. :math:`J_j` is the Jacobian of its
    centre of mass, and :math:`J_{\omega j}` that of its rotation. B has the reflected rotor
    inertias ``armature`` [kg m^2] on its diagonal.
    """
    poses = link_poses(chain, q)
    mass = np.diag(armature)
    for number, (body, pose) in enumerate(zip(chain.bodies, poses)):
        inertia = pose[:3, :3] @ body.inertia @ pose[:3, :3].T
        own = jacobian(chain, poses, pose[:3, :3] @ body.com + pose[:3, 3], number)
        mass = mass + body.mass * own[:3].T @ own[:3] + own[3:].T @ inertia @ own[3:]
    return mass
