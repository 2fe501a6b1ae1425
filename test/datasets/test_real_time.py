# SPDX-License-Identifier: Apache-2.0
"""Frames of arms that move by a loop of their own are of their instants, pictures as well."""

import time

import numpy as np
import pytest
import yaml

from multipanda_py.datasets import Dataset, EpisodeRecorder
from multipanda_py.exceptions import ActionRejected
from multipanda_py.gym import CellEnv

pytestmark = [pytest.mark.sim]
RATE = 10.0
CELL = {
    "cell": {"name": "recorded_real_time", "placement": "thread"},
    "realtime": {"priority": 0, "cpu": -2},
    "arms": {"arm": {"hand": False}},
    "controllets": {"joint_trajectory_controller": {"type": "joint_trajectory"}},
}


def test_frames_are_of_their_instants_even_if_the_program_was_late(tmp_path):
    path = tmp_path / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": CELL}}), encoding="utf-8")
    cameras = {"overview": (48, 64), "free": (48, 64)}
    env = CellEnv("reach", rate=RATE, cell=path, cameras=cameras)
    try:
        with EpisodeRecorder(env, tmp_path / "set", instruction="reach") as recorder:
            recorder.begin(0)
            for k in range(12):
                recorder.step([0.3, 0.0, -0.3, 0.0, 0.0, 0.0])
                if k == 5:
                    time.sleep(0.13)  # is late by more than a period
            recorder.end(success=False)
        episode = Dataset(tmp_path / "set")[0]
        instants = (episode["cell_time"] - episode["cell_time"][0]) * RATE
        # However slow the machine: whole periods may be missing, but none is off.
        assert np.abs(instants - np.round(instants)).max() < 0.02
        assert (np.diff(np.round(instants)) >= 1).all()
        assert np.array_equal(episode["picture_time"], episode["cell_time"])
        env.cell.hold()
        with pytest.raises(ActionRejected, match=r"arm/hold has arm, which was stopped"):
            env.step(env.hold_action())
    finally:
        env.close()
