# SPDX-License-Identifier: Apache-2.0
"""Missing frames and time skew of two cameras and two arms, recorded in real time.

An episode of two moving arms is recorded by cell time, while their loop runs in another process.
Dropped are missing frames, and frames whose images are more than a period older than their
numbers. The progress is printed once a minute.

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
    """Task of two arms in an empty scene."""

    arms = {  # noqa: RUF012
        "left": {"position": [0.0, 0.4, 0.0], "gripper": False},
        "right": {"position": [0.0, -0.4, 0.0], "gripper": False},
    }
    time_limit = 1e6

    def reward(self, scene: Any) -> float:
        """Return 0, because the task has no reward."""
        return 0.0

    def is_success(self, scene: Any) -> bool:
        """Return False, because the task has no goal."""
        return False


def cell_file(folder: Path) -> Path:
    """Return a cell file of both arms, with the loop in another process."""
    cell = {
        "cell": {"name": "recording", "placement": "process"},
        "arms": dict(Wander.arms),
        "controllets": {"joint_trajectory_controller": {"type": "joint_trajectory"}},
    }
    path = folder / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": cell}}), encoding="utf-8")
    return path


def dropped(episode: Episode, rate: float) -> int:
    """Return the number of missing frames plus that of frames with images older than a period."""
    time = np.asarray(episode["cell_time"])
    missing = np.maximum(0, np.round(np.diff(time) * rate) - 1).sum()
    return int(missing + (np.abs(episode["image_time"] - time) > 1.0 / rate).sum())


def record(env: CellEnv, folder: Path, frames: int) -> Dataset:
    """Record an episode with moving targets, and print the progress once a minute."""
    begin, cpu_begin = time.monotonic(), time.process_time()
    with EpisodeRecorder(env, folder, instruction="wander") as recorder:
        recorder.start_episode(0)
        for k in range(frames):
            phase = 2.0 * np.pi * k / (4.0 * env.rate)
            recorder.step(0.1 * np.tile([np.sin(phase), np.cos(phase), 0, 0, 0, 0], 2))
            if (k + 1) % round(60.0 * env.rate) == 0:
                elapsed, cpu = time.monotonic() - begin, time.process_time() - cpu_begin
                print(
                    f"{k + 1} frames in {elapsed:.1f} s, {cpu / elapsed:.2f} of a core, "
                    f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; missed cycles: "
                    f"{env.cell.statistics().missed}",
                    flush=True,
                )
        recorder.end(success=True)
        print(f"frames of missed steps of this program: {recorder.held}")
    return Dataset(folder)


def report(dataset: Dataset, rate: float) -> None:
    """Print the time errors of the frames."""
    episode = dataset[0]
    nominal = np.asarray(episode["timestamp"], float)
    time_errors = episode["cell_time"] - episode["cell_time"][0] - nominal
    image_delays = episode["image_time"] - episode["cell_time"]
    print(f"{len(episode)} frames, {dropped(episode, rate)} dropped")
    for label, errors in (
        ("time error of numbers", time_errors),
        ("images after numbers", image_delays),
    ):
        p99 = 1e3 * np.quantile(np.abs(errors), 0.99)
        print(f"{label}: p99 {p99:.2f} ms, max {1e3 * np.abs(errors).max():.2f} ms")
    print(f"skew: {1e3 * episode.skew:.2f} ms; check: {check(dataset) or 'complete'}")


def main() -> None:
    """Record an episode and print its time errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=30.0)
    parser.add_argument(
        "--size", type=int, nargs=2, default=(96, 128), metavar=("HEIGHT", "WIDTH")
    )
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
