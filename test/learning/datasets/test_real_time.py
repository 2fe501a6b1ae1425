# SPDX-License-Identifier: Apache-2.0
"""Frames and images of arms in real time belong to their instants."""

import numpy as np
import pytest
import yaml

from multipanda_py.exceptions import ActionRejected
from multipanda_py.learning.datasets import Dataset, EpisodeRecorder
from multipanda_py.learning.datasets.replay import check
from multipanda_py.learning.gym import CellEnv

pytestmark = [pytest.mark.sim, pytest.mark.inline]
RATE = 10.0
CELL = {
    "cell": {"name": "recorded_real_time", "placement": "thread"},
    "realtime": {"priority": 0, "cpu": -2},
    "arms": {"arm": {"gripper": False}},
    "controllets": {"joint_trajectory_controller": {"type": "joint_trajectory"}},
}


def episode_names(folder):
    """Return the names of the components of a state."""
    return Dataset(folder).info["features"]["observation.state"]["names"]


@pytest.mark.long
def test_every_instant_has_its_frame_after_late_step(tmp_path):
    """A stall of three periods once shifted all later frames."""
    path = tmp_path / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": CELL}}), encoding="utf-8")
    cameras = {"overview": (48, 64), "free": (48, 64)}
    env = CellEnv("reach", rate=RATE, cell=path, cameras=cameras)
    try:
        with EpisodeRecorder(env, tmp_path / "set", instruction="reach") as recorder:
            recorder.start_episode(0)
            for k in range(12):
                recorder.step([0.3, 0.0, -0.3, 0.0, 0.0, 0.0])
                if k == 5:
                    stall_end = env.cell.time + 0.35
                    env.cell.wait(lambda until=stall_end: env.cell.time > until, 10.0, "late")
            recorder.end(success=False)
            assert recorder.held >= 2
        episode = Dataset(tmp_path / "set")[0]
        assert len(episode) == 12 + recorder.held
        # On a slow machine as well, no frame is missing or shifted.
        assert episode.skew < 0.002
        assert check(Dataset(tmp_path / "set")) == []
        assert np.array_equal(episode["image_time"], episode["cell_time"])
        # During the stall there is no action and the target stays; then both continue.
        acted = np.abs(episode["action"]).sum(1) > 0.0
        assert (~acted).sum() == recorder.held
        names = episode_names(tmp_path / "set")
        target = episode["observation.state"][:, [n.startswith("arm.target") for n in names]]
        moved = np.abs(np.diff(target, axis=0)).max(1) > 1e-6
        assert np.array_equal(moved, acted[:-1])
        env.cell.hold()
        with pytest.raises(ActionRejected, match=r"\barm/hold\b.*\barm\b"):
            env.step(env.hold_action())
    finally:
        env.close()
