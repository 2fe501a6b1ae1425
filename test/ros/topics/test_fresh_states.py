# SPDX-License-Identifier: Apache-2.0
"""Which of the cycles that are looked at are sent."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.ros.topics.state_topic import Pace

pytestmark = pytest.mark.inline


@pytest.mark.parametrize(
    ("rate", "sent"), [(100.0, 100.0), (200.0, 100.0), (50.0, 50.0), (30.0, 30.0), (0.5, 0.5)]
)
@pytest.mark.parametrize("late", [0.0, 2e-3, 4e-3])
def test_a_rate_is_kept_to_though_looks_are_late(rate, sent, late):
    seconds, pace = 20.0, Pace(rate)
    looks = np.arange(1.0, seconds, 0.01) + np.random.default_rng(3).uniform(0.0, late, 1900)
    found = sum(pace.is_due({"wake_ns": 1e9 * look}) for look in looks)
    assert found == pytest.approx(sent * (seconds - 1.0), rel=0.01, abs=1)


def test_after_a_pause_nothing_is_caught_up_with():
    pace = Pace(50.0)
    assert pace.is_due({"wake_ns": 1e9})
    looks = np.arange(9.0, 10.0, 0.01)
    assert sum(pace.is_due({"wake_ns": 1e9 * look}) for look in looks) == pytest.approx(50, abs=1)
