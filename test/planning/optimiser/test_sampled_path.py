# SPDX-License-Identifier: Apache-2.0
"""Sampled paths around obstacles in a plane."""

from __future__ import annotations

import time

import numpy as np
import pytest

from multipanda_py.planning.optimiser.path_search import CHECK_STEP, along, plan_sampled

pytestmark = pytest.mark.inline
BOUNDS = (np.full(2, -2.0), np.full(2, 2.0))
BEGIN, END = np.array([-1.0, 0.0]), np.array([1.0, 0.0])
PARTS = [slice(0, 1), slice(1, 2)]


class Wall:
    """Wall with one hole in a plane, in place of configurations in collision."""

    def __init__(self, hole):
        self.hole, self.requested = hole, 0

    def is_free(self, q):
        self.requested += 1
        low, high = self.hole
        return abs(q[0]) > 0.2 or low < q[1] < high

    def is_segment_free(self, begin, end, step):
        count = max(1, int(np.ceil(np.abs(end - begin).max() / step)))
        return all(self.is_free(begin + (end - begin) * k / count) for k in range(1, count + 1))


def plan(wall, seed=0, seconds=60.0):
    until = time.monotonic() + seconds
    return plan_sampled(wall, BEGIN, END, BOUNDS, PARTS, np.random.default_rng(seed), until)


def test_free_path_is_straight():
    assert plan(Wall((-1.0, 1.0))) == pytest.approx(np.array([BEGIN, END]))


def test_arms_move_one_after_another_if_sufficient():
    class Corner(Wall):
        def is_free(self, q):
            return not (abs(q[0]) < 0.5 and abs(q[1] - 0.5) < 0.2)

    begin, end = np.array([-1.0, 0.0]), np.array([1.0, 1.0])
    found = plan_sampled(
        Corner((0.0, 0.0)), begin, end, BOUNDS, PARTS, np.random.default_rng(0), np.inf
    )
    assert found == pytest.approx(np.array([begin, [1.0, 0.0], [1.0, 1.0]]))


@pytest.mark.parametrize("seed", range(5))
def test_path_through_hole_is_free_and_short(seed):
    wall = Wall((1.0, 1.5))
    corners = plan(wall, seed)
    assert corners[0] == pytest.approx(BEGIN)
    assert corners[-1] == pytest.approx(END)
    fine = along(corners, np.linspace(0.0, 1.0, 2000))
    off = np.abs(fine[:, 1] - np.clip(fine[:, 1], 1.0, 1.5))
    assert off[np.abs(fine[:, 0]) < 0.2].max() < CHECK_STEP
    length = np.linalg.norm(np.diff(corners, axis=0), axis=1).sum()
    shortest = 2 * np.hypot(0.8, 1.0) + 0.4
    assert length < 1.5 * shortest
    assert plan(Wall((1.0, 1.5)), seed) == pytest.approx(corners, abs=0.0)  # reproducible


@pytest.mark.long
def test_search_without_solution_ends():
    assert plan(Wall((3.0, 4.0)), seconds=0.2) is None
    closed = Wall((3.0, 4.0))
    begin = np.zeros(2)
    assert (
        plan_sampled(closed, begin, END, BOUNDS, PARTS, np.random.default_rng(0), np.inf) is None
    )
    assert closed.requested == 1  # an occupied start ends the search at once


def test_fractions_of_path_are_fractions_of_length():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 3.0]])
    found = along(corners, np.array([0.0, 0.25, 0.5, 1.0]))
    assert found == pytest.approx(np.array([[0, 0], [1, 0], [1, 1], [1, 3]]))
    assert along(corners[:1], np.array([0.3])) == pytest.approx(corners[:1])
