# SPDX-License-Identifier: Apache-2.0
"""What a node refuses is counted, whoever refuses and whatever service it is."""

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
    """A function that returns what diagnostics have counted: parameters, and by service."""
    client.diagnosis(cell.name)
    client.forget_statuses()  # what other tests were told

    def look():
        values = client.diagnosis(cell.name)[1]
        pairs = [item.rpartition(" ") for item in values["requests answered by no"].split(", ")]
        by_service = {name: int(count) for name, _, count in pairs if name}
        return int(values["rejected parameters"]), by_service

    return look


@pytest.mark.long
def test_a_no_of_a_service_was_counted_nowhere(counted, client):
    _, before = counted()
    unload = "left/controller_manager/unload_controller"
    law = "cartesian_impedance_controller"  # is active, and has the arm
    assert not client.call(UnloadController, unload, name=law).ok
    assert not client.call(Trigger, "left/tare").success
    assert client.call(Trigger, "left/gripper/stop").success
    expected = dict(before)
    for name in (unload, "left/tare"):
        expected[name] = expected.get(name, 0) + 1
    client.until(lambda: counted()[1] == expected, 5.0, f"{expected}")


@pytest.mark.long
def test_a_refused_setting_of_a_robot_was_not_in_diagnostics(counted, client):
    before, _ = counted()
    assert not put(client, load_mass=-1.0).successful
    assert not put(client, load_mass=0.5).successful  # not while a law has the arm
    client.until(lambda: counted()[0] == before + 2, 5.0, "two more")
