# SPDX-License-Identifier: Apache-2.0
"""Detection of faults in the ROS graph that would otherwise stay unnoticed.

Two cells, or a cell and a ros2_control robot, must not use the same names. A call of
``left/controller_manager/switch_controller`` would reach both, and every target would move two
arms.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import rclpy
from controller_manager_msgs.srv import ListControllers
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.exceptions import CellBusy
from multipanda_py.ros.node.guard import BARE_NODE_ARGUMENTS, GuardedNode, ThrottledLog
from multipanda_py.ros.node.qos import (
    QosMismatch,
    describe_mismatch,
    full_name,
    incompatible_endpoints,
    is_known,
    opposite_endpoints,
)
from multipanda_py.ros.node.running import every
from multipanda_py.ros.services.controllers import MANAGER_NAME
from multipanda_py.ros.topics.targets import Targets

PERIOD = 0.5
"""Period of :meth:`GraphWatch.check` [s]."""
MAX_CHECKS = 10
"""Number of checks after which a mismatch is reported with an unknown node name."""
DISCOVERY_TIMEOUT = 3.5
"""Maximum time to find all running nodes [s]. Fast DDS repeats lost announcements after 3 s."""
MAX_LISTING_TIME = 22.0
"""Maximum wait for an answer of a listed process [s]. If it is still listed then, it is alive:
Fast DDS forgets a dead process within 20 s. A live process does not answer while its services are
not yet known to this node."""
REPEAT_PERIOD = 0.5
"""Period of repeated requests [s]. A server may drop the first request of a new client."""


class GraphWatch:
    """Warnings about competing publishers, wrong message types and QoS mismatches.

    Args:
        targets: Target topics to check. Names of publishers are stored in ``targets.senders``.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, targets: Targets) -> None:
        self._node, self._targets, self._arms = node, targets, cell.arms
        self._start_time = time.monotonic()
        self._known_publishers: dict[str, frozenset[bytes]] = {}
        self._waited = dict.fromkeys(targets.topics, 0)
        self._reported = ThrottledLog()
        self._unsaid: list[tuple[QosMismatch, int]] = []
        self._incompatible: dict[str, tuple[QosMismatch, bool]] = {}
        every(node, PERIOD, self.check)

    def check(self) -> None:
        """Check QoS, publishers and node names once, and log warnings."""
        self._check_qos()
        for topic in self._targets.topics:
            self._check_publishers(topic)
        self._check_manager_names()

    def _check_qos(self) -> None:
        guard = self._node.guard
        for topic, (mismatch, is_named) in list(self._incompatible.items()):
            if incompatible_endpoints(mismatch) if is_named else opposite_endpoints(mismatch):
                guard.qos_warnings[topic] = describe_mismatch(mismatch)
            else:
                del self._incompatible[topic], guard.qos_warnings[topic]
        self._unsaid += [(mismatch, 0) for mismatch in guard.mismatches]
        guard.mismatches.clear()
        waiting, self._unsaid = self._unsaid, []
        # The name of the other node is discovered later than the mismatch, so wait for up to
        # ``MAX_CHECKS`` checks.
        for mismatch, looks in waiting:
            is_named = bool(incompatible_endpoints(mismatch))
            if looks < MAX_CHECKS and not is_named:
                self._unsaid.append((mismatch, looks + 1))
                continue
            self._incompatible[mismatch.topic] = mismatch, is_named
            guard.qos_warnings[mismatch.topic] = describe_mismatch(mismatch)
            self._warn(guard.qos_warnings[mismatch.topic])

    def _check_publishers(self, topic: str) -> None:
        if not self._node.count_publishers(topic) and not self._known_publishers.get(topic):
            return
        endpoints = self._node.get_publishers_info_by_topic(topic)
        gids = frozenset(bytes(one.endpoint_gid) for one in endpoints)
        if gids == self._known_publishers.get(topic):
            return
        self._waited[topic] += 1
        if self._waited[topic] < MAX_CHECKS and not all(map(is_known, endpoints)):
            return
        self._waited[topic], self._known_publishers[topic] = 0, gids
        owner, name, kind = self._targets.topics[topic]
        senders = sorted(full_name(one) for one in endpoints if one.topic_type == kind)
        self._targets.senders[owner, name] = senders
        if len(senders) > 1:
            self._warn(
                f"{topic} is published by {', '.join(senders)}. The newest message counts, so "
                "their streams compete. Stop all but one."
            )
        for other in endpoints:
            if other.topic_type != kind:
                self._warn(
                    f"{topic}: {full_name(other)} publishes {other.topic_type}, but the type "
                    f"must be {kind}. Its messages do not arrive."
                )

    def _check_manager_names(self) -> None:
        now = manager_counts(self._node, self._arms)
        more = sorted(name for name, count in now.items() if count > 1)
        guard = self._node.guard
        guard.taken_twice = ", ".join(more)
        # Soon after the start the other node is probably the older one, so this node ends.
        if more and time.monotonic() - self._start_time < DISCOVERY_TIMEOUT:
            guard.failure = guard.failure or conflicting_names(self._node, more)
        elif more:
            self._warn(
                f"{', '.join(more)}: another node has this name, so requests reach two robots. "
                "Use another namespace or ROS domain for one of them"
            )

    def _warn(self, text: str) -> None:
        if news := self._reported.new_text(text):
            self._node.get_logger().warning(news)


def manager_counts(node: Node, arms: Iterable[str]) -> Counter[str]:
    """Count the nodes that have a name of this cell's controller managers, by full name."""
    root = node.get_namespace().rstrip("/")
    ours = {f"{root}/{MANAGER_NAME}", *(f"{root}/{arm}/{MANAGER_NAME}" for arm in arms)}
    names = (f"{space.rstrip('/')}/{name}" for name, space in node.get_node_names_and_namespaces())
    return Counter(name for name in names if name in ours)


def check_name_conflicts(node: Node, arms: Iterable[str]) -> None:
    """Check that no other process uses names of this cell.

    Wait while the middleware still lists a killed process. Call this before the controller
    managers are created.

    Raises:
        CellBusy: If another process is alive; the message has the names.
    """
    listed = sorted(manager_counts(node, arms))
    if not listed:
        return
    node.get_logger().info(
        f"{len(listed)} names of this cell are in use. Checking for up to {MAX_LISTING_TIME:g} s "
        "if the process that uses them is alive"
    )
    if living := _living_managers(node, arms, listed):
        raise CellBusy(conflicting_names(node, living))


def conflicting_names(node: Node, names: Iterable[str]) -> str:
    """Return the error message for names of this cell that another process uses."""
    return (
        f"{', '.join(names)}: exists already on ROS domain {node.context.get_domain_id()}, and "
        "requests would reach two robots. Run this cell in another namespace "
        "(-r __ns:=/NAME, namespace:=NAME) or on another domain (ROS_DOMAIN_ID)"
    )


def _living_managers(main: Node, arms: Iterable[str], listed: list[str]) -> list[str]:
    node = rclpy.create_node(
        f"{main.get_name()}_start", context=main.context, **BARE_NODE_ARGUMENTS
    )
    executor = SingleThreadedExecutor(context=main.context)
    executor.add_node(node)
    try:
        clients = [
            node.create_client(ListControllers, f"{name}/list_controllers") for name in listed
        ]
        futures = [client.call_async(ListControllers.Request()) for client in clients]
        started = requested_at = time.monotonic()
        while still := sorted(manager_counts(main, arms)):
            now = time.monotonic()
            # A process that is still listed after MAX_LISTING_TIME is alive.
            if any(one.done() for one in futures) or now - started > MAX_LISTING_TIME:
                return still
            if now - requested_at > REPEAT_PERIOD:
                requested_at = now
                futures += [client.call_async(ListControllers.Request()) for client in clients]
            executor.spin_once(timeout_sec=0.05)
        return []
    finally:
        executor.shutdown()
        node.destroy_node()
