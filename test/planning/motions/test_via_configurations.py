# SPDX-License-Identifier: Apache-2.0
"""Joint motions through via configurations: path and speed."""

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


def configurations_from(q):
    return [
        q,
        q + [0.3, 0.1, 0.0, 0.2, 0.0, -0.2, 0.1],
        q + [0.6, 0.15, 0.0, 0.0, 0.2, -0.1, 0.5],
        q + [0.61, 0.15, 0.0, 0.0, 0.2, -0.1, 0.5],  # very short segment
    ]


@pytest.mark.sim
def test_arm_passes_configurations_at_fraction_of_limits(cell):
    limits = cell.descriptions["left"].limits
    configurations = configurations_from(cell.state("left").q)
    points = via_configurations(configurations, limits, speed=0.4)
    assert points[:, 1:8] == pytest.approx(np.array(configurations))
    cell.follow_trajectory("left", points)
    q = []
    for _ in range(round(points[-1, 0] / STEP) + 100):
        cell.step(1)
        q.append(cell.state("left").q)
    q = np.array(q)
    for configuration in configurations:
        assert np.abs(q - configuration).max(axis=1).min() < 5e-3
    assert np.abs(q[-1] - configurations[-1]).max() < 2e-3
    fraction = np.abs(np.diff(q, axis=0) / STEP / limits.velocity).max()
    assert fraction < 0.4 * 1.05
    intermediate = points[1:-1, 8:15]
    assert np.abs(intermediate[0]).max() > 0.05  # no stop


@pytest.mark.sim
def test_double_speed_takes_half_duration(cell):
    limits = cell.descriptions["left"].limits
    configurations = configurations_from(cell.state("left").q)
    slow, fast = (
        via_configurations(configurations, limits, speed=fraction)[-1, 0]
        for fraction in (0.3, 0.6)
    )
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
def test_invalid_motion_is_refused(make_cell, change, speed, reason):
    cell = make_cell()
    cell.step(1)
    q, limits = cell.state("left").q, cell.descriptions["left"].limits
    with pytest.raises(PlanRejected, match=reason):
        via_configurations([q, *([q] if change is None else change)], limits, speed=speed)
