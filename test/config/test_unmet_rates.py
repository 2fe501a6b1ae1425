# SPDX-License-Identifier: Apache-2.0
"""Rates that a node cannot have are named; those that nobody asked for are not."""

from __future__ import annotations

import re

import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.checks import check_rates

pytestmark = pytest.mark.inline


def rates(**cell):
    return check_rates(CellConfig.from_dict({"arms": {"left": {}}, "cell": cell}))


def test_transforms_asked_for_at_200_hz_came_at_100_without_a_word():
    (sentence,) = rates(tf_rate=200.0)
    assert re.match(r"cell\.tf_rate: .*\b200 Hz.*\b100 Hz.*\bjoint_state_rate", sentence)
    assert not rates(tf_rate=200.0, joint_state_rate=200.0)
    assert not rates(joint_state_rate=20.0)


def test_no_state_is_sent_twice():
    said = rates(rate=100.0, joint_state_rate=500.0, introspection_rate=500.0)
    for name, sentence in zip(("joint_state_rate", "introspection_rate"), said, strict=True):
        assert re.match(rf"cell\.{name}: .*\b500 Hz.*\b100 Hz.*\bcell\.rate", sentence)
