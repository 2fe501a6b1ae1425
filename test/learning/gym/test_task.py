# SPDX-License-Identifier: Apache-2.0
"""Faults of tasks of users: they are reported and give no training data."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError, TaskFailed, UnknownName
from multipanda_py.learning.gym import CellEnv, GymTask

pytestmark = pytest.mark.sim


class Own(GymTask):
    """Task with replaceable return values."""

    arms = {"arm": {"gripper": False}}
    goal_size = 3
    drawn, prize, done = (0.4, 0.0, 0.5), 0.3, False

    def reset(self, scene, random):
        return self.drawn

    def reward(self, scene):
        return self.prize

    def is_success(self, scene):
        return self.done


@pytest.fixture(scope="module")
def env():
    made = CellEnv(Own())
    yield made
    made.close()


@pytest.fixture
def task(env):
    yield env.task
    vars(env.task).clear()


@pytest.mark.parametrize(
    ("drawn", "reported"),
    [(None, "None"), ([0.4, np.nan, 0.5], "nan"), ([0.4, 0.5], "0.5"), (["a", "b", "c"], "'a'"),
     ([[0.4, 0.0, 0.5]], "0.4")],
)  # fmt: skip
def test_invalid_goal_was_observed_as_nan(env, task, drawn, reported):
    task.drawn = drawn
    with pytest.raises(TaskFailed, match=r"^Own\.reset: .* 3\b") as error:
        env.reset(seed=0)
    assert reported in str(error.value)


@pytest.mark.parametrize("prize", [np.nan, np.inf, None, "much", [0.3], 1j])
def test_non_finite_reward_was_accepted(env, task, prize):
    env.reset(seed=0)
    task.prize = prize
    with pytest.raises(TaskFailed, match=r"^Own\.reward: "):
        env.step(env.hold_action())
    task.prize = np.float32(0.25)
    assert env.step(env.hold_action())[1] == 0.25


@pytest.mark.parametrize("done", [None, "no", 0.3, 1, np.array([True])])
def test_missing_return_of_is_success_never_ended_task(env, task, done):
    env.reset(seed=0)
    task.done = done
    with pytest.raises(TaskFailed, match=r"^Own\.is_success: .*True.*False"):
        env.step(env.hold_action())
    task.done = np.True_
    assert env.step(env.hold_action())[2] is True


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [("arms", ["arm"], "sections by name"), ("arms", {}, "sections by name"),
     ("objects", "box", "sections by name"), ("params", None, "sections by name"),
     ("goal_size", -1, "whole numbers"), ("goal_size", 2.5, "whole numbers"),
     ("goal_size", True, "whole numbers"),
     ("time_limit", 0.0, "more than 0 s"), ("time_limit", "5", "more than 0 s"),
     ("time_limit", np.nan, "more than 0")],
)  # fmt: skip
def test_attribute_of_wrong_type_raised_python_error(name, value, allowed):
    wrong = type("Mistaken", (Own,), {name: value})
    with pytest.raises(ConfigurationError, match=rf"^Mistaken\.{name}: got.*\b{allowed}"):
        CellEnv(wrong())


def test_unknown_scene_object_raised_bare_key_error(env):
    env.reset(seed=0)
    with pytest.raises(UnknownName, match="'tabel'"):
        env.scene.object_pose("tabel")
    for ask in (env.scene.tool_pose, env.scene.force, env.scene.gripper_opening):
        with pytest.raises(UnknownName, match=r"\barm 'left'.*\barm\b"):
            ask("left")
