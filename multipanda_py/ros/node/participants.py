# SPDX-License-Identifier: Apache-2.0
"""DDS participants of the node: the one that serves clients, and separate ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence

import rclpy
from rclpy.context import Context
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_default_context

from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.realtime.system.scheduling import (
    RESEND_THREAD_PREFIX,
    before_ordinary_threads,
    make_ordinary,
)
from multipanda_py.ros.node.guard import BARE_NODE_ARGUMENTS, GuardedNode
from multipanda_py.ros.node.running import SPIN_TIMEOUT, end_within, ended, make_executor, release

SWITCH_INTERVAL = 5e-4
"""Time after which a Python thread hands the interpreter lock to a waiting thread [s]."""


class SeparateParticipant:
    """Node with a separate DDS participant and thread, which messages of other nodes cannot delay.

    If real-time priorities are allowed, thread and middleware run at the lowest of these, below
    the loop and the drivers.

    Args:
        suffix: Suffix of the node's name after that of ``main``.
        args: Command line, which may have security options of the middleware.
        fill: Function that creates the entities of the node before it is served.

    Thread: main for :meth:`close`, a separate one for callbacks.
    """

    def __init__(
        self,
        main: GuardedNode,
        suffix: str,
        realtime: RealtimeConfig,
        args: Sequence[str] | None,
        fill: Callable[[GuardedNode], None],
    ) -> None:
        self._ends = False
        sys.setswitchinterval(SWITCH_INTERVAL)
        # The middleware starts its threads with the participant, and they inherit this priority.
        with before_ordinary_threads(realtime):
            self._context = Context()
            self._context.init(
                args=None if args is None else list(args),
                initialize_logging=False,
                domain_id=main.context.get_domain_id(),
            )
            self.node = GuardedNode(
                f"{main.get_name()}{suffix}",
                guard=main.guard,
                namespace=main.get_namespace(),
                context=self._context,
                **BARE_NODE_ARGUMENTS,
            )
            fill(self.node)
            self._executor = make_executor(self._context)
            self._executor.add_node(self.node)
            name = suffix.strip("_")
            self.thread = threading.Thread(target=self._run, args=(name,), name=name, daemon=True)
            self.thread.start()
        make_ordinary(RESEND_THREAD_PREFIX)

    def close(self) -> None:
        """Answer all pending requests, then destroy the node and its participant."""
        self._ends = True
        self._executor.wake()
        self.thread.join()
        self.node.answers.close("the node ends")
        release(self._executor, [self.node])
        self._context.try_shutdown()

    def _run(self, name: str) -> None:
        while not self._ends:
            self.node.guard.call(name, self._executor.spin_once, SPIN_TIMEOUT)


RENEWAL_TIMEOUT = 30.0
"""Maximum time to destroy the entities of an unresponsive participant [s]."""
_abandoned: list[object] = []


class Serving:
    """Nodes of the cell and their executor, in rclpy's default context.

    Args:
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

        If this takes longer than :data:`RENEWAL_TIMEOUT`, the process ends, and its loop brings
        the arms to rest.
        """
        end_within(RENEWAL_TIMEOUT)
        context = get_default_context(shutting_down=True)
        # Deleting the old participant might block forever. The middleware deletes a participant
        # with its last node, so one node has to remain.
        last = Node(
            f"_{self._name}_abandoned_{len(_abandoned) + 1}",
            namespace=self.node.get_namespace(),
            context=context,
            **BARE_NODE_ARGUMENTS,
        )
        _abandoned.append((context, last, self.executor))
        guard = self.node.guard
        self.node.answers.close("the participant is recreated")
        # Clients stop using destroyed entities.
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
    """Return True if a replaced participant may delay the end of the process."""
    return bool(_abandoned)
