# SPDX-License-Identifier: Apache-2.0
"""Every rejection of a node is counted, for every service."""

from __future__ import annotations

from functools import partial

import parameters_of
import pytest
from controller_manager_msgs.srv import UnloadController
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.clock, pytest.mark.node]

put = partial(parameters_of.put, node="/left/franka")


@pytest.fixture
def counted(cell, client):
    """A function that returns the counts in diagnostics: parameters, and requests by service."""
    client.diagnosis(cell.name)
    client.forget_statuses()  # drops counts of earlier tests

    def look():
        values = client.diagnosis(cell.name)[1]
        pairs = [item.rpartition(" ") for item in values["requests answered by no"].split(", ")]
        by_service = {name: int(count) for name, _, count in pairs if name}
        return int(values["rejected parameters"]), by_service

    return look


@pytest.mark.long
def test_service_rejection_was_not_counted(counted, client):
    _, before = counted()
    unload = "left/controller_manager/unload_controller"
    law = "cartesian_impedance_controller"  # active, in control of the arm
    assert not client.call(UnloadController, unload, name=law).ok
    assert not client.call(Trigger, "left/tare").success
    assert client.call(Trigger, "left/gripper/stop").success
    expected = dict(before)
    for name in (unload, "left/tare"):
        expected[name] = expected.get(name, 0) + 1
    client.until(lambda: counted()[1] == expected, 5.0, f"{expected}")


@pytest.mark.long
def test_rejected_robot_setting_was_not_in_diagnostics(counted, client):
    before, _ = counted()
    assert not put(client, load_mass=-1.0).successful
    assert not put(client, load_mass=0.5).successful  # rejected while a controllet is active
    client.until(lambda: counted()[0] == before + 2, 5.0, "two more rejections")
