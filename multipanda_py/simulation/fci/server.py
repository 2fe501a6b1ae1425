# SPDX-License-Identifier: Apache-2.0
"""Event loop of any number of simulated robots, each with its own address."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Sequence

from multipanda_py.simulation.fci.admin import Admin, AdminPort
from multipanda_py.simulation.fci.control_unit import ControlUnit, Timing
from multipanda_py.simulation.fci.world import RobotWorld

LONGEST_SLEEP = 0.1  # Maximum time between checks of the end condition [s].


class Server:
    """Server of simulated robots.

    Attributes:
        control_units: Control units, one per address.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        timings: Sequence[Timing],
        *,
        together: bool = False,
        world: RobotWorld | None = None,
    ) -> None:
        """Open all ports.

        Args:
            addresses: Addresses of the robots.
            timings: Timing of each robot.
            together: True if robots in lockstep wait for the commands of all moving robots.
            world: Scene of all arms, in their order; None for a separate scene per arm.

        Raises:
            BackendError: If a port is in use.
        """
        # The timeout of select has a resolution of a microsecond, that of epoll only a
        # millisecond.
        self._selector = selectors.SelectSelector()
        self._together = together
        self.control_units: list[ControlUnit] = []
        for index, (address, timing) in enumerate(zip(addresses, timings)):
            unit = ControlUnit(address, self._selector, timing, world, index if world else 0)
            self.control_units.append(unit)
            AdminPort(self._selector, address, Admin(unit))

    def run(
        self, keep_going: Callable[[], bool], on_second: Callable[[Server], None] | None = None
    ) -> None:
        """Serve until ``keep_going`` returns False.

        Args:
            keep_going: Condition that is checked periodically.
            on_second: Function that is called once a second.
        """
        selector, control_units = self._selector, self.control_units
        report_at = look_at = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= look_at:
                look_at = now + LONGEST_SLEEP
                if not keep_going():
                    return
                if on_second is not None and now >= report_at + 1.0:
                    report_at = now
                    on_second(self)
            hold = max(unit.wait_time for unit in control_units) if self._together else 0
            sleep = min(unit.advance(hold=hold > 0) for unit in control_units)
            sleep = min(sleep, hold) if hold else sleep
            for key, _ in selector.select(min(sleep * 1e-9, LONGEST_SLEEP)):
                key.data()

    def close(self) -> None:
        """Close every port."""
        for unit in self.control_units:
            unit.close()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
