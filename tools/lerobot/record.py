# SPDX-License-Identifier: Apache-2.0
"""Record some episodes for ``make test-lerobot``, and the data that LeRobot must read.

Usage: python record.py FOLDER EXPECTED.npz
"""

import sys

import numpy as np

from multipanda_py.learning.datasets import Dataset, EpisodeRecorder
from multipanda_py.learning.gym import CellEnv

folder, expected = sys.argv[1:]
env = CellEnv("push", rate=30.0, cameras={"overview": (96, 128)})
images = []
for seeds in ((0, 1), (2,)):  # the second recorder appends
    with EpisodeRecorder(env, folder, instruction="push the puck") as recorder:
        for seed in seeds:
            observed, _ = recorder.start_episode(seed)
            for _ in range(20):
                images.append(observed["images"]["overview"])
                observed, *_ = recorder.step(env.expert_action())
            recorder.end(success=seed != 1)
env.close()
episodes = list(Dataset(folder))
np.savez(
    expected,
    lengths=[len(episode) for episode in episodes],
    fps=30,
    state=np.concatenate([episode["observation.state"] for episode in episodes]),
    action=np.concatenate([episode["action"] for episode in episodes]),
    pictures=images,
    task="push the puck",
)
