# SPDX-License-Identifier: Apache-2.0
"""The participant that serves clients: its main node, its executor and all other nodes."""

from __future__ import annotations

from collections.abc import Sequence

import rclpy
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_default_context

from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.running import end_within, ended, make_executor, release

RENEWAL = 30.0
"""Maximum time that a participant that is given up may take to withdraw [s]."""
_abandoned: list[object] = []


class Serving:
    """Main node, executor and nodes in rclpy's default context.

    Args:
        name: Name of the main node.
        args: Command line, or None for that of the process.

    Attributes:
        node: Main node.
        executor: Executor of all nodes.
        nodes: All nodes, the main one first.

    Thread: main.
    """

    def __init__(self, name: str, args: Sequence[str] | None) -> None:
        self._name, self._args = name, args
        self.node = GuardedNode(name)
        self.executor: Executor = make_executor()
        self.nodes = [self.node]

    def renew(self) -> None:
        """Leave a participant that does not answer, and begin again with another one.

        All entities of the old one are destroyed, so that nobody else goes on with them. The
        participant itself stays until the process ends: to delete it waits for its threads, which
        may stand for good, and keeps the interpreter meanwhile. If its entities are not given back
        within :data:`RENEWAL`, the process ends; its loop brings the arms to rest.
        """
        end_within(RENEWAL)
        context = get_default_context(shutting_down=True)
        # The middleware deletes a participant with its last node.
        last = Node(
            f"_{self._name}_abandoned_{len(_abandoned) + 1}",
            namespace=self.node.get_namespace(),
            context=context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
            parameter_overrides=[Parameter("start_type_description_service", value=False)],
        )
        _abandoned.append((context, last, self.executor))
        guard = self.node.guard
        self.node.answers.close("the participant is recreated")
        release(self.executor, self.nodes)
        rclpy.init(args=self._args, signal_handler_options=SignalHandlerOptions.NO)
        self.node = GuardedNode(self._name, guard=guard)
        self.executor = make_executor()
        self.nodes.append(self.node)
        ended()

    def release(self) -> None:
        """Give everything back."""
        release(self.executor, self.nodes)


def has_abandoned() -> bool:
    """Return whether a participant was left that may keep the end of the process waiting."""
    return bool(_abandoned)
