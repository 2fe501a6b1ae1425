# SPDX-License-Identifier: Apache-2.0
"""What a frame has: a state, what is around, an action, pictures; names of all numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.gym.env import CellEnv
from multipanda_py.gym.observation import Observation
from multipanda_py.state import Vector

STATE, AROUND, ACTION = "observation.state", "observation.environment_state", "action"
IMAGES = "observation.images."
TIME = "cell_time"
"""The cell's clock when the frame was seen [s]."""
PICTURE_TIME = "picture_time"
"""Likewise, of its pictures; the same in lockstep, and without cameras."""
SCALARS: Mapping[str, str] = {
    "next.reward": "float32",
    "next.done": "bool",
    "next.success": "bool",
    TIME: "float64",
    PICTURE_TIME: "float64",
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
"""One number a frame, and its type."""


@dataclass(frozen=True)
class Features:
    """Say what frames of a data set have.

    Attributes:
        fps: Frames a second.
        robot: Kinds of the arms, by name of the arm.
        vectors: Names of the numbers of state, surroundings and action, by key of the format.
        cameras: Height and width of pictures [pixels], by name.
    """

    fps: int
    robot: Mapping[str, str]
    vectors: Mapping[str, tuple[str, ...]]
    cameras: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (height, width) in self.cameras.items():
            if height % 2 or width % 2:
                raise ConfigurationError(
                    f"camera {name}: got {height} by {width} pixels, films allow even numbers"
                )

    @property
    def films(self) -> tuple[str, ...]:
        """Keys of the cameras, as the format names them."""
        return tuple(IMAGES + name for name in self.cameras)

    def described(self) -> dict[str, Any]:
        """Return them as ``features`` of ``meta/info.json``."""
        shown: dict[str, Any] = {
            key: {"dtype": "float32", "shape": [len(names)], "names": list(names)}
            for key, names in self.vectors.items()
        }
        for name, (height, width) in self.cameras.items():
            shown[IMAGES + name] = {
                "dtype": "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
                "info": {
                    "video.fps": self.fps,
                    "video.height": height,
                    "video.width": width,
                    "video.channels": 3,
                    "video.codec": "h264",
                    "video.pix_fmt": "yuv420p",
                    "video.is_depth_map": False,
                    "has_audio": False,
                },
            }
        scalars = {
            key: {"dtype": kind, "shape": [1], "names": None} for key, kind in SCALARS.items()
        }
        return shown | scalars


def features_of(env: CellEnv) -> Features:
    """Return what frames of an environment have.

    Raises:
        ConfigurationError: If the rate is no whole number, or a picture has odd sides.
    """
    if env.rate != round(env.rate):
        raise ConfigurationError(
            f"rate: got {env.rate:g}, a data set allows whole numbers of frames a second"
        )
    spaces = env.observation_space.spaces  # type: ignore[attr-defined]  # a Dict
    state: list[str] = []
    for arm in env.controls:
        for part, space in spaces[arm].spaces.items():
            state += [f"{arm}.{part}.{k}" for k in range(space.shape[0])]
    for name, space in _sensors(spaces).items():
        state += [f"sensors.{name}.{k}" for k in range(space.shape[0])]
    around = [
        f"{thing}.pose.{k}"
        for thing, space in (spaces["things"].spaces if "things" in spaces else {}).items()
        for k in range(space.shape[0])
    ]
    around += [f"goal.{k}" for k in range(spaces["goal"].shape[0] if "goal" in spaces else 0)]
    action = []
    for arm, control in env.controls.items():
        action += [f"{arm}.{env.arguments['control']}.{k}" for k in range(len(control.low))]
        action += [f"{arm}.gripper"] if "gripper" in spaces[arm].spaces else []
    vectors = {STATE: tuple(state), ACTION: tuple(action)}
    images = spaces["images"].spaces if "images" in spaces else {}
    return Features(
        fps=round(env.rate),
        robot={arm: env.cell.descriptions[arm].robot.name for arm in env.controls},
        vectors=vectors | ({AROUND: tuple(around)} if around else {}),
        cameras={name: (space.shape[0], space.shape[1]) for name, space in images.items()},
    )


def numbers_of(env: CellEnv, seen: Observation) -> dict[str, Vector]:
    """Return the vectors of an observation, by key of the format, in the order of the names."""
    spaces = env.observation_space.spaces  # type: ignore[attr-defined]
    parts = [seen[arm][part] for arm in env.controls for part in spaces[arm].spaces]
    parts += [seen["sensors"][name] for name in _sensors(spaces)]
    around = (
        [seen["things"][thing] for thing in spaces["things"].spaces] if "things" in spaces else []
    )
    around += [seen["goal"]] if "goal" in spaces else []
    vectors = {STATE: np.concatenate(parts)}
    return vectors | ({AROUND: np.concatenate(around)} if around else {})


def _sensors(spaces: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spaces of what is seen beside the cell, by name."""
    return spaces["sensors"].spaces if "sensors" in spaces else {}
