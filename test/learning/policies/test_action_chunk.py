# SPDX-License-Identifier: Apache-2.0
"""Actions belong to instants, chunks take over without a jump, and bad answers are named."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import PolicyFailed
from multipanda_py.learning.policies.runner import ActionChunk, ChunkPlayer, checked


def ramp(begin, slope, *, start=0.0, n=5, between=True):
    return ActionChunk(start + slope * np.arange(n)[:, None], begin, 0.1, between)


def test_absolute_actions_are_interpolated_and_steps_are_not():
    assert ramp(1.0, 1.0).sample(1.25) == pytest.approx([2.5])
    assert ramp(1.0, 1.0, between=False).sample(1.24) == pytest.approx([2.0])


@pytest.mark.parametrize("late", [-0.04, 0.0, 0.04])
def test_steps_at_uneven_instants_are_each_played_once(late):
    steps = ramp(0.0, 1.0, between=False)
    for k in range(5):
        assert steps.sample(0.1 * k + late) == pytest.approx([k])
        assert not steps.is_over(0.1 * k + late)
    assert steps.is_over(0.5 + late)


def test_the_last_action_holds_for_its_period_and_no_longer():
    one = ramp(1.0, 1.0)
    assert one.sample(1.49) == pytest.approx([4.0])
    assert not one.is_over(1.49)
    assert one.is_over(1.5)


def test_a_chunk_takes_over_without_a_jump_even_during_another_one_s_blend():
    player = ChunkPlayer(blend=0.2)
    player.add_chunk(ramp(0.0, 0.0, n=20), 0.0, np.array([1.0]))
    assert player.sample(0.0) == pytest.approx([1.0]), "from the hold"
    assert player.sample(0.1) == pytest.approx([0.5])
    player.add_chunk(ramp(0.1, 0.0, start=-2.0, n=20), 0.1, np.array([9.0]))
    assert player.sample(0.1) == pytest.approx([0.5]), "as it was"
    assert player.sample(0.2) == pytest.approx([-0.75])
    assert player.sample(0.3) == pytest.approx([-2.0])


def test_a_chunk_that_has_run_out_is_no_action():
    player = ChunkPlayer(blend=0.0)
    assert player.sample(0.0) is None
    player.add_chunk(ramp(0.0, 1.0), 0.2, np.zeros(1))
    assert player.sample(0.2) == pytest.approx([2.0]), "what is past is left out"
    assert player.sample(0.6) is None


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.zeros((4, 3)), r"\(4, 3\).*\(n, 2\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (np.zeros((1, 4, 2)), r"shape \(1, 4, 2\)"),
        ([[0.0, 1.0], [0.0, np.nan]], r"\b1\b.*\b1\b.*\bnan\b"),
        ([[0.0, np.inf]], r"\b1\b.*\b0\b.*\binf\b"),
        ([[0.0, 1.0], [0.0]], r"\blist\b"),
        ([[10**400, 1]], r"\bobject\b"),
        (np.ones((1, 2), complex), r"\bcomplex128\b"),
        ([["1", "2"]], "<U1"),
        (np.zeros((1, 2), "datetime64[D]"), "datetime64"),
        (np.ma.array([[1.0, 2.0]], mask=[[True, False]]), "masked"),
        ((one for one in [[1.0, 2.0]]), r"\bgenerator\b"),
        ("left", r"\bstr\b"),
    ],
)
def test_answers_that_are_no_chunk_are_named(answer, sentence):
    with pytest.raises(PolicyFailed, match=sentence):
        checked(answer, 2)


def test_one_action_is_a_chunk():
    assert checked([1, 2], 2).tolist() == [[1.0, 2.0]]
