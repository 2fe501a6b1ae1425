# SPDX-License-Identifier: Apache-2.0
"""Message sizes counted from C structures, against a count over Python objects."""

from __future__ import annotations

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory, GripperCommand
from controller_manager_msgs.srv import ListControllers, LoadController, SwitchController
from diagnostic_msgs.msg import DiagnosticArray
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.serialization import deserialize_message, serialize_message
from rosidl_parser.definition import AbstractSequence, AbstractString, Array, BasicType
from sensor_msgs.msg import CameraInfo, JointState, PointCloud2
from simulation_interfaces.srv import SetEntityState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger

from multipanda_py.ros.node.bounded_messages import (
    MessageSize,
    bounded,
    bounded_action,
    layout_of,
    too_large,
)

pytestmark = pytest.mark.inline

KINDS = [
    *(kind.Request for kind in (
        SetParameters, SetParametersAtomically, GetParameters, DescribeParameters, ListParameters,
        SwitchController, LoadController, SetEntityState, ChangeState, SetBool)),
    FollowJointTrajectory.Impl.SendGoalService.Request,
    GripperCommand.Impl.SendGoalService.Request,
    ListControllers.Response, DiagnosticArray, JointState, CameraInfo, PointCloud2,
    Float64MultiArray,
]  # fmt: skip
SIZES = {"double": 8, "int64": 8, "uint8": 1, "int8": 1, "octet": 1, "boolean": 1, "float": 4,
         "uint32": 4, "int32": 4, "uint16": 2, "int16": 2, "uint64": 8, "char": 1}  # fmt: skip
STRUCTURES = {"text": 24}


def fill(message, draw):
    """Fill every list and every string of a message."""
    for name, slot in zip(message.get_fields_and_field_types(), message.SLOT_TYPES):
        value = getattr(message, name)
        if isinstance(slot, AbstractString):
            setattr(message, name, "x" * draw())
        elif isinstance(slot, AbstractSequence):
            setattr(message, name, elements(slot, draw))
        elif isinstance(slot, Array) and not isinstance(slot.value_type, BasicType):
            for one in value:
                fill(one, draw)
        elif hasattr(value, "SLOT_TYPES"):
            fill(value, draw)
    return message


def elements(slot, draw):
    number = draw()
    if isinstance(slot.value_type, AbstractString):
        return ["x" * draw() for _ in range(number)]
    if isinstance(slot.value_type, BasicType):
        kind = slot.value_type.typename
        if kind == "octet":
            return [b"\0"] * number
        return [{"boolean": False, "double": 0.5, "float": 0.5}.get(kind, 0)] * number
    module = __import__(".".join(slot.value_type.namespaces), fromlist=["x"])
    kind = getattr(module, slot.value_type.name)
    return [fill(kind(), draw) for _ in range(number)]


def count(message):
    """Return the number of objects in lists, and the bytes of lists and strings."""
    parts, size = 0, 0
    for name, slot in zip(message.get_fields_and_field_types(), message.SLOT_TYPES):
        value = getattr(message, name)
        if isinstance(slot, AbstractString):
            size += len(value)
        elif isinstance(slot, (AbstractSequence, Array)):
            is_list = isinstance(slot, AbstractSequence)
            if isinstance(slot.value_type, BasicType):
                size += is_list * len(value) * SIZES[slot.value_type.typename]
                continue
            parts += is_list * len(value)
            for one in value:
                if isinstance(one, str):
                    size += is_list * STRUCTURES["text"] + len(one)
                else:
                    more = count(one)
                    parts += more[0]
                    size += more[1] + is_list * layout_of(type(one)).size
        elif hasattr(value, "SLOT_TYPES"):
            more = count(value)
            parts, size = parts + more[0], size + more[1]
    return parts, size


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(seed=st.integers(0, 2**32))
def test_message_size_equals_object_count_and_content_is_preserved(kind, seed):
    rng = np.random.default_rng(seed)
    message = fill(kind(), lambda: int(rng.integers(4)))
    raw, (parts, size) = serialize_message(message), count(message)
    assert deserialize_message(raw, bounded(kind, MessageSize(parts, size))) == message
    if parts:
        assert too_large(deserialize_message(raw, bounded(kind, MessageSize(parts - 1, size))))
    if size:
        assert too_large(deserialize_message(raw, bounded(kind, MessageSize(parts, size - 1))))


def test_request_without_lists_keeps_rclpy_type():
    assert bounded(Trigger.Request, MessageSize(0, 0)) is Trigger.Request


def test_oversized_goal_keeps_its_id():
    goal = FollowJointTrajectory.Impl.SendGoalService.Request()
    goal.goal_id.uuid[:] = np.arange(16)
    goal.goal.trajectory.joint_names = ["x"] * 11
    kind = bounded_action(FollowJointTrajectory, MessageSize(10, 1000))
    found = deserialize_message(serialize_message(goal), kind.Impl.SendGoalService.Request)
    assert isinstance(found, FollowJointTrajectory.Impl.SendGoalService.Request)
    assert found.goal_id == goal.goal_id
    assert not found.goal.trajectory.joint_names
    assert "allowed 10" in too_large(found.goal)
    assert isinstance(found.goal, FollowJointTrajectory.Goal)
    assert serialize_message(found)
