# SPDX-License-Identifier: Apache-2.0
"""Examples and tables of doc/gym.md."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium
import pytest

from multipanda_py.learning.gym.control import CONTROLS
from multipanda_py.learning.gym.task import BUILT_IN

pytestmark = pytest.mark.inline

PAGE = (Path(__file__).parents[3] / "doc" / "gym.md").read_text(encoding="utf-8")


def test_page_lists_all_tasks_and_controls():
    named = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert set(BUILT_IN) <= named
    assert set(CONTROLS) <= named


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_examples_of_gym_page_run(block):
    names = {}
    exec("import gymnasium, multipanda_py.learning.gym\n" + block, names)
    env = names["env"]
    try:
        observed, _ = env.reset(seed=1)
        assert env.observation_space.contains(observed)
        assert isinstance(env, gymnasium.Env)
        env.step(env.action_space.sample())
    finally:
        env.close()
