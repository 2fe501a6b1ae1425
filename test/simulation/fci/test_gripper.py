# SPDX-License-Identifier: Apache-2.0
"""Simulated gripper with a client of libfranka."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.clock


@pytest.mark.long
def test_gripper_homes_moves_and_grasps(sim, client, address):
    found = client("gripper", address=address)
    assert found["version"] == 3
    assert found["max_width"] == pytest.approx(0.08)
    assert found["homing"] is True
    assert found["move"] is True
    assert found["width"] == pytest.approx(0.03)
    assert (found["miss"], found["miss_held"]) == (False, False)
    assert (found["grasp"], found["held"]) == (True, True)
    assert found["held_width"] == pytest.approx(0.05)
    assert found["wrong_width"] is False
    assert found["blocked"] is False
    assert found["stop"] is True
    assert found["too_strong"]["type"] == "CommandException"
    assert found["impossible"]["type"] == "CommandException"
