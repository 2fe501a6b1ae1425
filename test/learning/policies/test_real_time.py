# SPDX-License-Identifier: Apache-2.0
"""Stalled policy on a cell in real time: steps continue and the arm holds."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import yaml

from multipanda_py.learning.gym import CellEnv
from multipanda_py.learning.policies import PolicyRunner, ThreadInference

CELL = {
    "cell": {"name": "policy_real_time", "placement": "thread"},
    "realtime": {"priority": 0, "cpu": -2},
    "arms": {"arm": {"gripper": False}},
    "controllets": {"joint_trajectory_controller": {"type": "joint_trajectory"}},
}


def test_stalled_policy_is_reported_and_arm_holds(tmp_path):
    path = tmp_path / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": CELL}}), encoding="utf-8")
    go, requested = threading.Event(), []

    def policy(observed):
        requested.append(1)
        if len(requested) > 2:
            go.wait(60.0)
        poses = np.repeat(observed["arm"]["target"][None, :], 10, axis=0)
        poses[:, 2] -= 0.002 * np.arange(10)
        return poses

    env = CellEnv("reach", control="pose", rate=20.0, cell=path)
    inference = ThreadInference(policy)
    try:
        runner = PolicyRunner(env, inference, rate=20.0, timeout=0.6)
        info = runner.run(seed=0)
        assert info["policy"].startswith("policy: no answer for 0.")
        assert info["policy"].endswith("s, allowed 0.6 s")
        assert not info["fault"]
        moved = runner.log["arm/target"][:, 2]
        assert moved[0] - moved[-1] > 0.005, "the arm moved before the stall"
        target = moved[-1]
        env.cell.wait(lambda: np.abs(env.cell.state("arm").dq).max() < 0.01, 20.0, "rest")
        rest = env.cell.time
        env.cell.wait(lambda: env.cell.time > rest + 0.1, 20.0, "an arm that holds")
        assert env.cell.pose("arm").position[2] == pytest.approx(target, abs=0.02)
    finally:
        go.set()
        inference.close()
        env.close()
