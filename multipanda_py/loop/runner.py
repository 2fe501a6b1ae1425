# SPDX-License-Identifier: Apache-2.0
"""What runs a loop, whoever gives it its time: the contract."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopError
from multipanda_py.loop.cycle import ControlLoop
from multipanda_py.loop.loop_state import LoopState
from multipanda_py.loop.mailbox import Mailbox, Word

STOP_TIMEOUT = 5.0
"""How long a loop may take to end [s]."""
HEARTBEAT_PERIOD = 0.05
"""How often the owner shows the loop that it is alive [s]."""
_LOOK_PERIOD = 2e-3
_ANSWER_PERIOD = 1e-4


class Runner(ABC):
    """Starts, watches and stops one loop."""

    def __init__(
        self, config: CellConfig, specs: Sequence[InstanceSpec], mailbox: Mailbox
    ) -> None:
        self._config, self._specs, self._mailbox = config, specs, mailbox

    @abstractmethod
    def start(self) -> list[str]:
        """Start the loop; return what the machine refused it, as sentences."""

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`LoopError` if the loop is not running, and say why."""

    @abstractmethod
    def stop(self) -> None:
        """End the loop; safe to call twice."""

    def beat(self) -> None:
        """Show the loop that its owner is alive."""
        self._mailbox.words[Word.CLIENT_HEARTBEAT] = time.monotonic_ns()

    @property
    def pid(self) -> int:
        """Process id of the loop."""
        return os.getpid()

    @property
    def loop(self) -> ControlLoop:
        """The loop itself, which only an inline one hands out.

        Raises:
            LoopError: If the loop runs by itself.
        """
        raise LoopError("the loop runs by itself, nobody else may touch it; use inline")

    def load(self, state: LoopState | None, seed: int | None) -> None:
        """Bring an inline loop back to a saved state, or to its start.

        Raises:
            LoopError: If the loop runs by itself.
        """
        raise LoopError("the loop runs by itself and cannot be set back; use inline")

    def step(self, cycles: int) -> None:
        """Run cycles by hand, which only an inline loop allows."""
        raise LoopError(f"cannot step {cycles} cycles: the loop runs by itself; use inline")

    def silence(self, started_ns: int) -> float:
        """Return the time since the loop began its newest cycle, or since its start [s]."""
        beat = self._mailbox.words[Word.LOOP_HEARTBEAT] or started_ns
        return (time.monotonic_ns() - beat) * 1e-9

    def pause(self) -> None:
        """Give the loop the time to answer: a fraction of its period, or a whole cycle.

        Raises:
            LoopError: If the loop is not running.
        """
        self.check()
        time.sleep(_ANSWER_PERIOD)

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Let the loop run until a condition holds; return whether it does.

        Args:
            condition: Asked again every few milliseconds.
            timeout: How long, in wall time [s].

        Raises:
            LoopError: If the loop is not running.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if condition():
                return True
            self.check()
            time.sleep(_LOOK_PERIOD)
        return condition()


def start_loop(loop: ControlLoop, config: CellConfig, warm_up: int = 300) -> None:
    """Start a loop; if that fails, let go of the arms that it has connected."""
    try:
        loop.start(config.active, warm_up)
    except BaseException:
        loop.close()
        raise
