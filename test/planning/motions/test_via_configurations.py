# SPDX-License-Identifier: Apache-2.0
"""Motions of joints through postures: where they pass, and how fast."""

from __future__ import annotations

import numpy as np
import pytest
from cell_names import TRAJECTORY

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.paths import via_configurations

STEP = 1e-3


@pytest.fixture
def cell(make_cell):
    laws = {TRAJECTORY: {"type": "joint_trajectory"}}
    made = make_cell(None, laws, [f"{arm}/{TRAJECTORY}" for arm in ("left", "right")])
    made.step(5)
    return made


def ways_from(q):
    return [
        q,
        q + [0.3, 0.1, 0.0, 0.2, 0.0, -0.2, 0.1],
        q + [0.6, 0.15, 0.0, 0.0, 0.2, -0.1, 0.5],
        q + [0.61, 0.15, 0.0, 0.0, 0.2, -0.1, 0.5],  # hardly moves
    ]


@pytest.mark.sim
def test_an_arm_passes_its_postures_and_keeps_to_its_share_of_the_limits(cell):
    limits = cell.descriptions["left"].limits
    postures = ways_from(cell.state("left").q)
    points = via_configurations(postures, limits, speed=0.4)
    assert points[:, 1:8] == pytest.approx(np.array(postures))
    cell.follow_trajectory("left", points)
    q = []
    for _ in range(round(points[-1, 0] / STEP) + 100):
        cell.step(1)
        q.append(cell.state("left").q)
    q = np.array(q)
    for posture in postures:
        assert np.abs(q - posture).max(axis=1).min() < 5e-3
    assert np.abs(q[-1] - postures[-1]).max() < 2e-3
    share = np.abs(np.diff(q, axis=0) / STEP / limits.velocity).max()
    assert share < 0.4 * 1.05
    on_the_way = points[1:-1, 8:15]
    assert np.abs(on_the_way[0]).max() > 0.05  # no stop


@pytest.mark.sim
def test_twice_the_speed_takes_half_the_time(cell):
    limits = cell.descriptions["left"].limits
    postures = ways_from(cell.state("left").q)
    slow, fast = (via_configurations(postures, limits, speed=share)[-1, 0] for share in (0.3, 0.6))
    assert slow == pytest.approx(2.0 * fast)


@pytest.mark.inline
@pytest.mark.parametrize(
    ("change", "speed", "reason"),
    [
        ([], 0.5, "configurations: got"),
        ([np.zeros(3)], 0.5, r"(?s)^configurations: .*\b2\b.*\b7\b"),
        ([np.full(7, np.nan)], 0.5, r"(?s)^configurations: .*\b2\b.*\b7\b"),
        ([np.zeros(7)], 0.5, r"^configuration 1: joint 4: .*0\.0000 rad"),
        (None, 0.5, "all configurations are equal"),
        (None, 1.2, "speed: got 1.2"),
    ],
)
def test_what_is_no_motion_is_refused(make_cell, change, speed, reason):
    cell = make_cell()
    cell.step(1)
    q, limits = cell.state("left").q, cell.descriptions["left"].limits
    with pytest.raises(PlanRejected, match=reason):
        via_configurations([q, *([q] if change is None else change)], limits, speed=speed)
