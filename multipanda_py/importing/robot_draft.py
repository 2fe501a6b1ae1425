# SPDX-License-Identifier: Apache-2.0
"""From a description to a robot and the YAML that goes with it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.importing.arms import ArmEnds, find_arm
from multipanda_py.importing.fit import Fit, fit_capsules
from multipanda_py.importing.postures import RandomPostures
from multipanda_py.importing.source import Shapes, kind_of, shapes_of, tree_of
from multipanda_py.robots.chain import Chain, chain_of
from multipanda_py.robots.extra import read_extra
from multipanda_py.robots.read import read_robot
from multipanda_py.robots.robot import Robot
from multipanda_py.robots.tree import Tree


@dataclass(frozen=True, eq=False)
class RobotDraft:
    """What was found out of a description.

    Attributes:
        kind: Of the description: ``urdf`` or ``mjcf``.
        robot: With all numbers.
        arm: Its base and tip.
        chain: As the description has it.
        fit: Its capsules.
        shapes: Its geometry, by link of the description, and ``collision`` and ``visual``.
        known: Keys that were given.
        left_out: What hangs on it and is no part of it.
        ready: Where its ready posture is from.
        doubts: What is possible and odd in the description.
    """

    kind: str
    robot: Robot
    arm: ArmEnds
    chain: Chain
    fit: Fit
    shapes: Shapes
    known: tuple[str, ...]
    left_out: tuple[str, ...]
    ready: str
    doubts: tuple[str, ...]


def draft_robot(
    source: Path,
    *,
    base: str = "",
    tip: str = "",
    name: str = "",
    extra: Path | None = None,
    packages: Sequence[Path] = (),
    most_capsules: int = 2,
) -> RobotDraft:
    """Find an arm in a URDF or MJCF, fit its capsules, and choose what the file does not say.

    Args:
        source: The file.
        base: Link to begin with; by default that before the first joint of the only arm.
        tip: Link that carries things; by default the first one fixed behind the last joint.
        name: Of the robot; by default that of the file.
        extra: A YAML with what is known already; its numbers are kept, but capsules are fitted.
        packages: Folders where ``package://`` leads to.
        most_capsules: Per link.

    Raises:
        ConfigurationError: If the file cannot be read, there is not one such arm, it has no
            limits or a link that is no body, or a mesh is not there.
    """
    if not source.is_file():
        raise ConfigurationError(f"{source}: got no file of this name, allowed a URDF or MJCF")
    known = {} if extra is None else read_extra(extra)
    kind = kind_of(source)
    tree = tree_of(source)
    arm = find_arm(tree, base or known.get("base", ""), tip or known.get("tip", ""))
    name = name or re.sub(r"\W", "_", source.stem)
    files = {"urdf": source} if kind == "urdf" else {"mjcf": source}

    def read(path: Path | None) -> Robot:
        return read_robot(path, **files, base=arm.base, tip=arm.tip, name=name)

    read(extra)  # what is missing is missing there
    chain = chain_of(tree, arm.base, arm.tip)
    shapes = shapes_of(source, list(chain.places), packages)
    fit = fit_capsules(chain, shapes, most_capsules)
    found: dict[str, Any] = known | {
        "overlapping": [],
        "capsules": {
            link: [[list(c.start), list(c.end), c.radius] for c in capsules]
            for link, capsules in fit.capsules.items()
        },
    }

    def robot() -> Robot:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "extra.yaml"
            path.write_text(yaml.safe_dump(found), encoding="utf-8")
            return read(path)

    postures = RandomPostures(robot())
    overlapping = postures.overlapping()
    found["overlapping"] = [list(pair) for pair in overlapping]
    origin = "as it was given"
    if "ready" not in known:
        origin = "of plain postures clear of floor and itself the one that moves best; to taste"
        if (ready := postures.ready(overlapping)) is None:
            origin = "no plain posture is clear of floor and itself. CHECK this one"
        else:
            found["ready"] = np.round(ready, 6).tolist()
    left_out = tuple(_left_out(tree, chain))
    names = tuple(known)
    drafted = robot()
    return RobotDraft(
        kind, drafted, arm, chain, fit, shapes, names, left_out, origin, drafted.doubts
    )


def _left_out(tree: Tree, chain: Chain) -> Iterator[str]:
    """Say which joints move a chain as a whole, and what hangs on it by joints of others."""
    for joint in tree.path_to(tree.root_of(chain.links[0]), chain.links[0]):
        if joint.kind != "fixed":
            yield (
                f"the arm begins at {chain.links[0]}, behind joint {joint.name} ({joint.kind}): "
                "it is no part of the arm, and has to stand still while the arm moves"
            )
    for link in chain.places:
        for joint in tree.below.get(link, ()):
            if joint.child not in chain.places:
                mass = tree.bodies[joint.child].mass
                yield (
                    f"{joint.child} ({mass:.3g} kg), which hangs by joint {joint.name} "
                    f"({joint.kind}), is left out with all behind it"
                )
