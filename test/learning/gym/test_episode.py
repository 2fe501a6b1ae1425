# SPDX-License-Identifier: Apache-2.0
"""Restored episodes continue to the last bit; arms apply a trained residual."""

from __future__ import annotations

import numpy as np
import pytest
from residual_weights import write_residual

from multipanda_py.exceptions import ActionRejected, SimulationRejected, UnknownName
from multipanda_py.learning.gym import CellEnv, GymTask
from multipanda_py.robots import ArmDescription

pytestmark = pytest.mark.sim


class Counting(GymTask):
    """Task with a state and with random numbers drawn during an episode."""

    arms = {"arm": {"noise": {"q": 1e-5}}}
    objects = {
        "ball": {"shape": "sphere", "size": [0.03], "position": [0.5, 0.2, 0.3], "mass": 0.1}
    }
    goal_size = 1

    def reset(self, scene, random):
        self.random, self.observed = random, []
        return random.uniform(size=1)

    def reward(self, scene):
        self.observed.append(self.random.uniform())
        return self.observed[-1] / (1 + len(self.observed))

    def is_success(self, scene):
        return False


@pytest.fixture
def env():
    env = CellEnv(Counting(), features=["nullspace"])
    yield env
    env.close()


def flat(observed):
    parts = [flat(part) if isinstance(part, dict) else part.ravel() for part in observed.values()]
    return np.concatenate(parts)


def ahead(env, actions):
    rows = []
    for action in actions:
        observed, reward, *_, info = env.step(action)
        rows.append([*flat(observed), reward, info["time"]])
    return np.array(rows)


def test_restored_episode_continues_to_last_bit(env):
    env.reset(seed=5)
    random = np.random.default_rng(1)
    moves = random.uniform(-1.0, 1.0, (12, 7))
    moves[:, 6] = 0.1  # The gripper closes while the state is saved.
    ahead(env, moves[:3])
    state, time = env.save(), env.cell.time
    first = ahead(env, moves[3:])
    steps, drawn = env.steps, env.np_random.uniform()
    ahead(env, -moves[:4])  # Motion away from the saved state.
    assert env.restore(state)[1]["time"] == time
    assert np.array_equal(ahead(env, moves[3:]), first)
    assert (env.steps, env.np_random.uniform()) == (steps, drawn)
    assert first[-1, 0] != first[0, 0], "the arm moves"
    env.reset(seed=6)
    env.restore(state)
    assert np.array_equal(ahead(env, moves[3:]), first), (
        "the state also restores from another episode"
    )


def test_save_and_restore_keep_state_without_fault(env):
    env.reset(seed=5)
    still = np.array([0.3, 0.0, 0.3, 0.0, 0.0, 0.0, 0.9])
    ahead(env, [still] * 3)
    tool = env.scene.tool_pose("arm").position
    env.save()
    _, info = env.restore(env.save())
    assert env.scene.tool_pose("arm").position == pytest.approx(tool, abs=1e-12)
    assert not info["fault"]


def test_foreign_or_missing_state_is_rejected(env):
    with pytest.raises(ActionRejected, match=r"^save: "):
        env.save()
    other = CellEnv(Counting(), features=["nullspace"])
    try:
        other.reset(seed=0)
        state = other.save()
        env.reset(seed=0)
        with pytest.raises(SimulationRejected, match=r"^reset: "):
            env.restore(state)
    finally:
        other.close()


def test_trained_residual_changes_arm_motion(tmp_path):
    write_residual(tmp_path / "weights.npz", ArmDescription("arm").robot)
    shown = CellEnv("reach", residual={"arm": tmp_path / "weights.npz"})
    plain = CellEnv("reach")
    try:
        first, second = (one.reset(seed=3)[0]["arm"]["q"] for one in (shown, plain))
        for _ in range(16):  # Networks need a history of 0.5 s.
            first, second = (one.step([0.3] * 6)[0]["arm"]["q"] for one in (shown, plain))
        assert np.abs(first - second).max() > 1e-4
        assert shown.cell.config.arms["arm"].residual.state == str(tmp_path / "weights.npz")
    finally:
        shown.close()
        plain.close()
    with pytest.raises(UnknownName, match=r"arm 'left'.*known: arm"):
        CellEnv("reach", residual={"left": tmp_path / "weights.npz"})
