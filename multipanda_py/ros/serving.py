# SPDX-License-Identifier: Apache-2.0
"""Main node, executor and further nodes of the participant that serves clients."""

from __future__ import annotations

from collections.abc import Sequence

import rclpy
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_default_context

from multipanda_py.ros.guard import BARE, GuardedNode
from multipanda_py.ros.running import end_within, ended, make_executor, release

RENEWAL = 30.0
"""Maximum time to destroy the entities of an unresponsive participant [s]."""
_abandoned: list[object] = []


class Serving:
    """Nodes of the cell and their executor, in rclpy's default context.

    Args:
        name: Name of the main node.
        args: Command line; None for that of the process.

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
        """Replace a participant that does not answer by a new one.

        All entities of the old participant are destroyed, so that clients stop using them. The old
        participant itself stays until the process ends. Deleting it waits for its threads, which
        may be blocked forever, and holds the interpreter lock meanwhile. If the entities are not
        destroyed within :data:`RENEWAL`, the process ends, and its loop brings the arms to rest.
        """
        end_within(RENEWAL)
        context = get_default_context(shutting_down=True)
        # The middleware deletes a participant with its last node, so one node has to remain.
        last = Node(
            f"_{self._name}_abandoned_{len(_abandoned) + 1}",
            namespace=self.node.get_namespace(),
            context=context,
            **BARE,
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
        """Destroy the executor and all nodes."""
        release(self.executor, self.nodes)


def has_abandoned() -> bool:
    """Return whether an abandoned participant may delay the end of the process."""
    return bool(_abandoned)
