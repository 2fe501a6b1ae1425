# SPDX-License-Identifier: Apache-2.0
"""Features (columns) of a data set, and statistics for their normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.learning.gym.env import CellEnv
from multipanda_py.learning.gym.spaces import Observation
from multipanda_py.simulation.rendering import Image
from multipanda_py.state import Vector

STATE_KEY, ENVIRONMENT_STATE_KEY, ACTION_KEY = (
    "observation.state",
    "observation.environment_state",
    "action",
)
IMAGE_PREFIX = "observation.images."
TIME_KEY = "cell_time"
"""Cell time of the observation of a frame [s]."""
IMAGE_TIME_KEY = "image_time"
"""Cell time of the images of a frame [s]. Equal to :data:`TIME_KEY` in lockstep and
without cameras."""
SCALARS: Mapping[str, str] = {
    "next.reward": "float32",
    "next.done": "bool",
    "next.success": "bool",
    TIME_KEY: "float64",
    IMAGE_TIME_KEY: "float64",
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
"""Types of the columns with one number per frame, by name of the column."""


@dataclass(frozen=True)
class Features:
    """Contents of the frames of a data set.

    Attributes:
        fps: Frames per second.
        robot: Robot models by arm name.
        vectors: Component names of the vectors by key of the LeRobot format: state, action and, if
            observed, object poses and goal.
        cameras: Height and width of the images by camera name [pixels].
    """

    fps: int
    robot: Mapping[str, str]
    vectors: Mapping[str, tuple[str, ...]]
    cameras: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (height, width) in self.cameras.items():
            if height % 2 or width % 2:
                raise ConfigurationError(
                    f"camera {name}: got {height} by {width} pixels, allowed even numbers"
                )

    @property
    def video_keys(self) -> tuple[str, ...]:
        """Keys of the cameras in the LeRobot format, such as ``observation.images.NAME``."""
        return tuple(IMAGE_PREFIX + name for name in self.cameras)

    def described(self) -> dict[str, Any]:
        """Return the section ``features`` of ``meta/info.json``."""
        shown: dict[str, Any] = {
            key: {"dtype": "float32", "shape": [len(names)], "names": list(names)}
            for key, names in self.vectors.items()
        }
        for name, (height, width) in self.cameras.items():
            shown[IMAGE_PREFIX + name] = {
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
    """Return frame rate, robots, vectors and cameras for recordings of an environment.

    Raises:
        ConfigurationError: If the rate is not an integer, or an image has an odd height or width.
    """
    if env.rate != round(env.rate):
        raise ConfigurationError(
            f"rate: got {env.rate:g} Hz, allowed whole numbers, as the frame rate of a data set"
        )
    spaces = env.observation_space.spaces  # type: ignore[attr-defined]  # a Dict
    state: list[str] = []
    for arm in env.controls:
        for part, space in spaces[arm].spaces.items():
            state += [f"{arm}.{part}.{k}" for k in range(space.shape[0])]
    for name, space in _sensors(spaces).items():
        state += [f"sensors.{name}.{k}" for k in range(space.shape[0])]
    around = [
        f"{obj}.pose.{k}"
        for obj, space in (spaces["objects"].spaces if "objects" in spaces else {}).items()
        for k in range(space.shape[0])
    ]
    around += [f"goal.{k}" for k in range(spaces["goal"].shape[0] if "goal" in spaces else 0)]
    action = []
    for arm, control in env.controls.items():
        action += [f"{arm}.{env.arguments['control']}.{k}" for k in range(len(control.low))]
        action += [f"{arm}.gripper"] if "gripper" in spaces[arm].spaces else []
    vectors = {STATE_KEY: tuple(state), ACTION_KEY: tuple(action)}
    images = spaces["images"].spaces if "images" in spaces else {}
    return Features(
        fps=round(env.rate),
        robot={arm: env.cell.descriptions[arm].robot.name for arm in env.controls},
        vectors=vectors | ({ENVIRONMENT_STATE_KEY: tuple(around)} if around else {}),
        cameras={name: (space.shape[0], space.shape[1]) for name, space in images.items()},
    )


def observation_vectors(env: CellEnv, observation: Observation) -> dict[str, Vector]:
    """Convert an observation without images to vectors, by key of :attr:`Features.vectors`."""
    spaces = env.observation_space.spaces  # type: ignore[attr-defined]
    parts = [observation[arm][part] for arm in env.controls for part in spaces[arm].spaces]
    parts += [observation["sensors"][name] for name in _sensors(spaces)]
    around = (
        [observation["objects"][obj] for obj in spaces["objects"].spaces]
        if "objects" in spaces
        else []
    )
    around += [observation["goal"]] if "goal" in spaces else []
    vectors = {STATE_KEY: np.concatenate(parts)}
    return vectors | ({ENVIRONMENT_STATE_KEY: np.concatenate(around)} if around else {})


def _sensors(spaces: Mapping[str, Any]) -> Mapping[str, Any]:
    return spaces["sensors"].spaces if "sensors" in spaces else {}


QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
Stats = dict[str, NDArray[Any]]


def stats_of(rows: NDArray[Any]) -> Stats:
    """Return statistics over the rows of an array, by name, such as ``mean`` and ``q10``.

    Args:
        rows: Values of one feature, one row per frame, (n,) or (n, k).

    Returns:
        Statistics, (k,) each, and the number of rows ``count``, (1,).
    """
    table = np.asarray(rows, np.float64).reshape(len(rows), -1)
    stats = {
        "min": table.min(axis=0),
        "max": table.max(axis=0),
        "mean": table.mean(axis=0),
        "std": table.std(axis=0),
        "count": np.array([len(table)]),
    }
    return stats | {name: np.quantile(table, q, axis=0) for name, q in QUANTILES.items()}


class ImageStats:
    """Statistics of the colour channels of a camera, scaled to 0 to 1, from a part of all pixels.

    Args:
        every: Interval between used images, as a number of images; 1 uses all images.
    """

    def __init__(self, every: int) -> None:
        self._every, self._sample_count = every, 0
        self._pixels: list[NDArray[np.uint8]] = []

    def add(self, image: Image) -> None:
        """Add an image, (height, width, 3)."""
        if self._sample_count % self._every == 0:
            step = max(1, min(image.shape[:2]) // 32)
            self._pixels.append(image[::step, ::step].reshape(-1, 3))
        self._sample_count += 1

    def result(self) -> Stats:
        """Return the statistics, (3, 1, 1) each, and the number of used images ``count``, (1,)."""
        stats = stats_of(np.concatenate(self._pixels) / 255.0)
        shaped = {key: value.reshape(-1, 1, 1) for key, value in stats.items() if key != "count"}
        return shaped | {"count": np.array([len(self._pixels)])}


def combined_stats(parts: Sequence[Mapping[str, Any]]) -> Stats:
    r"""Combine the statistics of several episodes to those of all their frames.

    .. math:: \mu = \sum_i w_i \mu_i, \quad
        \sigma^2 = \sum_i w_i (\sigma_i^2 + (\mu_i - \mu)^2), \quad w_i = n_i / \sum_j n_j.

    Symbols: mean :math:`\mu_i`, standard deviation :math:`\sigma_i`, frame count :math:`n_i` and
    weight :math:`w_i` of episode i. Quantiles are approximated by their weighted mean.

    Args:
        parts: Statistics of one feature in each episode, see :func:`stats_of`.
    """
    of = {key: np.array([np.asarray(part[key], float) for part in parts]) for key in parts[0]}
    counts = of["count"].reshape(-1)
    weights = (counts / counts.sum()).reshape(-1, *[1] * (of["mean"].ndim - 1))
    mean = (weights * of["mean"]).sum(axis=0)
    spread = (weights * (of["std"] ** 2 + (of["mean"] - mean) ** 2)).sum(axis=0)
    result = {
        "min": of["min"].min(axis=0),
        "max": of["max"].max(axis=0),
        "mean": mean,
        "std": np.sqrt(spread),
        "count": np.array([int(counts.sum())]),
    }
    return result | {name: (weights * of[name]).sum(axis=0) for name in QUANTILES}
