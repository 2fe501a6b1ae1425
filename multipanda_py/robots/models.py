# SPDX-License-Identifier: Apache-2.0
"""Robot models by the names that cell files use."""

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
    FINGER_VISUALS,
    FLANGE_HEIGHT,
    HAND_CAPSULES,
    HAND_CONTACT,
    HAND_INERTIAL,
    HAND_TCP_HEIGHT,
    HAND_VISUALS,
    HAND_YAW,
    INERTIALS,
    JOINT_ORIGINS,
    LIMITS,
    LINK_CAPSULES,
    LINK_VISUALS,
    READY_CONFIGURATION,
)
from multipanda_py.robots.geometry import Origin
from multipanda_py.robots.parallel_gripper import Finger, GripperBody, ParallelGripper
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.robots.robot import Flange, Joint, Link, Robot


def _finger(yaw: float) -> Finger:
    return Finger(
        inertial=FINGER_INERTIAL,
        contact=FINGER_BLOCKS,
        visuals=FINGER_VISUALS,
        origin=Origin((0.0, 0.0, FINGER_HEIGHT), (0.0, 0.0, yaw)),
        axis=(0.0, 1.0, 0.0),
    )


FRANKA_HAND = ParallelGripper(
    name="franka_hand",
    mount=Origin((0.0, 0.0, 0.0), (0.0, 0.0, HAND_YAW)),
    tcp=Origin((0.0, 0.0, HAND_TCP_HEIGHT)),
    body=GripperBody(HAND_INERTIAL, HAND_CONTACT, HAND_VISUALS),
    fingers=(_finger(0.0), _finger(pi)),
    lower=0.0,
    upper=FINGER_UPPER,
    velocity=FINGER_VELOCITY,
    speed=FINGER_VELOCITY,
    force=FINGER_FORCE,
    max_force=2.0 * FINGER_FORCE,  # The product sheet allows half of this force continuously.
    capsules=HAND_CAPSULES,
)


def _franka(name: str) -> Robot:
    parts = zip(INERTIALS[name], LINK_CAPSULES, LINK_VISUALS, strict=True)
    return Robot(
        name=name,
        limits=LIMITS[name],
        joints=tuple(
            Joint(f"joint{number}", origin) for number, origin in enumerate(JOINT_ORIGINS, start=1)
        ),
        links=tuple(Link(f"link{number}", *part) for number, part in enumerate(parts)),
        flange=Flange("link8", "joint8", Origin((0.0, 0.0, FLANGE_HEIGHT))),
        armature=ARMATURE,
        ready=READY_CONFIGURATION,
        sections=((0, 1, 2, 3), (4, 5), (6, 7)),
        # Capsules of links 1 and 3 overlap if joint 2 exceeds about 1.3 rad, which happens in a
        # quarter of random configurations. Capsules of other pairs touch in less than 2.5 %.
        overlapping=((1, 3),),
        hand=FRANKA_HAND,
        figures=FIGURES,
    )


DATA_FOLDER = Path(__file__).parent / "data"
"""Folder of the robots that are defined by files: ``NAME.yaml`` and the URDF."""


class _Library(Mapping[str, Robot]):
    """Robots by name: those of this package, and those of other installed packages.

    Other packages offer a :class:`.Robot` or the path of its YAML file in the entry-point group
    ``multipanda_py.robots``.

    Attributes:
        loaded: Robots loaded so far.
    """

    def __init__(self) -> None:
        self.loaded = {name: _franka(name) for name in ("fr3", "fer")}
        self._paths = {path.stem: path for path in sorted(DATA_FOLDER.glob("*.yaml"))}
        self._own = (*self.loaded, *self._paths)

    def __getitem__(self, name: str) -> Robot:
        if name not in self.loaded:
            path = self._paths.get(name)
            self.loaded[name] = (
                _load_from_other_package(name) if path is None else read_robot(path)
            )
        return self.loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in plug_ins("robots")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *plug_ins("robots"))))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def is_built_in(self, name: str) -> bool:
        return name in self._own


def _load_from_other_package(name: str) -> Robot:
    point = plug_ins("robots")[name]
    path = f"robot {name!r} of {point.dist.name if point.dist else point.value}"
    try:
        brought = point.load()
    except (Exception, SystemExit) as error:  # Importing another package may raise any error.
        text = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{path} cannot be loaded: {text}") from error
    if isinstance(brought, Robot):
        return replace(brought, name=name)
    if isinstance(brought, str | Path):
        return read_robot(Path(brought), name=name)
    raise ConfigurationError(
        f"{path} cannot be loaded: got {brought!r:.80}, allowed the path of a YAML file or a Robot"
    )


MODELS = _Library()
DEFAULT_MODEL = "fr3"
"""Name of the default model."""


def default_robot() -> Robot:
    """Return the robot for arms without a model name."""
    return MODELS[DEFAULT_MODEL]
