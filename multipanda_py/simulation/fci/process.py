# SPDX-License-Identifier: Apache-2.0
"""Process of simulated robots: its event loop, and a handle for tests."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from multipanda_py.exceptions import BackendError, MultipandaError
from multipanda_py.realtime.system.child_process import (
    Closeable,
    ended,
    log_line,
    module_command,
)
from multipanda_py.realtime.system.signals import time_left
from multipanda_py.simulation.fci.arguments import FIRST_ADDRESS, add_arguments
from multipanda_py.simulation.fci.control_unit import ControlUnit, Timing
from multipanda_py.simulation.fci.fault_injection import Admin, AdminClient, AdminPort
from multipanda_py.simulation.fci.world import RobotWorld

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig

READY = "ready"
START_TIMEOUT = 20.0  # Maximum time until a started process has opened its ports [s].


class FciSim(Closeable):
    """Simulated robots that run while the ``with`` block is active.

    .. code-block:: python

        with FciSim(["127.0.0.1", "127.0.0.2"], lockstep=True) as sim:
            ...  # A client in another process connects to both addresses.
            sim.admin("127.0.0.1", "stats")

    Attributes:
        process: Process of the robots, between :meth:`start` and :meth:`close`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        lockstep: bool = False,
        together: bool = False,
        phases: Sequence[float] = (),
        ppm: Sequence[float] = (),
        priority: int = 0,
        cell: str | Path = "",
        tidy: bool = False,
    ) -> None:
        """Store the arguments of the robots.

        Args:
            addresses: Addresses of the robots, such as ``127.0.0.1``.
            lockstep: True to send a state as soon as the client has answered the previous one.
            together: True for a lockstep in which a robot also waits for the commands of all other
                moving robots.
            phases: Delay of the first state of each robot [ms]; missing values are 0.
            ppm: Rate error of each robot's clock, positive if too slow [parts per million];
                missing values are 0.
            priority: SCHED_FIFO priority of the process, 0 for none.
            cell: Cell file whose arms and objects are simulated; if empty, one arm with gripper
                per address.
            tidy: True to move objects to their initial poses before each motion of a robot, unless
                another robot moves.
        """
        self._arguments = [*addresses]
        if lockstep:
            self._arguments.append("--lockstep")
        if together:
            self._arguments.append("--synchronized")
        for name, values in (("--phase", phases), ("--ppm", ppm)):
            for value in values:
                self._arguments.append(f"{name}={value}")
        if priority:
            self._arguments.append(f"--priority={priority}")
        if cell:
            self._arguments.append(f"--cell={cell}")
        if tidy:
            self._arguments.append("--tidy")
        self.process: subprocess.Popen[bytes] | None = None
        self._admins: dict[str, AdminClient] = {}

    def start(self) -> None:
        """Start the process and wait until its ports are open.

        Raises:
            BackendError: If the process does not start.
        """
        command = module_command(__name__, *self._arguments)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must not reach the new process.
        )  # fmt: skip
        out = self.process.stdout
        if out is None or not select.select([out], [], [], START_TIMEOUT)[0]:
            self.close()
            raise BackendError(f"simulated robots did not start within {START_TIMEOUT:g} s")
        line = out.readline().decode().strip()
        if line != READY:
            self.close()
            raise BackendError(line or "simulated robots did not start")

    def admin(self, address: str, command: str, **arguments: Any) -> dict[str, Any]:
        """Execute a command on the fault injection port of a robot; return its answer.

        Raises:
            BackendError: If the robot rejects the command or does not answer.
        """
        if address not in self._admins:
            self._admins[address] = AdminClient(address)
        return self._admins[address].request(command, **arguments)

    def close(self) -> None:
        """End the process of the robots, and wait for its end; safe to call twice."""
        for client in self._admins.values():
            client.close()
        self._admins.clear()
        process, self.process = self.process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        ended(process, time_left(5.0))  # The process ends when its standard input is closed.

    def __enter__(self) -> Self:
        self.start()
        return self


MAX_SLEEP = 0.1  # Maximum time between checks of the end condition [s].


class Server:
    """Event loop of simulated robots, with their ports.

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
        """Create one control unit per address, and open its ports.

        Args:
            addresses: Addresses of the robots.
            timings: Timing of each robot.
            together: True if robots in lockstep wait for the commands of all moving robots.
            world: Scene of all arms, in the order of ``addresses``; None: a scene per arm.

        Raises:
            BackendError: If a port is in use.
        """
        # The timeout of select has a resolution of 1 us. That of epoll has only 1 ms, too coarse
        # for cycles of 1 ms.
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
            keep_going: Function that is called at least every :data:`MAX_SLEEP`.
            on_second: Function that is called once a second, such as a display; None for none.
        """
        selector, control_units = self._selector, self.control_units
        report_at = check_at = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= check_at:
                check_at = now + MAX_SLEEP
                if not keep_going():
                    return
                if on_second is not None and now >= report_at + 1.0:
                    report_at = now
                    on_second(self)
            hold = max(unit.wait_time for unit in control_units) if self._together else 0
            sleep = min(unit.advance(hold=hold > 0) for unit in control_units)
            sleep = min(sleep, hold) if hold else sleep
            for key, _ in selector.select(min(sleep * 1e-9, MAX_SLEEP)):
                key.data()

    def close(self) -> None:
        """Close the ports of all robots."""
        for unit in self.control_units:
            unit.close()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()


def make_server(options: argparse.Namespace, cell: CellConfig | None = None) -> Server:
    """Open the ports of simulated robots, set the priority of this process; return the server.

    Args:
        options: Arguments of :func:`.add_arguments`. Missing ``addresses`` are added: those of the
            cell, or default ones.
        cell: Configuration of robots and objects; None to read the cell file in ``options``.

    Raises:
        BackendError: If a port is in use, or the priority is not permitted.
        ConfigurationError: If an arm of the cell is not an FR3 with rigid joints.
    """
    world = _world_and_addresses(options, cell)
    timings = [
        Timing(
            options.lockstep or options.synchronized,
            _item(options.phase, i),
            _item(options.ppm, i),
        )
        for i in range(len(options.addresses))
    ]
    server = Server(options.addresses, timings, together=options.synchronized, world=world)
    if options.priority > 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(options.priority))
        except OSError as error:
            server.close()
            raise BackendError(
                f"--priority: cannot set a real-time priority: {error.strerror}"
            ) from error
    gc.collect()
    gc.freeze()
    gc.disable()
    return server


def _world_and_addresses(
    options: argparse.Namespace, cell: CellConfig | None
) -> RobotWorld | None:
    # Missing addresses are added to the options.
    if cell is None and options.cell is None:
        options.addresses = options.addresses or [FIRST_ADDRESS]
        return None
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.simulation.fci.scene import robots_of, world_of

    config = CellConfig.from_yaml(options.cell) if cell is None else cell
    arms = robots_of(config, options.addresses)
    options.addresses = list(arms)
    return world_of(config, list(arms.values()), reset_objects=options.tidy)


def _item(values: Sequence[float], index: int) -> float:
    return values[index] if index < len(values) else 0.0


def main() -> int:
    """Serve the robots until the parent closes the standard input; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    options = parser.parse_args()
    # A test that uses libfranka has a real-time priority, which this process has inherited and
    # must not keep.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    # Ctrl-C reaches the parent process, which then ends this one in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = make_server(options)
    except (MultipandaError, OSError) as error:
        _answer(str(error))
        return 1
    _answer(READY)
    try:
        server.run(_parent_lives)
    except MultipandaError as error:
        log_line(f"simulated robots: {error}")
        return 1
    finally:
        server.close()
    return 0


def _parent_lives() -> bool:
    # The parent closes the standard input of this process when it ends.
    return not select.select([0], [], [], 0.0)[0] or bool(os.read(0, 4096))


def _answer(text: str) -> None:
    with contextlib.suppress(OSError):  # The parent process may have ended.
        os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
