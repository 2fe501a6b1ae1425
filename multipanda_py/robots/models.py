# SPDX-License-Identifier: Apache-2.0
"""The kinds of arms that there are, by the name that cell files use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import pi
from pathlib import Path

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import plug_ins
from multipanda_py.robots.franka import (
    ARMATURE,
    FIGURES,
    FINGER_BLOCKS,
    FINGER_FORCE,
    FINGER_HEIGHT,
    FINGER_INERTIAL,
    FINGER_UPPER,
    FINGER_VELOCITY,
    FLANGE_HEIGHT,
    HAND_CAPSULES,
    HAND_CONTACT,
    HAND_INERTIAL,
    HAND_TCP_HEIGHT,
    HAND_YAW,
    INERTIALS,
    JOINT_ORIGINS,
    LIMITS,
    LINK_CAPSULES,
    READY_POSTURE,
)
from multipanda_py.robots.geometry import Origin
from multipanda_py.robots.parallel_gripper import Finger, GripperBody, ParallelGripper
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.robots.robot import Flange, Joint, Link, Robot
from multipanda_py.robots.visuals import FINGER_LOOK, HAND_LOOK, LINK_LOOK


def _finger(yaw: float) -> Finger:
    return Finger(
        inertial=FINGER_INERTIAL,
        contact=FINGER_BLOCKS,
        look=FINGER_LOOK,
        origin=Origin((0.0, 0.0, FINGER_HEIGHT), (0.0, 0.0, yaw)),
        axis=(0.0, 1.0, 0.0),
    )


FRANKA_HAND = ParallelGripper(
    name="franka_hand",
    mount=Origin((0.0, 0.0, 0.0), (0.0, 0.0, HAND_YAW)),
    tcp=Origin((0.0, 0.0, HAND_TCP_HEIGHT)),
    body=GripperBody(HAND_INERTIAL, HAND_CONTACT, HAND_LOOK),
    fingers=(_finger(0.0), _finger(pi)),
    lower=0.0,
    upper=FINGER_UPPER,
    velocity=FINGER_VELOCITY,
    speed=FINGER_VELOCITY,
    force=FINGER_FORCE,
    most_force=2.0 * FINGER_FORCE,  # half of it can be kept up (product sheet)
    capsules=HAND_CAPSULES,
)


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
        hand=FRANKA_HAND,
        figures=FIGURES,
    )


DATA = Path(__file__).parent / "data"
"""Where the robots are that are data: ``NAME.yaml`` and its URDF."""


class _Library(Mapping[str, Robot]):
    """Robots by name: those of this package, then those that other distributions bring.

    The entry-point group ``multipanda_py.robots`` has a name and the path of a YAML, or a
    :class:`.Robot`. What is data is read when it is asked for.

    Attributes:
        loaded: Robots that were read so far.
    """

    def __init__(self) -> None:
        self.loaded = {name: _franka(name) for name in ("fr3", "fer")}
        self._paths = {path.stem: path for path in sorted(DATA.glob("*.yaml"))}
        self._own = (*self.loaded, *self._paths)

    def __getitem__(self, name: str) -> Robot:
        if name not in self.loaded:
            path = self._paths.get(name)
            self.loaded[name] = _of_others(name) if path is None else read_robot(path)
        return self.loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in plug_ins("robots")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *plug_ins("robots"))))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def is_built_in(self, name: str) -> bool:
        """Return whether a robot is one of this package."""
        return name in self._own


def _of_others(name: str) -> Robot:
    """Return a robot that another distribution brings.

    Raises:
        KeyError: If there is none of this name.
        ConfigurationError: If it cannot be loaded or read; names the distribution.
    """
    point = plug_ins("robots")[name]
    where = f"robot {name!r} of {point.dist.name if point.dist else point.value}"
    try:
        brought = point.load()
    except (Exception, SystemExit) as error:  # what a module does when it is imported
        text = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{where} cannot be loaded: {text}") from error
    if isinstance(brought, Robot):
        return replace(brought, name=name)
    if isinstance(brought, str | Path):
        return read_robot(Path(brought), name=name)
    raise ConfigurationError(
        f"{where} cannot be loaded: got {brought!r:.80}, allowed the path of a YAML or a Robot"
    )


MODELS = _Library()
DEFAULT_MODEL = "fr3"
"""What an arm is if nobody says."""


def default_robot() -> Robot:
    """Return the robot of an arm whose model is not named."""
    return MODELS[DEFAULT_MODEL]
