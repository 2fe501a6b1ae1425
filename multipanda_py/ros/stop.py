# SPDX-License-Identifier: Apache-2.0
"""The service that stops everything, beside whatever else the node is asked for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from rclpy.context import Context
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.config.node_names import STOP_SUFFIX
from multipanda_py.exceptions import MultipandaError
from multipanda_py.loop.events import Event
from multipanda_py.machine.realtime import SENDS_AGAIN, before_ordinary_threads, make_ordinary
from multipanda_py.ros.deferred_responses import Work
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.running import SPIN_TIMEOUT, make_executor, release

PATIENCE = 5e-3
"""How long the thread itself waits for the loop, which answers at its next cycle [s]."""
LOOK_PERIOD = 2e-4
SWITCH_INTERVAL = 5e-4
"""After which a thread of Python leaves the interpreter to another one that waits for it [s]."""


class Stop:
    """``stop``, with a participant of the middleware and a thread of its own.

    Whatever comes to a participant shares one receiver with few buffers, and whatever comes to an
    executor is served in order. Under a flood of targets a request gets lost in the one, and is
    repeated seconds later, or waits in the other. Only requests to stop come to these here. Where
    the cell may have real-time priorities, thread and middleware have the lowest there is: below
    loop and drivers, and above whatever else keeps the cores busy.

    Args:
        main: The node that stands for the cell; gives the name of the service.
        cell: The cell.
        args: Of the command line, for the middleware's security.

    Thread: served by its own; :meth:`close` belongs to main.
    """

    def __init__(self, main: GuardedNode, cell: Cell, args: Sequence[str] | None = None) -> None:
        self._cell, self._logger = cell, main.get_logger()
        self._ends = False
        sys.setswitchinterval(SWITCH_INTERVAL)
        # The middleware's threads begin with their participant, and have the priority of this one.
        with before_ordinary_threads(cell.config.realtime):
            self._open(main, args)
            self._thread = threading.Thread(target=self._run, name="stop", daemon=True)
            self._thread.start()
        make_ordinary(SENDS_AGAIN)

    def close(self) -> None:
        """Answer whoever waits, and give everything of the middleware back."""
        self._ends = True
        self._executor.wake()
        self._thread.join()
        self._node.answers.close("the node ends")
        release(self._executor, [self._node])
        self._context.try_shutdown()

    def _open(self, main: GuardedNode, args: Sequence[str] | None) -> None:
        self._context = Context()
        self._context.init(
            args=None if args is None else list(args),
            initialize_logging=False,
            domain_id=main.context.get_domain_id(),
        )
        self._node = GuardedNode(
            f"{main.get_name()}{STOP_SUFFIX}",
            guard=main.guard,
            namespace=main.get_namespace(),
            context=self._context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
            parameter_overrides=[Parameter("start_type_description_service", value=False)],
        )
        name = main.resolve_service_name("stop")
        self._by = f"service {name}"
        self._node.serve(Trigger, name, self._stop)
        self._executor = make_executor(self._context)
        self._executor.add_node(self._node)

    def _run(self) -> None:
        while not self._ends:
            self._node.guard.call("stop", self._executor.spin_once, SPIN_TIMEOUT)

    def _stop(self, request: Any, response: Any) -> Work:
        try:
            pending, asked = self._cell.ask_hold(by=self._by), time.monotonic()
            while (result := pending.look()) is None:
                if time.monotonic() - asked < PATIENCE:
                    time.sleep(LOOK_PERIOD)
                else:  # a loop that stands still; somebody else may ask meanwhile
                    yield
            stopped = ", ".join(result.deactivated) or "nothing was active"
            response.success = True
            response.message = f"{who_holds(self._cell)}; deactivated: {stopped}"
            self._logger.info(f"stop: {response.message}")
        except MultipandaError as error:
            response.success, response.message = False, str(error)
            self._logger.error(f"stop failed: {error}")


def who_holds(cell: Cell) -> str:
    """Say that every arm holds, or which do not: an arm whose robot has stopped takes no torque.

    Args:
        cell: The cell, after a stop. Its faults are those of the newest cycle.
    """
    faults = {arm: fault for arm in cell.arms if (fault := cell.state(arm).fault)}
    out = [arm for arm, fault in faults.items() if Event[fault.upper()].takes_torque]
    if not out:
        text = "every arm holds"
    elif len(out) < len(cell.arms):
        text = "every other arm holds"
    else:
        text = "no arm can hold"
    return "; ".join([text, *(f"{arm} has a fault: {fault}" for arm, fault in faults.items())])
