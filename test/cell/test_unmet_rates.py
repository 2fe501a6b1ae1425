# SPDX-License-Identifier: Apache-2.0
"""Rates that a node cannot have are named; those that nobody asked for are not."""

from __future__ import annotations

import pytest

from multipanda_py.cell.unmet_rates import unmet_rates
from multipanda_py.config.cell_file import CellConfig

pytestmark = pytest.mark.inline


def rates(**cell):
    return unmet_rates(CellConfig.from_dict({"arms": {"left": {}}, "cell": cell}))


def test_transforms_asked_for_at_200_hz_came_at_100_without_a_word():
    assert rates(tf_rate=200.0) == [
        "cell.tf_rate: got 200 Hz, is 100 Hz: no more than cell.joint_state_rate"
    ]
    assert not rates(tf_rate=200.0, joint_state_rate=200.0)
    assert not rates(joint_state_rate=20.0)


def test_no_state_is_sent_twice():
    assert rates(rate=100.0, joint_state_rate=500.0, introspection_rate=500.0) == [
        f"cell.{name}: got 500 Hz, is 100 Hz: no more than cell.rate"
        for name in ("joint_state_rate", "introspection_rate")
    ]
