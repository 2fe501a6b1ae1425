# SPDX-License-Identifier: Apache-2.0
"""Selection of polled cycles for publishing at a given rate."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.ros.topics.state_topic import Pace

pytestmark = pytest.mark.inline


@pytest.mark.parametrize(
    ("rate", "sent"), [(100.0, 100.0), (200.0, 100.0), (50.0, 50.0), (30.0, 30.0), (0.5, 0.5)]
)
@pytest.mark.parametrize("late", [0.0, 2e-3, 4e-3])
def test_rate_is_kept_despite_late_polls(rate, sent, late):
    seconds, pace = 20.0, Pace(rate)
    polls = np.arange(1.0, seconds, 0.01) + np.random.default_rng(3).uniform(0.0, late, 1900)
    found = sum(pace.is_due({"wake_ns": 1e9 * poll}) for poll in polls)
    assert found == pytest.approx(sent * (seconds - 1.0), rel=0.01, abs=1)


def test_no_burst_after_pause():
    pace = Pace(50.0)
    assert pace.is_due({"wake_ns": 1e9})
    polls = np.arange(9.0, 10.0, 0.01)
    assert sum(pace.is_due({"wake_ns": 1e9 * poll}) for poll in polls) == pytest.approx(50, abs=1)
