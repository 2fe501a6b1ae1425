# SPDX-License-Identifier: Apache-2.0
"""Environment on a cell in real time, and several environments in processes."""

from __future__ import annotations

import os
import time

import gymnasium
import numpy as np
import pytest
import yaml

from multipanda_py.exceptions import ActionRejected, ConfigurationError, LoopError, MotionFailed
from multipanda_py.learning.gym import CellEnv, GymTask

CELL = {
    "cell": {"name": "gym_real_time", "placement": "thread"},
    "realtime": {"priority": 0, "cpu": -2},
    "arms": {"arm": {"gripper": False}},
    "controllets": {"joint_trajectory_controller": {"type": "joint_trajectory"}},
}


def written(folder, data):
    path = folder / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": data}}), encoding="utf-8")
    return path


@pytest.mark.slow
def test_step_rate_is_kept_in_real_time(tmp_path):
    env = CellEnv("reach", cell=written(tmp_path, CELL), rate=20.0)
    try:
        env.reset(seed=0)
        first, begun = env.scene.tool_pose("arm").position, time.monotonic()
        for _ in range(10):
            observed, _, _, _, info = env.step(env.expert_action())
        took = time.monotonic() - begun
        assert not info["fault"]
        assert took > 0.45, "each step waits for its instant"
        goal = env.scene.goal
        assert env.scene.distance(observed["arm"]["pose"][:3], goal) < env.scene.distance(
            first, goal
        )
        env.reset(seed=1)  # The reset returns the arm to its start.
        assert env.cell.state("arm").q == pytest.approx(
            env.cell.config.arms["arm"].q_start, abs=0.02
        )
    finally:
        env.close()


@pytest.mark.clock
def test_stalled_policy_leaves_arm_holding(tmp_path):
    env = CellEnv("reach", cell=written(tmp_path, CELL))
    try:
        env.reset(seed=0)
        for _ in range(8):
            env.step([1.0, 0.0, -1.0, 0.0, 0.0, 0.0])
        reported = []

        def is_stale():
            reported.extend(str(event) for event in env.cell.events())
            return any("stale" in one for one in reported)

        env.cell.wait(is_stale, 20.0, "the end of the stream")
        env.cell.wait(lambda: np.abs(env.cell.state("arm").dq).max() < 0.01, 20.0, "rest")
        held = env.cell.state("arm").q
        with pytest.raises(LoopError, match=r"^step: .*\b\d+\.\d+ s\b"):
            env.step(np.zeros(6))  # A step without this check moved the arm to a stale target.
        began = env.cell.time
        env.cell.wait(lambda: env.cell.time > began + 0.2, 20.0, "the arm that holds")
        assert env.cell.state("arm").q == pytest.approx(held, abs=1e-3)
    finally:
        env.close()


@pytest.mark.long
@pytest.mark.clock
def test_stopped_arm_was_lost_without_reason(tmp_path):
    sensitive = {name: [5.0] * 6 for name in ("upper_force_thresholds", "lower_force_thresholds")}
    block = {"shape": "box", "size": [0.1, 0.1, 0.05], "position": [0.31, 0.0, 0.48]}
    cell = CELL | {"arms": {"arm": {"gripper": False, "franka": sensitive}}}
    cell["cell"] = {"name": f"gym_stopped_{os.getpid()}", "placement": "process"}
    cell["objects"] = {"block": block}
    env = CellEnv("reach", cell=written(tmp_path, cell), features=["coriolis"])
    try:
        env.reset(seed=0)
        for _ in range(40):
            _, _, ends, _, info = env.step([0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
            if ends:
                break
        assert "cartesian_reflex" in info["fault"]
        with pytest.raises(MotionFailed, match=r"^reset: arm: arm_stopped.*\breflex:.*'recover'"):
            env.reset(seed=0)
        for options in ("x", {"recover": 1}):
            with pytest.raises(ConfigurationError, match="options: got "):
                env.reset(seed=0, options=options)
        _, info = env.reset(seed=0, options={"recover": True})
        assert not info["fault"]
        assert not env.step(np.zeros(6))[4]["fault"]
    finally:
        env.close()


class Taken(GymTask):
    """Task in which the cell is stopped during the second step."""

    arms = {"arm": {"gripper": False}}
    goal_size = 1
    looks = 0

    def reset(self, scene, random):
        return [0.0]

    def reward(self, scene):
        return 0.0

    def is_success(self, scene):
        self.looks += 1
        if self.looks == 3:
            scene.cell.hold()
            scene.cell.wait(lambda: scene.cell.state("arm").owner == "arm/hold", 20.0, "hold")
        return False


def test_step_reported_no_fault_when_arm_was_stopped(tmp_path):
    env = CellEnv(Taken(), cell=written(tmp_path, CELL))
    try:
        with pytest.raises(ActionRejected, match=r"^expert_action: "):
            env.expert_action()
        env.reset(seed=0)
        assert not env.step(np.zeros(6))[2]
        _, _, ends, _, info = env.step(np.zeros(6))
        assert ends
        assert info["fault"].startswith("arm/hold ")
        with pytest.raises(ActionRejected, match=r"\barm/hold\b"):
            env.step(np.zeros(6))
    finally:
        env.close()


def test_cell_without_arms_of_task_is_rejected(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\barm\b.*\bReachTwo\b.*left, right"):
        CellEnv("reach_two", cell=written(tmp_path, CELL))


def test_randomisation_requires_lockstep(tmp_path):
    with pytest.raises(ConfigurationError, match=r"^randomise: .*lockstep"):
        CellEnv("reach", cell=written(tmp_path, CELL), randomise={"seed": 1})


def test_vectorised_environment_equals_single_environment():
    envs = gymnasium.make_vec(
        "multipanda_py.learning.gym:multipanda/reach-v0", 2, vectorization_mode="async",
        vector_kwargs={"context": "spawn"},
    )  # fmt: skip
    alone = CellEnv("reach")
    try:
        envs.reset(seed=[3, 4])
        alone.reset(seed=4)
        action = np.array([0.5, 0.0, -0.5, 0.0, 0.2, 0.0], np.float32)
        for _ in range(3):
            observed, rewards, *_ = envs.step(np.stack([0.0 * action, action]))
            own, reward, *_ = alone.step(action)
        assert np.array_equal(observed["arm"]["q"][1], own["arm"]["q"])
        assert rewards[1] == pytest.approx(reward)
    finally:
        envs.close()
        alone.close()
