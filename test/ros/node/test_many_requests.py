# SPDX-License-Identifier: Apache-2.0
"""Requests to a busy node are queued, also in large numbers."""

from __future__ import annotations

import pytest
import rclpy
from control_msgs.action import GripperCommand
from processes import wait_until
from rclpy.action import ActionClient, CancelResponse, GoalResponse
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile
from std_srvs.srv import Trigger

from multipanda_py.ros.node.guard import GuardedNode, PlainActionServer

pytestmark = pytest.mark.node

MANY = 40
PROFILE = QoSProfile(depth=MANY)  # one client in place of many
NAMES = ("plain", "deferred")


def at_once(request, response):
    response.success = True
    return response


def later(request, response):
    yield
    response.success = True


@pytest.fixture
def ends():
    """A server node, a client node, and a function that spins both until a condition."""
    context = Context()
    rclpy.init(context=context)
    server = GuardedNode("busy", namespace="/busy", context=context)
    requester = rclpy.create_node("asks", namespace="/busy", context=context)
    executor = SingleThreadedExecutor(context=context)
    for node in (server, requester):
        executor.add_node(node)

    def until(condition):
        wait_until(condition, 10.0, step=lambda: executor.spin_once(timeout_sec=0.02))

    yield server, requester, until
    executor.shutdown()
    for node in (server, requester):
        node.destroy_node()
    rclpy.shutdown(context=context)


def test_busy_node_lost_all_but_last_ten_requests(ends):
    server, requester, until = ends
    server.create_service(Trigger, NAMES[0], at_once)
    server.serve(Trigger, NAMES[1], later)
    clients = [requester.create_client(Trigger, name, qos_profile=PROFILE) for name in NAMES]
    for client in clients:
        assert client.wait_for_service(10.0)
    futures = [client.call_async(Trigger.Request()) for _ in range(MANY) for client in clients]
    until(lambda: all(future.done() for future in futures))
    assert all(future.result().success for future in futures)


def test_busy_node_lost_all_but_last_ten_goals(ends):
    server, requester, until = ends
    PlainActionServer(
        server, GripperCommand, "hand", execute_callback=lambda handle: None,
        goal_callback=lambda goal: GoalResponse.REJECT,
        cancel_callback=lambda handle: CancelResponse.REJECT,
    )  # fmt: skip
    client = ActionClient(requester, GripperCommand, "hand", goal_service_qos_profile=PROFILE)
    assert client.wait_for_server(10.0)
    futures = [client.send_goal_async(GripperCommand.Goal()) for _ in range(MANY)]
    until(lambda: all(future.done() for future in futures))
    assert not any(future.result().accepted for future in futures)
