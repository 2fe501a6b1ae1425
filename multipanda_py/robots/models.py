# SPDX-License-Identifier: Apache-2.0
"""The kinds of arms that there are, by the name that cell files use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from multipanda_py.robots.franka import (
    ARMATURE,
    FIGURES,
    FLANGE_HEIGHT,
    INERTIALS,
    JOINT_ORIGINS,
    LINK_CAPSULES,
    READY_POSTURE,
)
from multipanda_py.robots.limits import LIMITS
from multipanda_py.robots.look import LINK_LOOK
from multipanda_py.robots.read import read_robot
from multipanda_py.robots.robot import Flange, Joint, Link, Origin, Robot


def _franka(name: str) -> Robot:
    """Return a Franka arm."""
    parts = zip(INERTIALS[name], LINK_CAPSULES, LINK_LOOK, strict=True)
    return Robot(
        name=name,
        limits=LIMITS[name],
        joints=tuple(
            Joint(f"joint{number}", origin) for number, origin in enumerate(JOINT_ORIGINS, start=1)
        ),
        links=tuple(Link(f"link{number}", *part) for number, part in enumerate(parts)),
        flange=Flange("link8", "joint8", Origin((0.0, 0.0, FLANGE_HEIGHT))),
        armature=ARMATURE,
        ready=READY_POSTURE,
        sections=((0, 1, 2, 3), (4, 5), (6, 7)),
        # Their capsules overlap when joint 2 bends past about 1.3 rad, which was a quarter of
        # 3000 random postures. Every other pair that touched in those did so in less than one of
        # forty, as the real links would.
        overlapping=((1, 3),),
        has_hand=True,
        figures=FIGURES,
    )


DATA = Path(__file__).parent / "data"
"""Where the robots are that are data: ``NAME.yaml`` and its URDF."""


class _Library(Mapping[str, Robot]):
    """Robots by name; one that is data is read when it is asked for."""

    def __init__(self) -> None:
        self._found = {name: _franka(name) for name in ("fr3", "fer")}
        self._paths = {path.stem: path for path in sorted(DATA.glob("*.yaml"))}
        self._names = (*self._found, *self._paths)

    def __getitem__(self, name: str) -> Robot:
        if name not in self._found:
            self._found[name] = read_robot(self._paths[name])
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


MODELS: Mapping[str, Robot] = _Library()
DEFAULT_MODEL = "fr3"
"""What an arm is if nobody says."""
