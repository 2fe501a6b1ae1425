# SPDX-License-Identifier: Apache-2.0
"""Readers of target messages, for built-in and plug-in types."""

from __future__ import annotations

import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import Float64, Int32

from multipanda_py.exceptions import TargetRejected
from multipanda_py.ros.node.conversions import MESSAGE_READERS, reader_of
from multipanda_py.targets import PLAIN_MESSAGES, Channel

pytestmark = pytest.mark.node


def test_plain_message_types_have_readers():
    assert set(PLAIN_MESSAGES) == set(MESSAGE_READERS)
    _, read = reader_of(Channel("own", 1, message="std_msgs/msg/Float64"))
    assert read(serialize_message(Float64(data=2.5)), ()).value == 2.5


def test_exception_in_reader_was_no_rejected_target():
    channel = Channel(
        "own", 1, message="std_msgs/msg/Int32", read=lambda message: 1 / message.data
    )
    kind, read = reader_of(channel)
    assert kind is Int32
    assert read(serialize_message(Int32(data=4)), ()).value == 0.25
    with pytest.raises(TargetRejected, match=r"^own: .*ZeroDivisionError"):
        read(serialize_message(Int32(data=0)), ())
