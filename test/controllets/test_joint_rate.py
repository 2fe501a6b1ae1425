# SPDX-License-Identifier: Apache-2.0
"""Velocity commands of arms: applied, renewed, and stopped before limits."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

LAWS = {"rate": {"type": "joint_rate", "features": [""]}}


def make():
    return simple_cell(arms={"left": {"gripper": False}}, controllets=LAWS, active=["left/rate"])


def rows(cell, cycles, **target):
    found = []
    for k in range(cycles):
        if target and k % 50 == 0:
            cell.set_target("left", **target)
        cell.step(1)
        found.append(np.copy(cell.latest_record()["arms"][0]))
    return np.array(found)


def test_velocity_is_kept_while_renewed():
    with make() as cell:
        expected = np.array([0.3, -0.2, 0.1, 0.2, -0.3, 0.2, 0.4])
        found = rows(cell, 400, dq=expected)
        np.testing.assert_allclose(found["joint_command"][-1, 1], expected, atol=1e-9)
        np.testing.assert_allclose(found["dq"][-1], expected, atol=0.01)
        late = rows(cell, 300)  # no renewal
        assert not late["joint_command"][-1, 1].any()
        stopped = np.flatnonzero(~late["joint_command"][:, 1].any(axis=1))[0]
        assert 90 - 50 <= stopped <= 100 + 60


def test_joint_stops_before_limit_without_jerk():
    with make() as cell:
        limits = cell.descriptions["left"].limits
        expected = np.array([0, 0, 0, 0, 0, 0, 2.0])
        found = rows(cell, 2500, dq=expected)
        end = found["joint_command"][-1, 0, 6]
        assert limits.upper[6] - 0.05 - 1e-3 < end <= limits.upper[6] - 0.05
        rate = np.diff(found["joint_command"][:, 0, 6]) / 1e-3
        assert np.abs(np.diff(rate) / 1e-3).max() <= 10.0 * (1 + 1e-3)
        assert (np.diff(rate[-1000:]) <= 1e-6).all()  # it decelerates monotonically
        assert cell.state("left").fault == ""
