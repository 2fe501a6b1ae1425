# SPDX-License-Identifier: Apache-2.0
"""Simulated robots in a process of their own, and a handle on them for tests."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from multipanda_py.exceptions import BackendError, MultipandaError
from multipanda_py.realtime.system.child_process import Closing, ended, module_command, say
from multipanda_py.realtime.system.signals import time_left
from multipanda_py.simulation.fci.admin import AdminClient
from multipanda_py.simulation.fci.arguments import FIRST_ADDRESS, add_arguments
from multipanda_py.simulation.fci.control_unit import Timing
from multipanda_py.simulation.fci.server import Server

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.simulation.fci.world import RobotWorld

READY = "ready"
START_TIMEOUT = 20.0  # [s]


class FciSim(Closing):
    """Simulated robots, for as long as the ``with`` block lasts.

    .. code-block:: python

        with FciSim(["127.0.0.1", "127.0.0.2"], lockstep=True) as sim:
            ...  # a client in a process of its own connects to both addresses
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
        """Describe the robots.

        Args:
            addresses: Of the robots, such as ``127.0.0.1``.
            lockstep: Whether a state follows as soon as the one before is answered.
            together: Whether it then also waits for the other robots' commands.
            phases: Delays of the clocks, by robot [ms].
            ppm: How much too slow the clocks are, by robot [millionth].
            priority: SCHED_FIFO priority of the process, 0 for none.
            cell: File of the cell whose arms and things these are; an arm with its hand each if
                empty.
            tidy: Whether things are put back whenever a robot begins to move alone.
        """
        self._arguments = [*addresses]
        if lockstep:
            self._arguments.append("--lockstep")
        if together:
            self._arguments.append("--together")
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
            BackendError: If it could not be started.
        """
        command = module_command(__name__, *self._arguments)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the owner
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
        """Have the admin port of a robot execute a command; return its answer.

        Raises:
            BackendError: If it was refused.
        """
        if address not in self._admins:
            self._admins[address] = AdminClient(address)
        return self._admins[address].request(command, **arguments)

    def close(self) -> None:
        """End the process."""
        for client in self._admins.values():
            client.close()
        self._admins.clear()
        process, self.process = self.process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        ended(process, time_left(5.0))  # the end of its standard input ends it

    def __enter__(self) -> Self:
        self.start()
        return self


def make_server(options: argparse.Namespace, cell: CellConfig | None = None) -> Server:
    """Open the ports and take the priority.

    Args:
        options: Of :func:`.add_arguments`; addresses are filled in where none are given.
        cell: What the robots are and what is around them, instead of the file of the options.

    Raises:
        BackendError: If a port is taken, or the priority is refused.
        ConfigurationError: If the arms of the cell cannot be such robots.
    """
    world = _world(options, cell)
    timings = [
        Timing(
            options.lockstep or options.together, _item(options.phase, i), _item(options.ppm, i)
        )
        for i in range(len(options.addresses))
    ]
    server = Server(options.addresses, timings, together=options.together, world=world)
    if options.priority > 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(options.priority))
        except OSError as error:
            server.close()
            raise BackendError(f"no real-time priority: {error.strerror}") from error
    gc.collect()
    gc.freeze()
    gc.disable()
    return server


def _world(options: argparse.Namespace, cell: CellConfig | None) -> RobotWorld | None:
    """Return the world of a cell, if there is one, and fill in addresses."""
    if cell is None and options.cell is None:
        options.addresses = options.addresses or [FIRST_ADDRESS]
        return None
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.simulation.fci.scene import robots_of, world_of

    config = CellConfig.from_yaml(options.cell) if cell is None else cell
    arms = robots_of(config, options.addresses)
    options.addresses = list(arms)
    return world_of(config, list(arms.values()), tidy=options.tidy)


def _item(values: Sequence[float], index: int) -> float:
    return values[index] if index < len(values) else 0.0


def main() -> int:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    options = parser.parse_args()
    # libfranka takes a real-time priority, which its child processes inherit.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's goes to the owner, who ends us
    try:
        server = make_server(options)
    except (MultipandaError, OSError) as error:
        _answer(str(error))
        return 1
    _answer(READY)
    try:
        server.run(_owner_lives)
    except MultipandaError as error:
        say(f"simulated robots: {error}")
        return 1
    finally:
        server.close()
    return 0


def _owner_lives() -> bool:
    """Return whether the standard input is still open."""
    return not select.select([0], [], [], 0.0)[0] or bool(os.read(0, 4096))


def _answer(text: str) -> None:
    with contextlib.suppress(OSError):  # the owner may be gone
        os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
