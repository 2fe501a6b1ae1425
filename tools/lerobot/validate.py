# SPDX-License-Identifier: Apache-2.0
"""Read a dataset with LeRobot, and compare it with the recorded data.

Usage: python validate.py FOLDER EXPECTED.npz; runs in the environment of ``make test-lerobot``.
"""

import json
import sys
from pathlib import Path

import lerobot
import numpy as np
import torch
from lerobot.datasets.compute_stats import aggregate_stats
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.utils import dataset_to_policy_features
from numpy.typing import ArrayLike

folder, expected = Path(sys.argv[1]), np.load(sys.argv[2])
dataset = LeRobotDataset("local/recorded", root=folder, video_backend="pyav")
differences = []


def expect(what: str, got: object, desired: object) -> None:
    """Collect a difference of a value."""
    if got != desired:
        differences.append(f"{what}: got {got}, expected {desired}")


def close(what: str, got: ArrayLike, desired: ArrayLike, atol: float) -> None:
    """Collect a difference of arrays."""
    got, desired = np.asarray(got, float), np.asarray(desired, float)
    if got.shape != desired.shape or not np.allclose(got, desired, atol=atol):
        differences.append(f"{what}: got {got.ravel()[:4]}, expected {desired.ravel()[:4]}")


lengths = expected["lengths"]
expect("episodes", dataset.num_episodes, len(lengths))
expect("frames", len(dataset), int(lengths.sum()))
expect("fps", dataset.fps, int(expected["fps"]))
video_key = dataset.meta.video_keys[0]
close("state", dataset.hf_dataset["observation.state"][:], expected["state"], 0.0)
close("action", dataset.hf_dataset["action"][:], expected["action"], 0.0)
largest = 0.0
for index in range(len(dataset)):
    item = dataset[index]
    image = expected["pictures"][index].transpose(2, 0, 1) / 255.0
    largest = max(largest, float(np.abs(item[video_key].numpy() - image).mean()))
    expect(f"task of frame {index}", item["task"], str(expected["task"]))
if largest > 0.05:
    differences.append(f"image: mean difference {largest:.3f}, expected at most 0.05")
history = LeRobotDataset(
    "local/recorded", root=folder, video_backend="pyav",
    delta_timestamps={"action": [0.0, 1.0 / dataset.fps], video_key: [-1.0 / dataset.fps, 0.0]},
)  # fmt: skip
item = history[int(lengths[0]) - 1]
expect("end of an episode is padded", item["action_is_pad"].tolist(), [False, True])
expect("images of two times", tuple(item[video_key].shape[:1]), (2,))
batch = next(iter(torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)))
expect("batch", batch["action"].shape[0], 4)
types = {k: f.type.name for k, f in dataset_to_policy_features(dataset.features).items()}
expect("type of action", types.get("action"), "ACTION")
expect("type of state", types.get("observation.state"), "STATE")
expect("type of video", types.get(video_key), "VISUAL")
close("mean of actions", dataset.meta.stats["action"]["mean"], expected["action"].mean(0), 1e-5)
aggregate_stats([dataset.meta.stats, dataset.meta.stats])
json.dumps(dataset.meta.info, default=list)
if differences:
    sys.exit("\n".join(differences))
sys.stdout.write(
    f"lerobot {lerobot.__version__}, torch {torch.__version__}: {len(lengths)} episodes, "
    f"{len(dataset)} frames, maximum mean image difference {largest:.4f}\n"
)
