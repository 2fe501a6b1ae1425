# SPDX-License-Identifier: Apache-2.0
"""A loop in its caller's hands."""

from __future__ import annotations

from collections.abc import Callable

from multipanda_py.exceptions import LoopError
from multipanda_py.loop.build import build_loop
from multipanda_py.loop.cycle import ControlLoop
from multipanda_py.loop.loop_state import LoopState
from multipanda_py.loop.runner import Runner, start_loop


class InlineRunner(Runner):
    """Cycles run when asked for, in the caller's thread, on a clock of their own."""

    def start(self) -> list[str]:
        """Build and start the loop at cycle time zero."""
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        start_loop(self._loop, self._config, warm_up=2)
        self._loop.begin()
        self._loop.finish_start()
        self._period_ns = round(1e9 / self._config.cell.rate)
        self._now_ns = 0
        self._at_start = self._loop.save()
        self._open = True
        return self._loop.take_warnings()

    def check(self) -> None:
        """An inline loop runs as long as it is open."""
        if not getattr(self, "_open", False):
            raise LoopError("the loop is not running: the cell is closed")

    @property
    def loop(self) -> ControlLoop:
        """The loop itself, between two cycles."""
        self.check()
        return self._loop

    def load(self, state: LoopState | None, seed: int | None) -> None:
        """Bring the loop back to a saved state, or to its start; its clock goes on."""
        self.check()
        self._loop.load(self._at_start if state is None else state, seed, self._now_ns)

    def step(self, cycles: int) -> None:
        """Run ``cycles`` cycles as fast as the machine can."""
        self.check()
        cycle, step = self._loop.cycle, self._period_ns
        for _ in range(cycles):
            self._now_ns += step
            cycle(self._now_ns, self._now_ns)

    def silence(self, started_ns: int) -> float:
        """Nothing is late on a clock that stands still between the calls."""
        return 0.0

    def pause(self) -> None:
        """Run one cycle."""
        self.step(1)

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Run cycles until a condition holds, for at most ``timeout`` of the world's time [s]."""
        for _ in range(round(timeout * self._config.cell.rate)):
            if condition():
                return True
            self.step(1)
        return condition()

    def stop(self) -> None:
        """Release the arms."""
        if getattr(self, "_open", False):
            self._open = False
            self._loop.close()
