# SPDX-License-Identifier: Apache-2.0
"""An arm is tared by a service, while the node goes on."""

from __future__ import annotations

import re

import pytest
from cell_names import LEFT_CARTESIAN
from std_srvs.srv import Trigger

pytestmark = pytest.mark.node


@pytest.fixture
def held(cell, client):
    """The left arm holds, and is not tared afterwards."""
    assert client.switch([], [LEFT_CARTESIAN]).ok
    yield cell
    client.switch([], [LEFT_CARTESIAN], strictness=1)
    assert client.call(Trigger, "/left/untare").success


def test_tared_and_untared(held, client):
    tare = client.node.create_client(Trigger, "/left/tare")
    client.until(tare.service_is_ready, what="the service")
    future = tare.call_async(Trigger.Request())
    assert client.call(Trigger, "/right/error_recovery").message == "no fault on right"
    assert not future.done(), "others are served while it is measured"
    client.until(future.done, what="an answer")
    answer = future.result()
    assert answer.success, answer.message
    assert re.match(r"left: \[.*\d\] Nm\b", answer.message)
    held.wait_for("tared (left): tared: ")
    assert "tare [Nm]" in client.diagnosis(f"{held.name}/left")[1]
    assert client.call(Trigger, "/left/untare").message.startswith("left: ")


def test_refused_with_the_reason(cell, client):
    answer = client.call(Trigger, "/left/tare")
    assert not answer.success
    assert f"left follows {LEFT_CARTESIAN}" in answer.message
