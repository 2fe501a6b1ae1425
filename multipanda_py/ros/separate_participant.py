# SPDX-License-Identifier: Apache-2.0
"""Node with a separate context, participant of the middleware and thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence

from rclpy.context import Context

from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.machine.realtime import SENDS_AGAIN, before_ordinary_threads, make_ordinary
from multipanda_py.ros.guard import BARE, GuardedNode
from multipanda_py.ros.running import SPIN_TIMEOUT, make_executor, release

SWITCH_INTERVAL = 5e-4
"""Time after which a Python thread hands the interpreter lock to a waiting thread [s]."""


class SeparateParticipant:
    """Node that is served independently of the main thread and its participant.

    Messages to a participant share one receiver with few buffers, and an executor serves its
    callbacks in order. If real-time priorities are allowed, thread and middleware run at the
    lowest one. That is below the loop and the drivers, and above all ordinary processes.

    Args:
        main: Main node of the cell, from which namespace, guard and domain are taken.
        suffix: Suffix of the node's name after that of ``main``.
        realtime: Real-time settings of the cell.
        args: Command line, for the middleware's security.
        fill: Function that creates the entities of the node before it is served.

    Attributes:
        node: The node.
        thread: Thread that serves the node.

    Thread: served by its own; :meth:`close` belongs to main.
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
        # The middleware starts its threads with the participant; they inherit this priority.
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
                **BARE,
            )
            fill(self.node)
            self._executor = make_executor(self._context)
            self._executor.add_node(self.node)
            name = suffix.strip("_")
            self.thread = threading.Thread(target=self._run, args=(name,), name=name, daemon=True)
            self.thread.start()
        make_ordinary(SENDS_AGAIN)

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
