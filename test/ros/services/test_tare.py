# SPDX-License-Identifier: Apache-2.0
"""Tare of an arm by a service, during which the node serves other requests."""

from __future__ import annotations

import re

import pytest
from cell_names import LEFT_CARTESIAN
from std_srvs.srv import Trigger

pytestmark = pytest.mark.node


@pytest.fixture
def held(cell, client):
    """The left arm in hold; teardown clears the tare."""
    assert client.switch([], [LEFT_CARTESIAN]).ok
    yield cell
    client.switch([], [LEFT_CARTESIAN], strictness=1)
    assert client.call(Trigger, "/left/untare").success


def test_tare_and_clear(held, client):
    tare = client.node.create_client(Trigger, "/left/tare")
    client.until(tare.service_is_ready, what="the service")
    future = tare.call_async(Trigger.Request())
    assert client.call(Trigger, "/right/error_recovery").message == "no fault on right"
    assert not future.done(), "other requests are served during the measurement"
    client.until(future.done, what="a response")
    answer = future.result()
    assert answer.success, answer.message
    assert re.match(r"left: \[.*\d\] Nm\b", answer.message)
    held.wait_for("tared (left): tared: ")
    assert "tare [Nm]" in client.diagnosis(f"{held.name}/left")[1]
    assert client.call(Trigger, "/left/untare").message.startswith("left: ")


def test_tare_is_rejected_with_reason(cell, client):
    answer = client.call(Trigger, "/left/tare")
    assert not answer.success
    assert f"left follows {LEFT_CARTESIAN}" in answer.message
