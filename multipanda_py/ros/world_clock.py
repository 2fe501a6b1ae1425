# SPDX-License-Identifier: Apache-2.0
"""The time of the simulated world, for everybody who has ``use_sim_time``."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from multipanda_py.cell import Cell
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.ros.clock import NodeClock
from multipanda_py.ros.fresh_states import world_time
from multipanda_py.ros.qos import CLOCK
from multipanda_py.ros.running import every


class WorldClock:
    """Send the time of the newest cycle on ``/clock``; nothing while the loop stands still.

    Thread: executor.

    Raises:
        ConfigurationError: If the node itself does not live by ``/clock``: its stamps would be of
            another time than the one that it tells.
    """

    def __init__(self, node: Node, cell: Cell, clock: NodeClock) -> None:
        rate = cell.config.cell.clock_rate
        if not clock.comes_from_topic:
            raise ConfigurationError(
                f"cell.clock_rate: got {rate:g} with use_sim_time: false, allowed 0; or set "
                "use_sim_time to true, for the node's own stamps too"
            )
        self._cell, self._cycle = cell, 0
        self._publisher = node.create_publisher(Clock, "/clock", CLOCK)
        every(node, 1.0 / rate, self._tick)

    def _tick(self) -> None:
        row = self._cell.row()
        if int(row["cycle"]) != self._cycle:
            self._cycle = int(row["cycle"])
            sec, nanosec = world_time(row)
            self._publisher.publish(Clock(clock=Time(sec=sec, nanosec=nanosec)))
