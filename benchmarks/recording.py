# SPDX-License-Identifier: Apache-2.0
"""Two cameras and all states of two arms in real time: frames that are missing, and their skew.

An episode of two arms whose loop runs by itself is recorded while their targets wander; the hand
on the clock is the cell's. A frame is dropped if it is later than half a period.

    python benchmarks/recording.py [--minutes 10] [--rate 30]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py.datasets import Dataset, EpisodeRecorder
from multipanda_py.datasets.check import check
from multipanda_py.gym import CellEnv, GymTask

SIZES = {"overview": (240, 320), "free": (240, 320)}


class Wander(GymTask):
    """Move two arms a little; nothing else in the scene."""

    arms = {  # noqa: RUF012
        "left": {"position": [0.0, 0.4, 0.0], "hand": False},
        "right": {"position": [0.0, -0.4, 0.0], "hand": False},
    }
    seconds = 1e6

    def reward(self, scene: Any) -> float:
        """Return nothing: there is no prize."""
        return 0.0

    def is_done(self, scene: Any) -> bool:
        """Return False: nothing is to be reached."""
        return False


def cell_file(folder: Path) -> Path:
    """Return a cell of both arms with a loop in a process of its own."""
    cell = {
        "cell": {"name": "recording", "placement": "process"},
        "arms": dict(Wander.arms),
        "controllets": {"joint_trajectory_controller": {"type": "joint_trajectory"}},
    }
    path = folder / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": cell}}), encoding="utf-8")
    return path


def main() -> None:
    """Record, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = CellEnv(Wander(), rate=options.rate, cell=cell_file(folder), cameras=SIZES)
        frames = round(60.0 * options.minutes * options.rate)
        with EpisodeRecorder(env, folder / "set", instruction="wander") as recorder:
            recorder.begin(0)
            for k in range(frames):
                phase = 2.0 * np.pi * k / (4.0 * options.rate)
                recorder.step(0.1 * np.tile([np.sin(phase), np.cos(phase), 0, 0, 0, 0], 2))
            recorder.end(success=True)
        env.close()
        dataset = Dataset(folder / "set")
        report(dataset, options.rate)


def report(dataset: Dataset, rate: float) -> None:
    """Say how late frames were."""
    episode = dataset[0]
    nominal = np.asarray(episode["timestamp"], float)
    seen = episode["cell_time"] - episode["cell_time"][0] - nominal
    pictures = episode["picture_time"] - episode["cell_time"]
    print(f"{len(episode)} frames, {int((np.abs(seen) > 0.5 / rate).sum())} dropped")
    for what, late in (("from its instant", seen), ("pictures from numbers", pictures)):
        p99 = 1e3 * np.quantile(np.abs(late), 0.99)
        print(f"{what}: p99 {p99:.2f} ms, at most {1e3 * np.abs(late).max():.2f} ms")
    print(f"skew: {1e3 * episode.skew:.2f} ms; check: {check(dataset) or 'whole'}")


if __name__ == "__main__":
    main()
