# SPDX-License-Identifier: Apache-2.0
"""Services for attached objects, with the reason of a rejection."""

from __future__ import annotations

import re

import pytest
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.clock, pytest.mark.node]


def test_object_is_attached_if_near_and_detached(cell, client):
    answer = client.call(Trigger, "/left/attach")
    refused = r"left: the nearest object, box, is 0\.\d+ m from the tool, allowed 0\.3 m\. .*"
    if answer.success:
        assert answer.message.startswith("left holds box")
        assert client.call(Trigger, "/left/detach").message.endswith("box")
    else:
        assert re.fullmatch(refused, answer.message)
    answer = client.call(Trigger, "/left/detach")
    assert answer.success
    assert answer.message.startswith("left ")
