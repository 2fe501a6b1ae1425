# SPDX-License-Identifier: Apache-2.0
"""The links and joints of a description, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.load import NO_LOAD, Load
from multipanda_py.robots.shapes import Capsule

Matrix = NDArray[np.float64]

TURNING, SLIDING = ("revolute", "continuous"), "prismatic"
MOVING = (*TURNING, SLIDING)
"""Kinds of joints that an arm may have, beside fixed ones."""


@dataclass(frozen=True, eq=False)
class TreeJoint:
    """A joint of a description.

    Attributes:
        name: Its name.
        kind: ``revolute``, ``continuous``, ``fixed``, or what else the format has.
        parent: Name of the link before it.
        child: Name of the link behind it, which has its frame.
        pose: Of the child in the parent when the joint is at zero, (4, 4).
        axis: What it turns about or slides along, in the child, (3,).
        limits: What is said of ``lower``, ``upper``, ``velocity``, ``torque`` and ``armature``.
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
    """Links by name, and the joint above each.

    Args:
        path: File that it is from.
        bodies: Links by name; :data:`.NO_LOAD` for one without mass.
        joints: All joints.
        capsules: What the description has of collision geometry, by link.

    Raises:
        ConfigurationError: If a name is there twice, a joint names a link that is not there, a
            link has two joints above it, or joints go round in a ring.
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
                raise ConfigurationError(f"{path}: joint {joint.name}: this name is there twice")
            names.add(joint.name)
            for link in (joint.parent, joint.child):
                if link not in bodies:
                    raise ConfigurationError(
                        f"{path}: joint {joint.name}: got link {link!r}, which does not exist"
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
        """Return the link that the chain down to a link begins with.

        Raises:
            ConfigurationError: If the joints above it go round in a ring.
        """
        above = link
        for _ in range(len(self.above) + 1):
            if above not in self.above:
                return above
            above = self.above[above].parent
        raise ConfigurationError(
            f"{self.path}: link {above}: got joint {self.above[above].name} above it in a ring of "
            "joints, allowed a tree"
        )

    def path_to(self, base: str, tip: str) -> list[TreeJoint]:
        """Return the joints from a link to another one beyond it, in this order.

        Raises:
            ConfigurationError: If there is no such way; says how far it goes.
        """
        for what, link in (("base", base), ("tip", tip)):
            if link not in self.bodies:
                raise ConfigurationError(
                    f"{self.path}: {what}: got {link!r}, allowed a link: {self._some_links()}"
                )
        found: list[TreeJoint] = []
        link = tip
        while link != base:
            if link not in self.above or len(found) > len(self.above):
                raise ConfigurationError(
                    f"{self.path}: tip: got {tip!r}, allowed a link on a chain that begins with "
                    f"{base!r}; that of the tip begins with {link!r}"
                )
            found.insert(0, self.above[link])
            link = self.above[link].parent
        return found

    def _some_links(self) -> str:
        names = list(self.bodies)
        return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if names[20:] else "")


def pose_from(rotation: Matrix, position: Matrix) -> Matrix:
    """Return a homogeneous transform, (4, 4)."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, position
    return pose


def moved(load: Load, pose: Matrix) -> Load:
    """Return a body in the frame that its own has a pose in."""
    turn = pose[:3, :3]
    return Load(load.mass, turn @ load.com + pose[:3, 3], turn @ load.inertia @ turn.T)


def check_body(where: str, body: Load) -> None:
    """Refuse masses and inertias that no rigid body has; none at all is one.

    Raises:
        ConfigurationError: Says what was got and what is allowed.
    """
    if body is NO_LOAD:
        return
    numbers = np.array([body.mass, *body.com, *body.inertia.ravel()])
    moments = np.linalg.eigvalsh(body.inertia) if np.isfinite(numbers).all() else np.zeros(3)
    least, middle, most = moments
    if body.mass <= 0.0 or least <= 0.0 or least + middle < most * (1.0 - 1e-9):
        raise ConfigurationError(
            f"{where}: got mass {body.mass:g} kg and principal moments {least:g}, {middle:g}, "
            f"{most:g} kg m^2, allowed those of a body: positive, any two up to the third"
        )
