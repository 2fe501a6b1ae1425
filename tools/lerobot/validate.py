# SPDX-License-Identifier: Apache-2.0
"""Read a data set with LeRobot itself, and compare it with what was recorded.

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
faults = []


def expect(what: str, got: object, desired: object) -> None:
    """Keep in mind what differs."""
    if got != desired:
        faults.append(f"{what}: got {got}, expected {desired}")


def close(what: str, got: ArrayLike, desired: ArrayLike, atol: float) -> None:
    """Keep in mind numbers that differ."""
    got, desired = np.asarray(got, float), np.asarray(desired, float)
    if got.shape != desired.shape or not np.allclose(got, desired, atol=atol):
        faults.append(f"{what}: got {got.ravel()[:4]}, expected {desired.ravel()[:4]}")


lengths = expected["lengths"]
expect("episodes", dataset.num_episodes, len(lengths))
expect("frames", len(dataset), int(lengths.sum()))
expect("fps", dataset.fps, int(expected["fps"]))
film = dataset.meta.video_keys[0]
close("state", dataset.hf_dataset["observation.state"][:], expected["state"], 0.0)
close("action", dataset.hf_dataset["action"][:], expected["action"], 0.0)
largest = 0.0
for index in range(len(dataset)):
    item = dataset[index]
    picture = expected["pictures"][index].transpose(2, 0, 1) / 255.0
    largest = max(largest, float(np.abs(item[film].numpy() - picture).mean()))
    expect(f"task of frame {index}", item["task"], str(expected["task"]))
if largest > 0.05:
    faults.append(f"pictures: mean difference of one is {largest:.3f}, expected at most 0.05")
history = LeRobotDataset(
    "local/recorded", root=folder, video_backend="pyav",
    delta_timestamps={"action": [0.0, 1.0 / dataset.fps], film: [-1.0 / dataset.fps, 0.0]},
)  # fmt: skip
item = history[int(lengths[0]) - 1]
expect("end of an episode is padded", item["action_is_pad"].tolist(), [False, True])
expect("pictures of two instants", tuple(item[film].shape[:1]), (2,))
batch = next(iter(torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)))
expect("batch", batch["action"].shape[0], 4)
kinds = {k: f.type.name for k, f in dataset_to_policy_features(dataset.features).items()}
expect("kind of action", kinds.get("action"), "ACTION")
expect("kind of state", kinds.get("observation.state"), "STATE")
expect("kind of film", kinds.get(film), "VISUAL")
close("mean of actions", dataset.meta.stats["action"]["mean"], expected["action"].mean(0), 1e-5)
aggregate_stats([dataset.meta.stats, dataset.meta.stats])
json.dumps(dataset.meta.info, default=list)
if faults:
    sys.exit("\n".join(faults))
sys.stdout.write(
    f"lerobot {lerobot.__version__}, torch {torch.__version__}: {len(lengths)} episodes, "
    f"{len(dataset)} frames, pictures differ by {largest:.4f} at most\n"
)
