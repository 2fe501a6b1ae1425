# SPDX-License-Identifier: Apache-2.0
"""An arm within a description: its joints that move, with what is fixed made one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.load import Load, combined
from multipanda_py.robots.tree import MOVING, SLIDING, Tree, TreeJoint, check_body, moved

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chain:
    """Joints that turn or slide, n, and n + 1 links that are one body each.

    Attributes:
        joints: From base to tip.
        origins: Of every joint in the link before it, (4, 4) each.
        links: Name of every link: that of the base, then those right behind the joints.
        bodies: What every link weighs, with all that is fixed to it, in its own frame.
        places: Every link of the description that is part of the arm: the number of the link that
            it belongs to, and its pose in it.
        tip: The link that carries things.
    """

    joints: tuple[TreeJoint, ...]
    origins: tuple[Matrix, ...]
    links: tuple[str, ...]
    bodies: tuple[Load, ...]
    places: dict[str, tuple[int, Matrix]]
    tip: str

    @property
    def slides(self) -> NDArray[np.bool_]:
        """Which joints slide, (n,)."""
        return np.array([joint.kind == SLIDING for joint in self.joints])


def chain_of(tree: Tree, base: str, tip: str) -> Chain:
    """Return the chain from one link of a description to another one.

    Fixed joints vanish: what is behind one belongs to the link before it, whether it is on the
    way to the tip or beside it. What hangs by further joints beside the chain is left out.

    Raises:
        ConfigurationError: If there is no such chain, a joint of it is neither revolute,
            continuous, prismatic nor fixed, none moves, or a link that moves is no body.
    """
    way = tree.path_to(base, tip)
    joints, origins, links = [], [], [base]
    places: dict[str, tuple[int, Matrix]] = {base: (0, np.eye(4))}
    for joint in way:
        number, pose = places[joint.parent]
        pose = pose @ joint.pose
        if joint.kind in MOVING:
            joints.append(joint)
            origins.append(pose)
            links.append(joint.child)
            places[joint.child] = len(joints), np.eye(4)
        elif joint.kind == "fixed":
            places[joint.child] = number, pose
        else:
            raise ConfigurationError(
                f"{tree.path}: joint {joint.name}: got type {joint.kind!r}, allowed "
                f"{', '.join(map(repr, (*MOVING, 'fixed')))}"
            )
    if not joints:
        raise ConfigurationError(
            f"{tree.path}: tip: got {tip!r}, which is fixed to {base!r}, allowed a link behind a "
            "joint"
        )
    for link in list(places):
        places.update(fixed_to(tree, link, places))
    parts: list[list[Load]] = [[] for _ in links]
    for link, (number, pose) in places.items():
        check_body(f"{tree.path}: link {link}", tree.bodies[link])
        parts[number].append(moved(tree.bodies[link], pose))
    bodies = tuple(combined(part) for part in parts)
    for link, body in zip(links[1:], bodies[1:]):
        if body.mass <= 0.0:
            raise ConfigurationError(
                f"{tree.path}: link {link}: got no inertial, allowed one for each link that moves"
            )
    return Chain(tuple(joints), tuple(origins), tuple(links), bodies, places, tip)


def fixed_to(
    tree: Tree, link: str, places: Mapping[str, tuple[int, Matrix]]
) -> Iterator[tuple[str, tuple[int, Matrix]]]:
    """Yield what is fixed to a link beside the chain, at any distance."""
    waiting = [(link, *places[link])]
    while waiting:
        parent, number, pose = waiting.pop()
        for joint in tree.below.get(parent, ()):
            if joint.kind == "fixed" and joint.child not in places:
                here = pose @ joint.pose
                yield joint.child, (number, here)
                waiting.append((joint.child, number, here))
