# SPDX-License-Identifier: Apache-2.0
"""Services for attached objects, with the reason of a rejection."""

from __future__ import annotations

import re

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from simulation_interfaces.msg import EntityState, Result
from simulation_interfaces.srv import SetEntityState
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.clock, pytest.mark.node]

LEFT_Y = 0.3
"""Position of the left base along y [m]; its x and z are zero."""
BOX_X, BOX_Z = 0.45, 0.25
"""Position of the box on the table, in front of the tools [m]."""


@pytest.fixture
def put_box(client):
    """A function that puts the box on the table; teardown moves the box back."""

    def put(position):
        state = EntityState()
        state.pose.position.x, state.pose.position.y, state.pose.position.z = position
        state.pose.orientation.w = 1.0
        answer = client.call(SetEntityState, "/set_entity_state", entity="box", state=state)
        assert answer.result.result == Result.RESULT_OK, answer.result.error_message

    yield put
    put((0.6, 0.0, BOX_Z))


def distance_to_box(client, y):
    """Return the distance between the left tool and the box [m]."""
    tool = client.newest(PoseStamped, "left/current_pose").pose.position
    return float(np.linalg.norm([tool.x - BOX_X, tool.y + LEFT_Y - y, tool.z - BOX_Z]))


def test_near_object_is_attached_and_detached(cell, client, put_box):
    put_box((BOX_X, LEFT_Y, BOX_Z))
    assert distance_to_box(client, LEFT_Y) < 0.29
    answer = client.call(Trigger, "/left/attach")
    assert answer.success, answer.message
    assert answer.message.startswith("left holds box")
    assert client.call(Trigger, "/left/detach").message.endswith("box")
    answer = client.call(Trigger, "/left/detach")  # nothing is attached
    assert answer.success
    assert not answer.message.endswith("box")


def test_distant_object_is_not_attached(cell, client, put_box):
    put_box((BOX_X, LEFT_Y - 0.5, BOX_Z))
    answer = client.call(Trigger, "/left/attach")
    assert not answer.success
    found = re.fullmatch(
        r"left: the nearest object, box, is (0\.\d+) m from the tool, allowed 0\.3 m\. .*",
        answer.message,
    )
    assert found, answer.message
    assert float(found[1]) == pytest.approx(distance_to_box(client, LEFT_Y - 0.5), abs=0.02)
