# SPDX-License-Identifier: Apache-2.0
"""Two cameras and all states of two arms in real time: frames that are missing, and their skew.

An episode of two arms whose loop runs by itself is recorded while their targets wander; the hand
on the clock is the cell's. Dropped are instants that have no frame, and frames whose pictures are
more than a period older than their numbers. A line a minute says how far it is.

    python benchmarks/recording.py [--minutes 10] [--rate 30] [--size 96 128]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py.learning.datasets import Dataset, EpisodeRecorder
from multipanda_py.learning.datasets.reader import Episode
from multipanda_py.learning.datasets.replay import check
from multipanda_py.learning.gym import CellEnv, GymTask


class Wander(GymTask):
    """Move two arms a little; nothing else in the scene."""

    arms = {  # noqa: RUF012
        "left": {"position": [0.0, 0.4, 0.0], "gripper": False},
        "right": {"position": [0.0, -0.4, 0.0], "gripper": False},
    }
    time_limit = 1e6

    def reward(self, scene: Any) -> float:
        """Return nothing: there is no prize."""
        return 0.0

    def is_success(self, scene: Any) -> bool:
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


def dropped(episode: Episode, rate: float) -> int:
    """Return how many instants have no frame, and frames whose pictures are a period older."""
    time = np.asarray(episode["cell_time"])
    missing = np.maximum(0, np.round(np.diff(time) * rate) - 1).sum()
    return int(missing + (np.abs(episode["image_time"] - time) > 1.0 / rate).sum())


def record(env: CellEnv, folder: Path, frames: int) -> Dataset:
    """Record an episode while targets wander, and say once a minute how far it is."""
    begun, used = time.monotonic(), time.process_time()
    with EpisodeRecorder(env, folder, instruction="wander") as recorder:
        recorder.start_episode(0)
        for k in range(frames):
            phase = 2.0 * np.pi * k / (4.0 * env.rate)
            recorder.step(0.1 * np.tile([np.sin(phase), np.cos(phase), 0, 0, 0, 0], 2))
            if (k + 1) % round(60.0 * env.rate) == 0:
                passed, cpu = time.monotonic() - begun, time.process_time() - used
                print(
                    f"{k + 1} frames in {passed:.1f} s, {cpu / passed:.2f} of a core, "
                    f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; cycles skipped: "
                    f"{env.cell.statistics().missed}",
                    flush=True,
                )
        recorder.end(success=True)
        print(f"held, as this program was late: {recorder.held} frames")
    return Dataset(folder)


def report(dataset: Dataset, rate: float) -> None:
    """Say how late frames were."""
    episode = dataset[0]
    nominal = np.asarray(episode["timestamp"], float)
    observed = episode["cell_time"] - episode["cell_time"][0] - nominal
    pictures = episode["image_time"] - episode["cell_time"]
    print(f"{len(episode)} frames, {dropped(episode, rate)} dropped")
    for what, late in (("from its instant", observed), ("pictures from numbers", pictures)):
        p99 = 1e3 * np.quantile(np.abs(late), 0.99)
        print(f"{what}: p99 {p99:.2f} ms, at most {1e3 * np.abs(late).max():.2f} ms")
    print(f"skew: {1e3 * episode.skew:.2f} ms; check: {check(dataset) or 'whole'}")


def main() -> None:
    """Record, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=30.0)
    parser.add_argument("--size", type=int, nargs=2, default=(96, 128), metavar=("HIGH", "WIDE"))
    options = parser.parse_args()
    sizes = dict.fromkeys(("overview", "free"), tuple(options.size))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = CellEnv(Wander(), rate=options.rate, cell=cell_file(folder), cameras=sizes)
        dataset = record(env, folder / "set", round(60.0 * options.minutes * options.rate))
        env.close()
        report(dataset, options.rate)


if __name__ == "__main__":
    main()
